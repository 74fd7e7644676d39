"""The promise: what the expected loss of the next action is at most.

Serving the calibrated beta keeps the expected loss within α + max(α, B − α)·ε, where ε is the
relative replace-one stability of beta. It is estimated by leaving each row out: with β̂₋ᵢ the beta
without row i and the row's share of the weight, ε̂ = Σ_i share_i·(max(β̂/β̂₋ᵢ, β̂₋ᵢ/β̂)^K − 1), K being
the smoothness of the family.
"""

from __future__ import annotations

import numpy as np

from tether._core.types import Floats
from tether.control.constraint import Constraint

ASSUMPTIONS = (
    "the log was produced by the policies its mixture names and was not used for training; "
    "contexts keep coming from the same distribution; losses lie in [0, bound]; every "
    "log-probability is that of the policy as it samples"
)


def instability(
    log_beta: float, without: Floats, share: Floats, smoothness: float, reach: tuple[float, float]
) -> float:
    """Estimate ε from beta, the betas without each row, the rows' shares and the smoothness K.

    Betas outside the reach of the policies all give the same policy as its nearest end.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.clip(without, *reach) - np.clip(log_beta, *reach)
        grown = np.expm1(smoothness * np.abs(np.where(np.isnan(moved), 0.0, moved)))
        return float(np.sum(share * grown, where=share > 0))


def promised_loss(constraint: Constraint, stability: float, *, exists: bool) -> float:
    """The stated bound on the expected loss: α + max(α, B − α)·ε, or B where no beta exists."""
    if not exists:
        return constraint.bound
    alpha, bound = constraint.alpha, constraint.bound
    return min(bound, alpha + max(alpha, bound - alpha) * stability)
