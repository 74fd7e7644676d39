"""Which threshold: losses in, a threshold with a guarantee out."""

from tether.thresholds.claims import Claims as Claims
from tether.thresholds.claims import ScoredLabels as ScoredLabels
from tether.thresholds.filter import filter_claims as filter_claims
from tether.thresholds.losses import FalseAmongShown as FalseAmongShown
from tether.thresholds.methods import crc as crc
from tether.thresholds.methods import gcrc as gcrc
from tether.thresholds.methods import ltt as ltt
from tether.thresholds.methods import monotonized_crc as monotonized_crc
from tether.thresholds.selection import KeptShare as KeptShare
from tether.thresholds.selection import Selection as Selection
from tether.thresholds.selection import ThresholdChain as ThresholdChain
from tether.thresholds.sweep import Sweep as Sweep
from tether.thresholds.sweep import sweep as sweep
