"""Asking a policy: every action and score that a policy returns comes in through here.

A policy is somebody else's code. What it returns is checked once, and an error says which of the
two policies returned it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.contexts import length
from tether._core.types import Floats

if TYPE_CHECKING:
    from tether.policies.policy import Policy


SLACK = 1e-3
"""How far a table's probabilities may be from summing to one before it is refused."""


def draw(name: str, policy: Policy, contexts: Any, rng: np.random.Generator) -> NDArray[Any]:
    """One action for each context."""
    generator(rng)
    what = f"the {name} policy's sample"
    with _blamed(f"{what} failed on {length(contexts)} context(s)"):
        actions = np.asarray(policy.sample(contexts, rng))
    if actions.ndim == 0 or len(actions) != length(contexts):
        raise ValueError(
            f"{what} returned shape {actions.shape} for {length(contexts)} "
            f"context(s); expected one action for each"
        )
    return actions


def score(
    name: str,
    policy: Policy,
    contexts: Any,
    actions: NDArray[Any],
    *,
    drew: bool | NDArray[np.bool_] = False,
) -> Floats:
    """The log-probability of each action, finite where the policy itself `drew` them."""
    what = f"the {name} policy's log_prob"
    with _blamed(f"{what} failed on actions of shape {actions.shape}"):
        answer = policy.log_prob(contexts, actions)
    return _scores(what, answer, actions, drew)


def score_both(
    safe: Policy,
    optimized: Policy,
    contexts: Any,
    actions: NDArray[Any],
    *,
    drew_safe: bool | NDArray[np.bool_] = False,
    drew_optimized: bool | NDArray[np.bool_] = False,
) -> tuple[Floats, Floats]:
    """Scores under both policies; at once where they share what it costs to score.

    Such a policy has `shares_weights(other)` and `log_prob_both(other, contexts, actions)`.
    """
    shares = getattr(safe, "shares_weights", None)
    if shares is None or not shares(optimized):
        return (
            score("safe", safe, contexts, actions, drew=drew_safe),
            score("optimized", optimized, contexts, actions, drew=drew_optimized),
        )
    what = "both policies' log_prob"
    with _blamed(f"{what} failed on actions of shape {actions.shape}"):
        answers = safe.log_prob_both(optimized, contexts, actions)  # type: ignore[attr-defined]
    return (
        _scores("the safe policy's log_prob", answers[0], actions, drew_safe),
        _scores("the optimized policy's log_prob", answers[1], actions, drew_optimized),
    )


def _scores(
    what: str, answer: Any, actions: NDArray[Any], drew: bool | NDArray[np.bool_]
) -> Floats:
    scores = validate.log_probabilities(what, answer, zero=True)
    validate.same_length(what, scores, "its actions", len(actions))
    if np.any(drew) and scores.min() == -np.inf:
        wrong = np.isneginf(scores) & drew
        if wrong.any():
            validate.reject(what, scores, wrong, "a finite one, as the policy drew this")
    return scores


def table(name: str, policy: Any, contexts: Any) -> Floats:
    """The log-probability of every action in each context, or one row where all are alike."""
    what = f"the {name} policy's log_prob_all"
    with _blamed(f"{what} failed on {length(contexts)} context(s)"):
        answer, actions = policy.log_prob_all(contexts), len(policy.actions)
    scores = validate.log_probabilities(what, answer, ndim=2, zero=True)
    if scores.shape[1] != actions or len(scores) not in (1, length(contexts)):
        raise ValueError(
            f"{what} has shape {scores.shape}, expected "
            f"{(length(contexts), actions)}: a row a context, a column an action"
        )
    if not _ours(policy):
        with np.errstate(over="ignore"):
            total = np.exp(scores).sum(axis=1)
        wrong = ~(np.abs(total - 1) <= SLACK)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{what} has probabilities that sum to {total[row]:.6g} in row {row}, not to 1 "
                f"({int(wrong.sum())} such row(s) in {len(total)})"
            )
    return scores


def generator(rng: Any) -> None:
    """Randomness is a generator that is passed in, and nothing else."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, such as numpy.random.default_rng(0), got "
            f"{rng!r}"
        )


def _ours(policy: Any) -> bool:
    """Whether tables are normalized where they are made: not twice, for a million contexts."""
    return type(policy).__module__.startswith("tether.policies.")


_WRONG = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    NameError,
    NotImplementedError,
    RecursionError,
)
"""What code raises about what it was given; a lost connection or a lack of memory is not of these.
"""


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Whatever a policy raises is passed on with its name before it.

    As a ValueError where it cannot do what it was asked, as a RuntimeError where it is gone.
    """
    try:
        yield
    except Exception as error:
        known = isinstance(error, (ValueError, RuntimeError))
        kind = ValueError if isinstance(error, _WRONG) else RuntimeError
        raise kind(f"{what}: {error if known else repr(error)}") from error


def reached(log_safe: Floats, log_optimized: Floats) -> None:
    """Refuse an optimized policy that acts where the safe policy never does."""
    if log_safe.min() > -np.inf:
        return
    outside = np.isneginf(log_safe) & (log_optimized > -np.inf)
    if outside.any():
        where = tuple(int(index) for index in np.argwhere(outside)[0])
        raise ValueError(
            f"the safe policy cannot do what the optimized policy does: its log_prob is -inf at "
            f"{where if len(where) > 1 else where[0]} ({int(outside.sum())} of {outside.size}). "
            f"No log of the safe policy says what such actions cost; keep the optimized policy "
            f"to what the safe one can do, or clip with outside='never'"
        )


def joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    """Actions of both policies in one array, or an error that shows how they differ."""
    shapes = {piece.shape[1:] for piece in pieces}
    if len(shapes) > 1:
        raise ValueError(
            f"the policies (safe and optimized) draw actions of different shapes: "
            f"{' and '.join(map(str, sorted(shapes, key=len)))}"
        )
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
