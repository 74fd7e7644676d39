"""Which threshold: losses in, a threshold with a guarantee out."""

from tether.risk.claims import Claims
from tether.risk.conformal import crc, gcrc, monotonized_crc
from tether.risk.curve import Sweep
from tether.risk.filter import filter_claims, spread_ties
from tether.risk.labels import ScoredLabels
from tether.risk.ltt import ltt
from tether.risk.selection import Selection, Stability
from tether.risk.stability import conservative_alpha
from tether.risk.sweep import sweep

__all__ = [
    "Claims",
    "ScoredLabels",
    "Selection",
    "Stability",
    "Sweep",
    "conservative_alpha",
    "crc",
    "filter_claims",
    "gcrc",
    "ltt",
    "monotonized_crc",
    "spread_ties",
    "sweep",
]
