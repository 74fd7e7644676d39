"""The types in which losses and their settings are passed to the four methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from numpy.typing import ArrayLike

from tether._core.types import Table
from tether.risk.claim_losses import LossFunction
from tether.risk.claims import Claims
from tether.risk.risk_curve import Sweep
from tether.risk.scanned_claims import ScannedClaims
from tether.risk.scored_labels import ScoredLabels

LossInput: TypeAlias = (
    ArrayLike | Table | Iterator[ArrayLike] | Claims | ScannedClaims | ScoredLabels | Sweep
)
"""One loss: a matrix (items × thresholds) or chunks of it, claims, scored labels or a sweep."""
LossInputs: TypeAlias = LossInput | Mapping[str, LossInput]
"""One loss, or several by name."""
LossName: TypeAlias = str | LossFunction
"""A loss by its name, or as a function."""
LossNames: TypeAlias = LossName | Sequence[LossName] | None
"""Which losses to compute, or None for the default."""
PerLoss: TypeAlias = float | Sequence[float] | Mapping[str, float]
"""One number for all losses, or one per loss, in order or by name."""
