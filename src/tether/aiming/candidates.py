"""Candidates to choose from: the optimized policy, and aimed versions of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.aiming.aim_at_alpha import aim
from tether.aiming.aimed_policy import AimedPolicy
from tether.aiming.fitted_loss import fit_loss
from tether.aiming.tempered_policy import TemperedPolicy
from tether.aiming.training_rows import LoggedRows
from tether.control.family import Family
from tether.policies.policy import as_policy

PLAIN = "plain"
"""The name of the optimized policy as it is."""


@dataclass(frozen=True)
class Candidate:
    """A policy that may be calibrated, with its family.

    Parameters
    ----------
    policy : Policy or Shortlist
        What is calibrated in place of the optimized policy.
    family : str or Family, default "clip"
        How beta turns it and the safe policy into one.
    """

    policy: Any
    family: str | Family = "clip"


def aimed_candidates(
    optimized: Any,
    alpha: float | Mapping[str, float],
    *,
    bound: float = 1.0,
    multiples: Sequence[float] = (1.0, 2.0, 4.0),
    temperatures: Sequence[float] = (1.0, 0.5),
) -> Callable[[LoggedRows, np.random.Generator], dict[str, Any]]:
    """Make a function that fits a loss model on training rows and aims the optimized policy by it.

    Parameters
    ----------
    optimized : FinitePolicy
        The optimized policy, over finitely many actions.
    alpha : float or mapping of str to float
        What is tolerated of the loss, or of each loss.
    bound : float, default 1.0
        The largest possible loss.
    multiples : sequence of float, default (1, 2, 4)
        How much to tilt, in units of the multiplier at which the predicted loss is alpha.
    temperatures : sequence of float, default (1, 0.5)
        Temperatures of the optimized policy before it is tilted.

    Returns
    -------
    callable
        A function of (rows, rng) that returns policies by name, the optimized one first: for
        `choose`. Where the loss model is a constant, there is nothing to aim by, and only the
        optimized policy is returned.

    Examples
    --------
    >>> import tether
    >>> optimized = tether.Categorical.from_probabilities([0.2, 0.8])
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.integers(2, size=400)
    >>> harm = (rng.random(400) < 0.4 * actions).astype(float)
    >>> rows = LoggedRows(400, actions, harm, actions.astype(float))
    >>> build = aimed_candidates(optimized, 0.1, temperatures=(1.0,))
    >>> list(build(rows, rng))
    ['plain', 'aimed × 1', 'aimed × 2', 'aimed × 4']
    """
    policy: Any = as_policy("optimized", optimized)

    def build(rows: LoggedRows, rng: np.random.Generator) -> dict[str, Any]:
        losses = rows.losses if isinstance(rows.losses, Mapping) else {"": rows.losses}
        known = (policy,) if rows.safe is None else (rows.safe, policy)
        models: dict[str, Any] = {
            name: fit_loss(
                rows.contexts, rows.actions, values, rng=rng, bound=bound, policies=known
            )
            for name, values in losses.items()
        }
        candidates: dict[str, Any] = {PLAIN: policy}
        if all(model.kind == "constant" for model in models.values()):
            return candidates
        targets = alpha if isinstance(alpha, Mapping) else {"": alpha}
        contexts = 1 if isinstance(rows.contexts, int) else rows.contexts
        for temperature in temperatures:
            base = policy if temperature == 1 else TemperedPolicy(policy, temperature)
            solved = aim(base, models, contexts, targets).multipliers
            heat = "" if temperature == 1 else f", temperature {temperature:g}"
            if not any(solved.values()):
                continue
            for multiple in multiples:
                tilt = {name: multiple * value for name, value in solved.items()}
                candidates[f"aimed × {multiple:g}{heat}"] = AimedPolicy(base, models, tilt)
        return candidates

    return build
