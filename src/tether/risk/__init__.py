"""Which threshold: losses in, a threshold with a guarantee out."""

from tether.risk.claim_filter import filter_claims
from tether.risk.claim_losses import FalseAmongShown
from tether.risk.claims import Claims
from tether.risk.learn_then_test import ltt
from tether.risk.methods import crc, gcrc, monotonized_crc
from tether.risk.risk_curve import Sweep
from tether.risk.scored_labels import ScoredLabels
from tether.risk.selection import Selection, ThresholdCurve
from tether.risk.selection_stability import Stability
from tether.risk.sweep_losses import sweep
from tether.risk.tie_spreading import spread_ties

__all__ = [
    "Claims",
    "FalseAmongShown",
    "ScoredLabels",
    "Selection",
    "Stability",
    "Sweep",
    "ThresholdCurve",
    "crc",
    "filter_claims",
    "gcrc",
    "ltt",
    "monotonized_crc",
    "spread_ties",
    "sweep",
]
