"""tether: conformal policy control.

Keeps an optimized policy on a tether to a safe one: from a log of what the safe policy did and one
number, the expected loss that is tolerated, to how far the optimized policy may pull away.

Every room, and every public name, is imported when it is first used. What a beginner does not need
stands in its room: other families in `tether.control`, CRC and Learn then Test in
`tether.thresholds`, other policies in `tether.policies`.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tether._version import __version__ as __version__

logging.getLogger("tether").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from tether._core.words import (
        AssumptionWarning,
        PromiseWarning,
        TetherWarning,
    )
    from tether.aiming import aim, choose
    from tether.cli.progress_bars import progress_bars
    from tether.control import Calibration, Log, Proposals
    from tether.control.calibrate import calibrate
    from tether.control.plan import plan
    from tether.policies import (
        Categorical,
        FunctionPolicy,
        Gaussian,
        Mixture,
        Policy,
        Pool,
        Shortlist,
        Tethered,
        estimate_ratio,
        make_log,
        make_proposals,
        serve,
    )
    from tether.policies.decision import Decision, decide
    from tether.runs import Controller, Release, relative
    from tether.saving import load, save_policy
    from tether.thresholds import (
        Claims,
        FalseAmongShown,
        ScoredLabels,
        Selection,
        filter_claims,
        gcrc,
    )
    from tether.view.comparison import compare

__all__ = [
    "AssumptionWarning",
    "Calibration",
    "Categorical",
    "Claims",
    "Controller",
    "Decision",
    "FalseAmongShown",
    "FunctionPolicy",
    "Gaussian",
    "Log",
    "Mixture",
    "Policy",
    "Pool",
    "PromiseWarning",
    "Proposals",
    "Release",
    "ScoredLabels",
    "Selection",
    "Shortlist",
    "TetherWarning",
    "Tethered",
    "aim",
    "calibrate",
    "choose",
    "compare",
    "decide",
    "estimate_ratio",
    "filter_claims",
    "gcrc",
    "load",
    "make_log",
    "make_proposals",
    "plan",
    "progress_bars",
    "relative",
    "save_policy",
    "serve",
]

_ROOMS = (
    *("aiming", "bo", "control", "learn", "llm", "monitor", "policies", "runs"),
    *("sampling", "saving", "scan", "service", "thresholds", "view"),
)
"""Rooms are found as `tether.llm` too, without an import of their own."""
_MODULE_BY_NAME = {
    **dict.fromkeys(("aim", "choose"), "aiming"),
    **dict.fromkeys(("Calibration", "Log", "Proposals"), "control"),
    "calibrate": "control.calibrate",
    "plan": "control.plan",
    **dict.fromkeys(("Categorical", "FunctionPolicy", "Gaussian", "Mixture"), "policies"),
    **dict.fromkeys(("Policy", "Pool", "Shortlist", "Tethered", "estimate_ratio"), "policies"),
    **dict.fromkeys(("make_log", "make_proposals", "serve"), "policies"),
    **dict.fromkeys(("Decision", "decide"), "policies.decision"),
    **dict.fromkeys(("Claims", "FalseAmongShown", "ScoredLabels", "Selection"), "thresholds"),
    **dict.fromkeys(("filter_claims", "gcrc"), "thresholds"),
    **dict.fromkeys(("Controller", "Release", "relative"), "runs"),
    **dict.fromkeys(("load", "save_policy"), "saving"),
    "compare": "view.comparison",
    "progress_bars": "cli.progress_bars",
    **dict.fromkeys(("AssumptionWarning", "PromiseWarning", "TetherWarning"), "_core.words"),
}
"""Where each public name is found when it is first used."""


def __getattr__(name: str) -> Any:
    """Import a room, or the module of a public name, when it is first used."""
    if name not in _ROOMS and name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'tether' has no attribute {name!r}")
    try:
        module = import_module(f"tether.{_MODULE_BY_NAME.get(name, name)}")
    except ModuleNotFoundError as error:
        from tether._core.extras import how_to_install

        message = how_to_install(f"tether.{name}", error)
        if message is None or "pip install" in str(error):
            raise
        raise ModuleNotFoundError(message, name=error.name) from error
    if name in _ROOMS:
        return module
    value = getattr(module, name)
    globals()[name] = value  # the next time it is found at once
    return value


def __dir__() -> list[str]:
    """Every public name, also those that have not been used yet."""
    return sorted([*__all__, "__version__"])
