"""How far: from a log to the largest beta whose calibrated risk is at most alpha.

To read in this order: `log` (rows and proposals), `families` (how beta turns two policies into
one), `engine` (Algorithm 1 on a grid) and `kernels` (its weights), `promise` (what is promised, and
why), `chain` and `confidence` (rules with a proof and no estimate) and `unbiased` (their weights),
`pose` (from a log to a problem), `calibrate` (the entry point) and `calibration` (its result).
`draws` has weights from draws, `estimates` what a calibration buys; `checks` looks for mistakes in
a log, and `plan` says how many rows one needs. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.control.calibration import Calibration, LossResult, PromiseTerms
    from tether.control.columns import PolicyPath
    from tether.control.engine import Constraint, Measured
    from tether.control.families import BudgetedClip, Clip, Family, Mix, find_family
    from tether.control.gains import Gain, PolicyMeans, WeightedMean
    from tether.control.log import Log, Proposals
    from tether.control.mixture import mixture_log_density, permutation_weights

__all__ = [
    "BudgetedClip",
    "Calibration",
    "Clip",
    "Constraint",
    "Family",
    "Gain",
    "Log",
    "LossResult",
    "Measured",
    "Mix",
    "PolicyMeans",
    "PolicyPath",
    "PromiseTerms",
    "Proposals",
    "WeightedMean",
    "find_family",
    "mixture_log_density",
    "permutation_weights",
]

_MODULES = ("families", "columns", "engine", "log", "gains", "calibration", "mixture")
"""Where names are looked for, in this order: what others are made of comes first."""


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        found = vars(import_module(f"tether.control.{module}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module 'tether.control' has no attribute {name!r}")
