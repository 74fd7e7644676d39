"""What a tether between two language policies would cost, from scores of draws of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Floats
from tether.control.families import Clip
from tether.llm.preflight_checks.result import Cost
from tether.policies.normalizer import clipped_normalizer


def checked(betas: Any) -> tuple[float, ...]:
    """Betas of at least 0, or an error that names the first that is none."""
    for place, beta in enumerate(betas):
        if not validate.real(f"betas[{place}]", beta) >= 0:
            raise ValueError(f"betas[{place}] must be at least 0, got {beta!r}")
    return tuple(float(beta) for beta in betas)


def of_betas(log_safe: Floats, log_optimized: Floats, betas: tuple[float, ...]) -> list[Cost]:
    """Acceptance of clip from ψ at each prompt; mix keeps every draw.

    A row a prompt: scores of n draws of the safe policy, then of n of the optimized one.
    """
    shared = np.asarray(np.isfinite(np.minimum(log_safe, log_optimized)).any(axis=1))
    costs = []
    for beta in betas:
        kept = np.zeros(len(shared))  # at a prompt where no draw is possible for both
        with np.errstate(divide="ignore", invalid="ignore"):
            log_beta = float(np.log(beta))
            if np.isinf(log_beta):
                kept[:] = 1.0
            elif shared.any():
                found = clipped_normalizer(log_safe[shared], log_optimized[shared], log_beta)
                kept[shared] = np.exp(Clip().log_acceptance(log_beta, found.log_psi))
            draws = float((1 / kept).mean())
        costs.append(Cost("clip", beta, float(kept.mean()), draws))
    return costs + [Cost("mix", beta, 1.0, 1.0) for beta in betas]
