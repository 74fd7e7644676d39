"""How far: from a log to the largest beta whose calibrated risk is at most alpha.

Pure functions on arrays. `tether.calibrate` is the entry point; the less common names are here, and
imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.control.calibration import Calibration, LossResult, PromiseTerms
    from tether.control.columns import Acting, PolicyPath
    from tether.control.engine import Constraint, Measured
    from tether.control.families import BudgetedClip, Clip, Family, Mix, find_family
    from tether.control.gains import Gain, PolicyMeans, WeightedMean
    from tether.control.log import Log
    from tether.control.mixture import mixture_log_density, permutation_weights
    from tether.control.proposals import Proposals

__all__ = [
    "Acting",
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

_MODULES = {
    **dict.fromkeys(("Calibration", "LossResult", "PromiseTerms"), "calibration"),
    **dict.fromkeys(("Acting", "PolicyPath"), "columns"),
    **dict.fromkeys(("Constraint",), "engine"),
    **dict.fromkeys(("BudgetedClip", "Clip", "Family", "Mix", "find_family"), "families"),
    **dict.fromkeys(("Gain", "PolicyMeans", "WeightedMean"), "gains"),
    **dict.fromkeys(("Log",), "log"),
    **dict.fromkeys(("Measured",), "engine"),
    **dict.fromkeys(("mixture_log_density", "permutation_weights"), "mixture"),
    **dict.fromkeys(("Proposals",), "proposals"),
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tether.control' has no attribute {name!r}")
    return getattr(import_module(f"tether.control.{_MODULES[name]}"), name)
