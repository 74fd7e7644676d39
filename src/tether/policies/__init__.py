"""Policies: objects that draw and score actions, and the tethered policy between two of them.

Every name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.policies.categorical import Categorical, Pool
    from tether.policies.functions import FunctionPolicy, TorchPolicy, policy_from
    from tether.policies.gaussian import Gaussian
    from tether.policies.logs import make_log, make_proposals
    from tether.policies.mixture import Mixture
    from tether.policies.normalizer import Normalizer
    from tether.policies.picker import Picker, ShortlistRows
    from tether.policies.policy import FinitePolicy, Policy, as_policy
    from tether.policies.ratio import DensityRatio, estimate_ratio
    from tether.policies.served import Served, serve
    from tether.policies.shortlist import Shortlist, TetheredShortlist
    from tether.policies.tethered import Decided, Tethered

__all__ = [
    "Categorical",
    "Decided",
    "DensityRatio",
    "FinitePolicy",
    "FunctionPolicy",
    "Gaussian",
    "Mixture",
    "Normalizer",
    "Picker",
    "Policy",
    "Pool",
    "Served",
    "Shortlist",
    "ShortlistRows",
    "Tethered",
    "TetheredShortlist",
    "TorchPolicy",
    "as_policy",
    "estimate_ratio",
    "make_log",
    "make_proposals",
    "policy_from",
    "serve",
]

_MODULE_BY_NAME = {
    **dict.fromkeys(("Categorical", "Pool"), "categorical"),
    **dict.fromkeys(("FunctionPolicy", "TorchPolicy", "policy_from"), "functions"),
    "Gaussian": "gaussian",
    **dict.fromkeys(("make_log", "make_proposals"), "logs"),
    "Mixture": "mixture",
    "Normalizer": "normalizer",
    **dict.fromkeys(("Picker", "ShortlistRows"), "picker"),
    **dict.fromkeys(("FinitePolicy", "Policy", "as_policy"), "policy"),
    **dict.fromkeys(("DensityRatio", "estimate_ratio"), "ratio"),
    **dict.fromkeys(("Served", "serve"), "served"),
    **dict.fromkeys(("Shortlist", "TetheredShortlist"), "shortlist"),
    **dict.fromkeys(("Decided", "Tethered"), "tethered"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'tether.policies' has no attribute {name!r}")
    value = getattr(import_module(f"tether.policies.{_MODULE_BY_NAME[name]}"), name)
    globals()[name] = value  # the next time it is found at once
    return value
