"""How to draw: exactly, by accept-reject, or along a Metropolis–Hastings chain."""

from tether.sampling.accept_reject import accept_reject
from tether.sampling.discrete import choose
from tether.sampling.info import Chain, Info
from tether.sampling.metropolis import metropolis
from tether.sampling.mixture_proposal import adaptive, by_grid, by_overlap
from tether.sampling.pair import Pair
from tether.sampling.proposal import Proposal

__all__ = [
    "Chain",
    "Info",
    "Pair",
    "Proposal",
    "accept_reject",
    "adaptive",
    "by_grid",
    "by_overlap",
    "choose",
    "metropolis",
]
