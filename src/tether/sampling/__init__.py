"""Samplers: exact draws from tables, accept-reject, and Metropolis–Hastings chains."""

from tether.sampling.discrete import sample_categorical
from tether.sampling.envelope import Envelope, adaptive_envelope, grid_envelope, overlap_envelope
from tether.sampling.metropolis_hastings import metropolis
from tether.sampling.policy_pair import PolicyPair, ScoredDraws
from tether.sampling.rejection_sampling import accept_reject
from tether.sampling.sampling_info import ChainDiagnostics, DrawLimitError, SamplingInfo

__all__ = [
    "ChainDiagnostics",
    "DrawLimitError",
    "Envelope",
    "PolicyPair",
    "SamplingInfo",
    "ScoredDraws",
    "accept_reject",
    "adaptive_envelope",
    "grid_envelope",
    "metropolis",
    "overlap_envelope",
    "sample_categorical",
]
