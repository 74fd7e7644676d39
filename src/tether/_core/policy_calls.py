"""Calls to policies, which may be the user's own: what they return is checked, errors name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.arrays import Booleans, Floats, plain_array
from tether._core.contexts import by_action, length, take
from tether._core.words import counted

if TYPE_CHECKING:
    from tether.policies.policy import Policy


def draw(name: str, policy: Policy, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
    """One action per context, drawn by a policy."""
    validate.generator("rng", rng)
    method = f"the {name} policy's sample"
    with _naming_the_policy(f"{method} failed on {counted(length(contexts), 'context')}"):
        actions = plain_array(policy.sample(contexts, rng))
    if actions.ndim == 0 or len(actions) != length(contexts):
        wanted = counted(length(contexts), "context")
        raise ValueError(
            f"{method} returned shape {actions.shape}: expected one action for each of {wanted}"
        )
    if actions.dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError(f"{method} returned NaN for {int(np.isnan(actions).sum())} action(s)")
    return actions


def draw_chosen(
    policies: Mapping[str, Any], chosen: NDArray[Any], contexts: Any, rng: np.random.Generator
) -> NDArray[Any]:
    """One action per context, drawn by the policy whose position is `chosen` there."""
    rows = [np.flatnonzero(chosen == place) for place in range(len(policies))]
    pieces = [
        draw(name, policy, take(contexts, own), rng)
        for (name, policy), own in zip(policies.items(), rows, strict=True)
        if len(own)
    ]
    return concatenate_actions(pieces, rows)


def score(
    name: str,
    policy: Policy,
    contexts: Any,
    actions: NDArray[Any],
    *,
    drew: bool | Booleans = False,
) -> Floats:
    """The log-probability of each action; it must be finite where the policy itself `drew` it."""
    method = f"the {name} policy's log_prob"
    with _naming_the_policy(f"{method} failed on actions of shape {actions.shape}"):
        answer = policy.log_prob(contexts, actions)
    scores = validate.log_probabilities(method, answer, zero=True)
    validate.same_length(method, scores, "its actions", len(actions))
    impossible = np.isneginf(scores) & drew
    if impossible.any():
        accepted = "a finite log-probability, as the policy drew this action"
        validate.reject(method, scores, impossible, accepted)
    return scores


def table(name: str, policy: Any, contexts: Any, actions: Any = None) -> Floats:
    """The log-probability of every action in each context, or one row if all contexts are alike.

    The columns are in the order of the `actions`, by default the policy's own.
    """
    method = f"the {name} policy's log_prob_all"
    with _naming_the_policy(f"{method} failed on {counted(length(contexts), 'context')}"):
        answer, count = policy.log_prob_all(contexts), len(policy.actions)
    answer = by_action(method, answer, policy.actions)
    scores = validate.log_probabilities(method, answer, ndim=2, zero=True)
    if scores.shape[1] != count or len(scores) not in (1, length(contexts)):
        raise ValueError(
            f"{method} has shape {scores.shape}, expected "
            f"{(length(contexts), count)}: one row per context, one column per action"
        )
    if not type(policy).__module__.startswith("tether.policies."):  # these normalize themselves
        with np.errstate(over="ignore"):
            total = np.exp(scores).sum(axis=1)
        off = ~(np.abs(total - 1) <= validate.TABLE_SUM_TOLERANCE)
        if off.any():
            validate.reject(f"{method}: sum", total, off, "probabilities that sum to 1")
    if actions is None or np.array_equal(policy.actions, actions):
        return scores
    columns = {action: column for column, action in enumerate(np.asarray(policy.actions).tolist())}
    return scores[:, [columns[action] for action in np.asarray(actions).tolist()]]


ERRORS_ABOUT_INPUT = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError),
    *(NameError, NotImplementedError, RecursionError),
)
"""What code raises when its input is wrong, unlike a lost connection or a lack of memory."""


@contextmanager
def _naming_the_policy(failure: str) -> Iterator[None]:
    """Raise the errors of a policy again, with a message that starts with `failure`.

    They become a ValueError if the input is wrong, and a RuntimeError if the policy is unavailable.
    """
    try:
        yield
    except Exception as error:
        text = error if isinstance(error, (ValueError, RuntimeError)) else repr(error)
        about_input = isinstance(error, ERRORS_ABOUT_INPUT)
        raise (ValueError if about_input else RuntimeError)(f"{failure}: {text}") from error


def concatenate_actions(pieces: list[NDArray[Any]], rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Actions that were drawn for these rows each, in the order of all rows."""
    return np.asarray(np.concatenate(pieces)[np.argsort(np.concatenate(rows))])
