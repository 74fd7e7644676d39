"""Which threshold: losses in, a threshold with a guarantee out."""

from tether.thresholds.claims import Claims, ScoredLabels
from tether.thresholds.filter import filter_claims
from tether.thresholds.losses import FalseAmongShown
from tether.thresholds.methods import crc, gcrc, ltt, monotonized_crc
from tether.thresholds.selection import KeptShare, Selection, Stability, ThresholdChain
from tether.thresholds.selection import ThresholdCurve as ThresholdCurve
from tether.thresholds.sweep import Sweep, sweep

__all__ = [
    "Claims",
    "FalseAmongShown",
    "KeptShare",
    "ScoredLabels",
    "Selection",
    "Stability",
    "Sweep",
    "ThresholdChain",
    "ThresholdCurve",
    "crc",
    "filter_claims",
    "gcrc",
    "ltt",
    "monotonized_crc",
    "sweep",
]
