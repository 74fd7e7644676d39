"""Drawing from a policy that may fail, so that failing has nothing to do with what is drawn.

An action may be recorded as the tethered policy's only if it has exactly that policy's density
given that the call went through. So whether a call goes through must not hang on the draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import length
from tether.control.families import Mix
from tether.policies.tethered import Tethered
from tether.sampling.errors import CapError


def attempt(policy: Any, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
    """One action in each context, from a call that goes through or fails whatever chance says.

    Accept-reject scores each proposal under both policies, and what it keeps is independent of how
    many it took; finite actions are drawn from both tables. Mix asks one of its policies, as its
    coin falls: here both are asked in every context, and the coin is tossed afterwards.
    """
    if not _tosses(policy):
        return policy_calls.draw("tethered", policy, contexts, rng)
    legs = [
        _leg("optimized", policy.optimized, contexts, rng),
        _leg("safe", policy.safe, contexts, rng),
    ]
    count = length(contexts)
    safe = rng.random(count) >= np.exp(-np.logaddexp(0.0, -policy.log_beta))
    return np.asarray(policy_calls.concatenate_actions(legs)[np.arange(count) + count * safe])


def _leg(name: str, policy: Any, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
    if _tosses(policy):
        return attempt(policy, contexts, rng)
    return policy_calls.draw(name, policy, contexts, rng)


def gave_up(error: BaseException | None) -> bool:
    """Whether a sampler gave up at its cap, in this policy or in one that it is made of."""
    while error is not None:
        if isinstance(error, CapError):
            return True
        error = error.__cause__
    return False


def _tosses(policy: Any) -> bool:
    """Whether a coin decides which of two policies is asked."""
    return (
        isinstance(policy, Tethered)
        and isinstance(policy.family, Mix)
        and policy.actions is None
        and bool(np.isfinite(policy.log_beta))
    )
