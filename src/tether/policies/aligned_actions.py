"""Two policies with the same actions in different orders, matched by the names of the actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats, Integers
from tether.policies.categorical import Categorical
from tether.policies.policy import Policy, is_finite
from tether.policies.table_policy import positions


@dataclass(frozen=True)
class ReorderedColumns:
    """The table of a policy, as a function of the contexts, with its columns in another order."""

    policy: Categorical
    order: tuple[int, ...]

    def __call__(self, contexts: Any) -> Floats:
        """One row of log-probabilities per context."""
        return self.policy.log_prob_all(contexts)[:, list(self.order)]


def align_actions(safe: Policy, optimized: Policy) -> tuple[Policy, Policy]:
    """Both policies, with the actions of one in the order of the other where they are the same.

    A model has its classes in sorted order, and a rule written by hand has any. Other differences
    are left to an error that shows them.
    """
    if not (is_finite(safe) and is_finite(optimized)):
        return safe, optimized
    first, second = np.asarray(safe.actions), np.asarray(optimized.actions)
    if not _same_set(first, second) or np.array_equal(first, second):
        return safe, optimized
    if type(safe) is Categorical:
        return _reordered(safe, second), optimized
    if type(optimized) is Categorical:
        return safe, _reordered(optimized, first)
    return safe, optimized


def in_order_of(safe: Policy, optimized: Policy) -> Policy:
    """The optimized policy with its actions in the order of the safe one's, which stays as it is.

    Only a `Categorical` can be reordered; other differences are left to an error that shows them.
    """
    if not (is_finite(safe) and is_finite(optimized)) or type(optimized) is not Categorical:
        return optimized
    first, second = np.asarray(safe.actions), np.asarray(optimized.actions)
    if not _same_set(first, second) or np.array_equal(first, second):
        return optimized
    return _reordered(optimized, first)


def _same_set(first: NDArray[Any], second: NDArray[Any]) -> bool:
    if len(first) != len(second) or (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        return False
    return np.array_equal(np.sort(first), np.sort(second))


def _reordered(policy: Categorical, actions: NDArray[Any]) -> Categorical:
    order: Integers = positions(policy.actions, actions)
    if policy._function is None:
        return Categorical(policy._table[..., order], actions)
    return Categorical(ReorderedColumns(policy, tuple(order.tolist())), actions)
