"""Estimates of a tethered policy's density that are precise enough to divide by.

A density in the denominator of a weight must not be noisy: with a relative variance v, one over the
estimate is too large by a factor of 1 + v on average. So more draws are made where v is not small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.contexts import take
from tether._core.types import Floats
from tether.policies.normalizer import Normalizer, density_with_error
from tether.policies.tethered import Tethered

SMALL_DENSITY_ERROR = 0.1
"""A relative standard error of a density up to this, a bias of 1 %, needs no more draws."""
MORE_DRAWS = (4, 16, 64)
"""By how much the number of draws is multiplied, one after the other."""


def settled_normalizer(
    policy: Tethered, contexts: Any, log_safe: Floats, log_optimized: Floats
) -> Normalizer:
    """ψ in each context, with more draws where the density of an action is not precise.

    The scores are those of one action per context, or of any number of actions without contexts.
    """
    found = policy.normalizer(contexts)
    for factor in MORE_DRAWS:
        error = density_with_error(policy.family, log_safe, log_optimized, policy.log_beta, found)[
            1
        ]
        rough = np.flatnonzero(error > SMALL_DENSITY_ERROR)
        if len(rough) == 0:
            break
        if isinstance(contexts, int):
            found = policy.normalizer(contexts, factor)
            continue
        again = policy.normalizer(take(contexts, rough), factor)
        log_psi, standard_error = found.log_psi.copy(), found.standard_error.copy()
        log_psi[rough], standard_error[rough] = again.log_psi, again.standard_error
        found = Normalizer(log_psi, standard_error)
    return found
