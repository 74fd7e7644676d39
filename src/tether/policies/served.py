"""Serving with a fallback: the safe policy acts where the tethered policy fails.

An action may be recorded as the tethered policy's only if it has exactly that policy's density
given that the call succeeded. So whether a call succeeds must not depend on what is drawn, and a
call that failed is not repeated: that would select the actions that succeed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Contexts, shown
from tether._core.contexts import as_contexts, length
from tether.policies.policy import Policy
from tether.policies.tethered import Tethered
from tether.sampling.policy_pair import DrawLimitError
from tether.sampling.samplers import optimized_share_of, sample_categorical


@dataclass(frozen=True)
class Served:
    """Actions, one per context, and which policy took them.

    If certain actions make the call fail (a score that is NaN), actions of the tethered policy do
    not have its density, and no record corrects for that: see `failure`, the error message.
    """

    actions: NDArray[Any]
    source: str
    """The policy that took the actions, "safe" or "tethered"."""
    failure: str = ""


def serve(policy: Policy, contexts: Contexts, rng: np.random.Generator) -> Served:
    """Take an action in every context: the policy's, or the safe policy's if the call fails.

    A call fails as a whole, if the policy is unavailable, refuses a context, or its sampler reaches
    `max_draws`: pass contexts one by one, or in batches that may fail together. With the mix family
    the optimized policy is called in every context, whichever policy then acts.

    Parameters
    ----------
    policy : Policy
        The policy to serve, which knows its safe policy, as a `Tethered` one does.
    contexts, rng : array-like or int, and numpy.random.Generator
        As for `Policy.sample`.

    Returns
    -------
    Served
        One action per context, which policy took them, and what failed.

    Examples
    --------
    >>> from tether import FunctionPolicy, Gaussian
    >>> def unavailable(contexts, rng):
    ...     raise ConnectionError("no route to host")
    >>> safe, optimized = Gaussian(0.0), FunctionPolicy(unavailable, Gaussian(1.0).log_prob)
    >>> served = serve(Tethered(safe, optimized, 2.0), 3, np.random.default_rng(0))
    >>> served.source
    'safe'
    """
    validate.generator("rng", rng)
    if (safe := getattr(policy, "safe", None)) is None:
        raise TypeError(f"policy must be tethered to a safe policy, got {shown(policy)}")
    contexts = as_contexts(contexts)
    try:
        return Served(draw_asking_every_policy(policy, contexts, rng), "tethered")
    except (RuntimeError, ValueError) as error:  # the safe policy's own is raised beside this one
        return Served(policy_calls.draw("safe", safe, contexts, rng), "safe", str(error))


def is_draw_limit(error: BaseException | None) -> bool:
    """Whether a sampler reached its limit, of this policy or of one that it is made of."""
    return error is not None and (
        isinstance(error, DrawLimitError) or is_draw_limit(error.__cause__)
    )


def draw_asking_every_policy(
    policy: Any, contexts: Any, rng: np.random.Generator, name: str = "tethered"
) -> NDArray[Any]:
    """One action per context, from a call whose success does not depend on what is drawn.

    Accept-reject and tables ask both policies in any case. A family of single draws would call only
    the policy that its coin selects: here both are called, and the coin is tossed afterwards.
    """
    by_coin = isinstance(policy, Tethered) and policy.family.single_draw and policy.actions is None
    if not by_coin or (len(policy.log_betas) == 1 and np.isinf(policy.log_beta)):
        return policy_calls.draw(name, policy, contexts, rng)
    both = (policy.optimized, "optimized"), (policy.safe, "safe")
    drawn = [draw_asking_every_policy(each, contexts, rng, name) for each, name in both]
    count = length(contexts)
    which = sample_categorical(policy.log_shares[None], count, rng)
    shares = np.array([optimized_share_of(policy.family, each) for each in policy.log_betas])
    from_safe = rng.random(count) >= shares[which]
    return np.asarray(np.concatenate(drawn)[np.arange(count) + count * from_safe])
