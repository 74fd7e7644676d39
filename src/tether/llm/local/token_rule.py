"""How beta turns two distributions of the next token into one, normalized over the vocabulary.

The rule is a family of the package applied to every token: clip, min(optimized, β·safe)/ψ, or mix,
(safe + β·optimized)/(1 + β). The normalizing constant ψ of clip at a prefix is a sum over the
vocabulary, and as a function of beta it is piecewise linear: tokens with a ratio up to beta add
their optimized probability, all others beta times their safe one. So one pass that sorts tokens
into the intervals between given betas gives ψ at all of them, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tether._core import validate
from tether._core.types import Floats
from tether.control.families import PathFamily

TOKEN_FAMILIES = ("clip", "mix")
"""The families that can be applied to every token."""


@dataclass(frozen=True)
class TokenRule:
    """A family applied to every token, with a share of the safe model in the optimized one."""

    family: str
    blend: float = 0.0

    def __post_init__(self) -> None:
        validate.choice("family", self.family, TOKEN_FAMILIES)
        validate.number("blend", self.blend, above=0, below=1, including=(0,))

    @property
    def name(self) -> str:
        """The name of the path of policies that the rule gives."""
        share = f"({np.format_float_positional(self.blend, trim='-')})" if self.blend else ""
        return PathFamily(f"token_{self.family}{share}").name

    def blended(self, log_safe: Any, log_optimized: Any) -> Any:
        """The log-probabilities of the optimized model with its share of the safe one."""
        if not self.blend:
            return log_optimized
        optimized = float(np.log1p(-self.blend)) + log_optimized
        return torch.logaddexp(optimized, float(np.log(self.blend)) + log_safe)

    def log_table(self, log_safe: Any, log_optimized: Any, log_beta: float) -> Any:
        """The log-probability of every token at one beta (rows × vocabulary)."""
        if log_beta == -np.inf:
            return log_safe
        log_optimized = self.blended(log_safe, log_optimized)
        if log_beta == np.inf:
            return log_optimized
        if self.family == "mix":
            mixed = torch.logaddexp(log_safe, log_optimized + log_beta)
            return mixed - float(np.logaddexp(0.0, log_beta))
        kernel = torch.minimum(log_optimized, log_safe + log_beta)
        return kernel - _required(torch.logsumexp(kernel, dim=1, keepdim=True))

    def log_densities(
        self, log_safe: Any, log_optimized: Any, tokens: Any, log_betas: Floats
    ) -> Any:
        """The log-probabilities of given tokens: safe, optimized, and at every beta.

        The tables are rows × vocabulary, the result is rows × (2 + betas). Betas are finite.
        """
        log_optimized = self.blended(log_safe, log_optimized)
        betas = torch.tensor(np.array(log_betas), device=log_safe.device)
        safe, optimized = (table.gather(1, tokens[:, None]) for table in (log_safe, log_optimized))
        if self.family == "mix":
            tethered = torch.logaddexp(safe, optimized + betas) - torch.nn.functional.softplus(
                betas, threshold=700.0
            )
        else:
            log_psi = _log_clip_normalizers(log_safe, log_optimized, betas)
            tethered = torch.minimum(optimized, safe + betas) - _required(log_psi)
        return torch.cat([safe, optimized, tethered], dim=1)


def _log_clip_normalizers(log_safe: Any, log_optimized: Any, log_betas: Any) -> Any:
    """Log of Σ min(optimized, β·safe) over the vocabulary at every beta (rows × betas)."""
    ratio = torch.nan_to_num(log_optimized - log_safe, nan=0.0)  # NaN: neither model's token
    interval = torch.searchsorted(log_betas, ratio.contiguous())  # how many betas are below it
    shape = (len(ratio), len(log_betas) + 1)
    unclipped, clipped = (
        torch.zeros(shape, dtype=table.dtype, device=table.device).scatter_add_(
            1, interval, table.exp()
        )
        for table in (log_optimized, log_safe)
    )
    below = unclipped.cumsum(dim=1)[:, :-1]
    above = clipped.flip(1).cumsum(dim=1).flip(1)[:, 1:]
    return torch.logaddexp(below.log(), above.log() + log_betas)


def _required(log_psi: Any) -> Any:
    """The normalizing constants, unless one of them is zero."""
    if torch.isneginf(log_psi).any():
        raise ValueError(
            "no token is possible under both models after some prefix, so clip has no distribution "
            "there: give a blend above 0, or use family 'mix'"
        )
    return log_psi
