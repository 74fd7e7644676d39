"""tether: conformal policy control.

Keeps an optimized policy on a tether to a safe one: from a log of what the safe policy did and one
number, the expected loss that is tolerated, to how far the optimized policy may pull away.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tether import llm, monitor
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration, Curve
from tether.control.families import BudgetedClip, Clip, Family, Mix
from tether.control.log import Log
from tether.control.mixture_density import mixture_log_density
from tether.control.permutation import permutation_weights
from tether.control.planning import Plan, plan
from tether.control.proposals import Proposals
from tether.policies import (
    Categorical,
    FunctionPolicy,
    Gaussian,
    Mixture,
    Policy,
    Pool,
    Tethered,
    TorchPolicy,
    make_log,
    make_proposals,
)
from tether.risk import (
    Claims,
    ScoredLabels,
    Selection,
    conservative_alpha,
    crc,
    filter_claims,
    gcrc,
    ltt,
    monotonized_crc,
    spread_ties,
    sweep,
)

if TYPE_CHECKING:
    from tether import report
    from tether.rounds import Controller

__all__ = [
    "BudgetedClip",
    "Calibration",
    "Categorical",
    "Claims",
    "Clip",
    "Controller",
    "Curve",
    "Family",
    "FunctionPolicy",
    "Gaussian",
    "Log",
    "Mix",
    "Mixture",
    "Plan",
    "Policy",
    "Pool",
    "Proposals",
    "ScoredLabels",
    "Selection",
    "Tethered",
    "TorchPolicy",
    "calibrate",
    "conservative_alpha",
    "crc",
    "filter_claims",
    "gcrc",
    "llm",
    "ltt",
    "make_log",
    "make_proposals",
    "mixture_log_density",
    "monitor",
    "monotonized_crc",
    "permutation_weights",
    "plan",
    "report",
    "spread_ties",
    "sweep",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what needs a database or plotting library on first use."""
    if name == "report":
        return import_module("tether.report")
    if name != "Controller":
        raise AttributeError(f"module 'tether' has no attribute {name!r}")
    from tether.rounds import Controller

    return Controller
