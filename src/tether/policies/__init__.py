"""Policies: objects that draw and score actions, and the tethered policy between two of them."""

from tether.policies.categorical import Categorical
from tether.policies.density_ratio import DensityRatio, estimate_ratio
from tether.policies.estimated_policy import EstimatedPolicy
from tether.policies.function_policy import FunctionPolicy
from tether.policies.gaussian import Gaussian
from tether.policies.import_recipe import policy_from
from tether.policies.log_from_policies import make_log, make_proposals
from tether.policies.mixture import Mixture
from tether.policies.normalizer import Normalizer
from tether.policies.picker import Picker
from tether.policies.policy import FinitePolicy, Policy, as_policy
from tether.policies.pool import Pool
from tether.policies.ratio_error import RatioCell, RatioError
from tether.policies.serve_with_fallback import Served, serve
from tether.policies.shortlist import Shortlist
from tether.policies.shortlist_rows import ShortlistRows
from tether.policies.tethered import Tethered
from tether.policies.tethered_shortlist import TetheredShortlist
from tether.policies.torch_policy import TorchPolicy

__all__ = [
    "Categorical",
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
    "RatioCell",
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
