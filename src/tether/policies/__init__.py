"""Who acts: policies that can be drawn from and scored, and the tethered one between two."""

from tether.policies.categorical import Categorical
from tether.policies.function_policy import FunctionPolicy
from tether.policies.gaussian import Gaussian
from tether.policies.log_from_policies import make_log, make_proposals
from tether.policies.mixture import Mixture
from tether.policies.normalizer import Normalizer
from tether.policies.policy import FinitePolicy, Policy, as_policy
from tether.policies.pool import Pool
from tether.policies.tethered import Tethered
from tether.policies.torch_policy import TorchPolicy

__all__ = [
    "Categorical",
    "FinitePolicy",
    "FunctionPolicy",
    "Gaussian",
    "Mixture",
    "Normalizer",
    "Policy",
    "Pool",
    "Tethered",
    "TorchPolicy",
    "as_policy",
    "make_log",
    "make_proposals",
]
