"""Policies: objects that draw and score actions, and the tethered policy between two of them.

Every name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.policies.categorical import Categorical, Pool
    from tether.policies.functions import FunctionPolicy, policy_from
    from tether.policies.gaussian import Gaussian
    from tether.policies.logs import make_log, make_proposals
    from tether.policies.mixture import Mixture
    from tether.policies.normalizer import Normalizer
    from tether.policies.policy import FinitePolicy, Policy, as_policy
    from tether.policies.ratio import DensityRatio, estimate_ratio
    from tether.policies.served import Served, serve
    from tether.policies.shortlist import Picker, Shortlist, ShortlistRows, TetheredShortlist
    from tether.policies.tethered import Decided, Tethered

__all__ = ["Categorical", "FinitePolicy", "FunctionPolicy", "Gaussian", "Mixture", "Policy", "Pool"]
__all__ += ["Decided", "Normalizer", "Served", "Tethered", "as_policy", "policy_from", "serve"]
__all__ += ["DensityRatio", "Picker", "Shortlist", "ShortlistRows", "TetheredShortlist"]
__all__ += ["estimate_ratio", "make_log", "make_proposals"]

_MODULES = (
    *("policy", "gaussian", "tethered", "logs", "categorical", "mixture", "functions"),
    *("normalizer", "shortlist", "served", "ratio"),
)
"""Where names are looked for, in this order: what others are made of comes first."""


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        found = vars(import_module(f"tether.policies.{module}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module 'tether.policies' has no attribute {name!r}")
