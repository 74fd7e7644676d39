"""Policies: objects that draw and score actions, and the tethered policy between two of them."""

from tether.policies.categorical import Categorical
from tether.policies.functions import FunctionPolicy, TorchPolicy, policy_from
from tether.policies.gaussian import Gaussian
from tether.policies.make_log import make_log, make_proposals
from tether.policies.mixture import Mixture
from tether.policies.normalizer import Normalizer
from tether.policies.picker import Picker, ShortlistRows
from tether.policies.policy import FinitePolicy, Policy, as_policy
from tether.policies.ratio import DensityRatio, EstimatedPolicy, RatioError, estimate_ratio
from tether.policies.served import Served, serve
from tether.policies.shortlist import Shortlist, TetheredShortlist
from tether.policies.tables import Pool
from tether.policies.tethered import Decided, Tethered

__all__ = [
    "Categorical",
    "Decided",
    "DensityRatio",
    "EstimatedPolicy",
    "FinitePolicy",
    "FunctionPolicy",
    "Gaussian",
    "Mixture",
    "Normalizer",
    "Picker",
    "Policy",
    "Pool",
    "RatioError",
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
