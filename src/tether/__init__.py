"""tether: conformal policy control.

Keeps an optimized policy on a tether to a safe one: from a log of what the safe policy did and one
number, the expected loss that is tolerated, to how far the optimized policy may pull away.

Rooms that not every program needs (`release`, `rounds`, `report`, `saving`, `verification`, `llm`,
`bo`) are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tether import control, monitor, policies, risk, sampling
from tether._version import __version__ as __version__
from tether.control import (
    BudgetedClip,
    Calibration,
    Clip,
    Family,
    Log,
    Mix,
    Proposals,
    plan,
)
from tether.control.calibrate import calibrate
from tether.policies import (
    Categorical,
    FunctionPolicy,
    Gaussian,
    Mixture,
    Policy,
    Pool,
    Served,
    Shortlist,
    Tethered,
    TorchPolicy,
    estimate_ratio,
    make_log,
    make_proposals,
    policy_from,
    serve,
)
from tether.risk import (
    Claims,
    ScoredLabels,
    Selection,
    crc,
    filter_claims,
    gcrc,
    ltt,
    monotonized_crc,
)

if TYPE_CHECKING:
    from tether import bo, llm, release, report, rounds, saving, verification
    from tether.rounds import Controller
    from tether.saving import load_policy, save_policy

__all__ = [
    "BudgetedClip",
    "Calibration",
    "Categorical",
    "Claims",
    "Clip",
    "Controller",
    "Family",
    "FunctionPolicy",
    "Gaussian",
    "Log",
    "Mix",
    "Mixture",
    "Policy",
    "Pool",
    "Proposals",
    "ScoredLabels",
    "Selection",
    "Served",
    "Shortlist",
    "Tethered",
    "TorchPolicy",
    "bo",
    "calibrate",
    "control",
    "crc",
    "estimate_ratio",
    "filter_claims",
    "gcrc",
    "llm",
    "load_policy",
    "ltt",
    "make_log",
    "make_proposals",
    "monitor",
    "monotonized_crc",
    "plan",
    "policies",
    "policy_from",
    "release",
    "report",
    "risk",
    "rounds",
    "sampling",
    "save_policy",
    "saving",
    "serve",
    "verification",
]

_LAZY_ROOMS = ("bo", "llm", "release", "report", "rounds", "saving", "verification")
_LAZY_NAMES = {"Controller": "rounds", "load_policy": "saving", "save_policy": "saving"}


def __getattr__(name: str) -> Any:
    """Import a room that not every program needs, or a name of it, when it is first used."""
    if name in _LAZY_ROOMS:
        return import_module(f"tether.{name}")
    if name in _LAZY_NAMES:
        return getattr(import_module(f"tether.{_LAZY_NAMES[name]}"), name)
    raise AttributeError(f"module 'tether' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Every public name, those of lazy rooms included."""
    return sorted([*__all__, "__version__"])
