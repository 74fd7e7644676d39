"""tether: conformal policy control.

Keeps an optimized policy on a tether to a safe one: from a log of what the safe policy did and one
number, the expected loss that is tolerated, to how far the optimized policy may pull away.

Every room, and every public name, is imported when it is first used.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tether._version import __version__ as __version__

logging.getLogger("tether").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from tether import (
        aiming,
        bo,
        control,
        learn,
        llm,
        monitor,
        policies,
        release,
        report,
        rounds,
        runs,
        sampling,
        saving,
        scan,
        service,
        thresholds,
        verification,
    )
    from tether._core.words import (
        AssumptionWarning,
        DurabilityWarning,
        PromiseWarning,
        TetherWarning,
    )
    from tether.aiming import aim, choose
    from tether.cli.progress_bars import progress_bars
    from tether.control import (
        BudgetedClip,
        Calibration,
        Clip,
        Family,
        Gain,
        Log,
        Mix,
        Proposals,
    )
    from tether.control.calibrate import calibrate
    from tether.control.plan import plan
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
    from tether.policies.decision import Decision, decide, load
    from tether.runs import Controller, Release, relative
    from tether.saving import load_policy, save_policy
    from tether.thresholds import (
        Claims,
        FalseAmongShown,
        ScoredLabels,
        Selection,
        crc,
        filter_claims,
        gcrc,
        ltt,
        monotonized_crc,
    )
    from tether.view.comparison import compare

__all__ = [
    "AssumptionWarning",
    "BudgetedClip",
    "Calibration",
    "Categorical",
    "Claims",
    "Clip",
    "Controller",
    "Decision",
    "DurabilityWarning",
    "FalseAmongShown",
    "Family",
    "FunctionPolicy",
    "Gain",
    "Gaussian",
    "Log",
    "Mix",
    "Mixture",
    "Policy",
    "Pool",
    "PromiseWarning",
    "Proposals",
    "Release",
    "ScoredLabels",
    "Selection",
    "Served",
    "Shortlist",
    "TetherWarning",
    "Tethered",
    "TorchPolicy",
    "aim",
    "aiming",
    "bo",
    "calibrate",
    "choose",
    "compare",
    "control",
    "crc",
    "decide",
    "estimate_ratio",
    "filter_claims",
    "gcrc",
    "learn",
    "llm",
    "load",
    "load_policy",
    "ltt",
    "make_log",
    "make_proposals",
    "monitor",
    "monotonized_crc",
    "plan",
    "policies",
    "policy_from",
    "progress_bars",
    "relative",
    "release",
    "report",
    "rounds",
    "runs",
    "sampling",
    "save_policy",
    "saving",
    "scan",
    "serve",
    "service",
    "thresholds",
    "verification",
]

_ROOMS = (
    *("aiming", "bo", "control", "learn", "llm", "monitor", "policies", "release"),
    *("report", "rounds", "runs", "sampling", "saving", "scan", "service", "thresholds"),
    *("verification", "view"),
)
_MODULE_BY_NAME = {
    **dict.fromkeys(("aim", "choose"), "aiming"),
    **dict.fromkeys(("BudgetedClip", "Calibration", "Clip", "Family", "Log"), "control"),
    **dict.fromkeys(("Gain", "Mix", "Proposals"), "control"),
    "calibrate": "control.calibrate",
    **dict.fromkeys(("Categorical", "FunctionPolicy", "Gaussian", "Mixture"), "policies"),
    **dict.fromkeys(("Policy", "Pool", "Served", "Shortlist", "Tethered"), "policies"),
    **dict.fromkeys(("TorchPolicy", "estimate_ratio", "make_log"), "policies"),
    **dict.fromkeys(("Decision", "decide", "load"), "policies.decision"),
    **dict.fromkeys(("make_proposals", "policy_from", "serve"), "policies"),
    "plan": "control.plan",
    "compare": "view.comparison",
    "FalseAmongShown": "thresholds",
    **dict.fromkeys(("Claims", "ScoredLabels", "Selection", "crc", "filter_claims"), "thresholds"),
    **dict.fromkeys(("gcrc", "ltt", "monotonized_crc"), "thresholds"),
    **dict.fromkeys(("Controller", "Release", "relative"), "runs"),
    **dict.fromkeys(("load_policy", "save_policy"), "saving"),
    "progress_bars": "cli.progress_bars",
    **dict.fromkeys(("AssumptionWarning", "DurabilityWarning"), "_core.words"),
    **dict.fromkeys(("PromiseWarning", "TetherWarning"), "_core.words"),
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
