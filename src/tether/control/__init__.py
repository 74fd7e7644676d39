"""How far: from a log to the largest beta whose calibrated risk is at most alpha.

Pure functions on arrays. `tether.calibrate` is the entry point; the less common names are here.
"""

from tether.control.calibration import Calibration, LossResult
from tether.control.engine import Constraint
from tether.control.families import BudgetedClip, Clip, Family, Mix, find_family
from tether.control.log import Acting, Log, PolicyPath
from tether.control.measure import Measured
from tether.control.mixture_density import mixture_log_density
from tether.control.permutation import permutation_weights
from tether.control.promise import PromiseTerms
from tether.control.proposals import Proposals

__all__ = [
    "Acting",
    "BudgetedClip",
    "Calibration",
    "Clip",
    "Constraint",
    "Family",
    "Log",
    "LossResult",
    "Measured",
    "Mix",
    "PolicyPath",
    "PromiseTerms",
    "Proposals",
    "find_family",
    "mixture_log_density",
    "permutation_weights",
]
