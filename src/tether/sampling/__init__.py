"""How to draw: exactly, by accept-reject, or along a Metropolis–Hastings chain."""

from tether.sampling.discrete import choose
from tether.sampling.envelope import Proposal
from tether.sampling.info import Chain, Info
from tether.sampling.metropolis_hastings import metropolis
from tether.sampling.mixture_proposal import adaptive, by_grid, by_overlap
from tether.sampling.policy_pair import Pair
from tether.sampling.rejection_sampling import accept_reject

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
