"""Samplers: exact draws from tables, accept-reject, and Metropolis–Hastings chains."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.sampling.envelope import Envelope, grid_envelope, overlap_envelope
    from tether.sampling.metropolis_hastings import metropolis
    from tether.sampling.policy_pair import DrawLimitError, PolicyPair, SamplingInfo, ScoredDraws
    from tether.sampling.rejection_sampling import accept_reject
    from tether.sampling.samplers import sample_categorical

__all__ = ["DrawLimitError", "Envelope", "PolicyPair", "SamplingInfo"]
__all__ += ["ScoredDraws", "accept_reject", "grid_envelope", "metropolis"]
__all__ += ["overlap_envelope", "sample_categorical"]

_MODULES = ("samplers", "envelope", "policy_pair", "rejection_sampling")


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    for module in (*_MODULES, "metropolis_hastings") if name in __all__ else ():
        found = vars(import_module(f"tether.sampling.{module}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module 'tether.sampling' has no attribute {name!r}")
