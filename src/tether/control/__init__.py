"""How far: from a log to the largest beta whose calibrated risk is at most alpha.

Pure functions on arrays. `tether.calibrate` is the entry point; the less common names are here.
"""

from tether.control.acting import Acting
from tether.control.alpha_grid import AlphaGain, AlphaGrid, gain_over_alphas
from tether.control.calibration import Calibration
from tether.control.constraint import Constraint
from tether.control.curve import Curve
from tether.control.draw_plan import DrawPlan, plan_draws
from tether.control.families import BudgetedClip, Clip, Mix, find_family
from tether.control.family import Family
from tether.control.gains import Gain, PolicyMeans, gain
from tether.control.log import Log
from tether.control.mixture_density import mixture_log_density
from tether.control.more_draws import DrawsWorth, draws_worth
from tether.control.permutation import permutation_weights
from tether.control.policy_path import PolicyPath
from tether.control.promise import PromiseTerms
from tether.control.proposals import Proposals
from tether.control.weighted_means import WeightedMean

__all__ = [
    "Acting",
    "AlphaGain",
    "AlphaGrid",
    "BudgetedClip",
    "Calibration",
    "Clip",
    "Constraint",
    "Curve",
    "DrawPlan",
    "DrawsWorth",
    "Family",
    "Gain",
    "Log",
    "Mix",
    "PolicyMeans",
    "PolicyPath",
    "PromiseTerms",
    "Proposals",
    "WeightedMean",
    "draws_worth",
    "find_family",
    "gain",
    "gain_over_alphas",
    "mixture_log_density",
    "permutation_weights",
    "plan_draws",
]
