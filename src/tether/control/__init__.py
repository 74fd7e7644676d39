"""How far: from a log to the largest beta whose calibrated risk is at most alpha.

Pure functions on arrays. `tether.calibrate` is the entry point; the less common names are here.
"""

from tether.control.acting import Acting
from tether.control.calibration import Calibration
from tether.control.constraint import Constraint
from tether.control.curve import Curve
from tether.control.families import BudgetedClip, Clip, Mix, find_family
from tether.control.family import Family
from tether.control.log import Log
from tether.control.mixture_density import mixture_log_density
from tether.control.permutation import permutation_weights
from tether.control.planning import Plan, plan
from tether.control.promise import PromiseTerms
from tether.control.proposals import Proposals

__all__ = [
    "Acting",
    "BudgetedClip",
    "Calibration",
    "Clip",
    "Constraint",
    "Curve",
    "Family",
    "Log",
    "Mix",
    "Plan",
    "PromiseTerms",
    "Proposals",
    "find_family",
    "mixture_log_density",
    "permutation_weights",
    "plan",
]
