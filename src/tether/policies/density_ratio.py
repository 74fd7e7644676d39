"""Two policies that tell no probabilities: their density ratio, estimated from draws of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts, length, take
from tether._core.plain_arrays import plain_column
from tether._core.shown import shown
from tether._core.types import Actions, Contexts, Floats, Integers
from tether.policies.estimated_policy import EstimatedPolicy
from tether.policies.ratio_classifier import RatioClassifier, cross_fit
from tether.policies.ratio_error import RatioError, measure
from tether.policies.ratio_features import Features, feature_matrix, visible_columns
from tether.policies.ratio_regions import fit_regions

MIN_RATIO_DRAWS = 100
"""Draws of each policy below which no ratio is estimated."""


class Draws(Protocol):
    """What is used of a policy that tells no probabilities."""

    def sample(self, contexts: Any, rng: np.random.Generator, /) -> Any:
        """One action per context."""
        ...


Sampler: TypeAlias = "Draws | Callable[[Any, np.random.Generator], ArrayLike]"
"""A function of (contexts, rng) that returns one action per context, or an object with it."""


@dataclass(frozen=True)
class DensityRatio:
    """An estimated density ratio of two policies, and the two as policies that can be calibrated.

    Parameters
    ----------
    safe, optimized : EstimatedPolicy
        The two policies, with densities relative to the safe one.
    measured : RatioError
        How far off the ratio is on held-out draws.
    safe_draws, optimized_draws : int
        The numbers of draws; half of them fitted the classifiers, the others measured the error.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = estimate_ratio(
    ...     lambda n, rng: rng.normal(0, 1, n), lambda n, rng: rng.normal(1, 1, n), 4_000, rng
    ... )
    >>> ratio.log_ratio(2, [0.0, 1.0]).round(1)                # the true ones are −0.5 and 0.5
    array([-0.5,  0.5])
    """

    safe: EstimatedPolicy
    optimized: EstimatedPolicy
    measured: RatioError
    safe_draws: int
    optimized_draws: int

    @property
    def error(self) -> float:
        """The factor by which ratios may be off: what to pass as `ratio_error`."""
        return self.measured.factor

    def log_ratio(self, contexts: Contexts | None, actions: Actions) -> Floats:
        """Compute the estimated log ratio of each action in its context.

        Parameters
        ----------
        contexts : array-like, int or None
            One row per action; None or the number of actions where there are no contexts.
        actions : array-like
            One action per context.

        Returns
        -------
        ndarray
            Log of the optimized policy's density over that of the safe one.
        """
        actions = plain_column("actions", actions)
        return self.optimized.log_prob(as_contexts(contexts, actions), actions)

    def __str__(self) -> str:
        counts = f"{self.safe_draws:,} safe and {self.optimized_draws:,} optimized draws"
        return f"approximate density ratio from {counts}\n{self.measured}"


def estimate_ratio(
    safe: Sampler,
    optimized: Sampler,
    contexts: Contexts,
    rng: np.random.Generator,
    *,
    draws: int | tuple[int, int] = 1,
    features: Features | None = None,
    classifier: Any = None,
    folds: int = 5,
) -> DensityRatio:
    """Estimate the density ratio of two policies that can be drawn from but tell no probabilities.

    A classifier learns to tell the draws of the two policies apart; its log odds are the log ratio.
    The result has two policies with densities relative to the safe one, for `make_log`,
    `make_proposals`, `calibrate` and `Tethered`. They are *approximate*: the promise holds if no
    ratio is off by more than the `ratio_error` passed to `calibrate`. `error` measures that factor
    on held-out draws, but only on average over cells of draws, and only for the contexts given.
    A shortlist with the method `log_ratio` as its score does not depend on how good the estimate
    is. Needs the extra `learn`.

    Parameters
    ----------
    safe, optimized : object or callable
        The two policies: objects with `sample(contexts, rng)`, or functions of (contexts, rng).
    contexts : array-like or int
        Contexts like those to be served and not those of the log; the number of draws of each
        policy where there are no contexts.
    rng : numpy.random.Generator
        Source of all randomness: the same state gives the same estimate.
    draws : int or tuple of two int, default 1
        Draws of each policy per context; a pair if the safe policy's number differs from the
        optimized one's.
    features : callable, optional
        Function of (contexts, actions) that returns a matrix, dense or sparse, with one row per
        action; contexts are an integer where there are none. By default contexts and actions side
        by side, which must be numbers.
    classifier : scikit-learn classifier, optional
        Any classifier with `predict_proba`; logistic regression on scaled features and their
        products by default.
    folds : int, default 5
        The number of classifiers. Each is fitted without its fold of the draws; the average of
        their log odds is used.

    Returns
    -------
    DensityRatio
        The two policies, and the measured error.

    Raises
    ------
    ImportError
        If scikit-learn is not installed.
    TypeError, ValueError
        If an argument has the wrong type or value, or there are fewer than 100 draws of a policy.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def safe(contexts, rng):
    ...     return contexts + rng.normal(size=len(contexts))
    >>> def optimized(contexts, rng):
    ...     return contexts + 0.3 + rng.normal(size=len(contexts))
    >>> ratio = estimate_ratio(safe, optimized, rng.normal(size=10_000), rng)
    >>> bool(1 < ratio.error < 1.5)
    True
    """
    samplers = _sampler("safe", safe), _sampler("optimized", optimized)
    contexts = as_contexts(contexts)
    validate.generator("rng", rng)
    folds = validate.integer_at_least("folds", folds, 2)
    counts = _draw_counts(draws, length(contexts))
    rows = [np.repeat(np.arange(length(contexts)), count) for count in counts]
    drawn_in = take(contexts, np.concatenate(rows))
    actions = policy_calls.concatenate_actions(
        [
            policy_calls.draw(
                name, EstimatedPolicy(name, sampler, ZeroLogRatio()), take(contexts, row), rng
            )
            for name, sampler, row in zip(("safe", "optimized"), samplers, rows, strict=True)
        ]
    )
    is_optimized = np.repeat([False, True], [len(row) for row in rows])
    part = _random_parts(contexts, rows, 2 * folds, rng)
    fitting, held_out = part < folds, part >= folds
    matrix = feature_matrix(features, drawn_in, actions)
    scorer, unseen = cross_fit(
        classifier, matrix[fitting], is_optimized[fitting], part[fitting], rng
    )
    visible = visible_columns(features, matrix, drawn_in, actions)
    regions = fit_regions(visible[fitting], unseen, is_optimized[fitting], rng)
    log_ratio = scorer.log_ratio(matrix[held_out])
    measured = measure(log_ratio, is_optimized[held_out], regions(visible[held_out], log_ratio))
    return DensityRatio(
        EstimatedPolicy("safe", samplers[0], ZeroLogRatio()),
        EstimatedPolicy(
            "optimized",
            samplers[1],
            EstimatedLogRatio(scorer, features),
            approximate=approximation(measured, len(rows[0]), len(rows[1])),
            ratio_error=measured.factor,
        ),
        measured,
        len(rows[0]),
        len(rows[1]),
    )


def approximation(measured: RatioError, safe_draws: int, optimized_draws: int) -> str:
    """What is approximate about an estimated ratio, in one sentence, for warnings and reports."""
    return (
        f"approximate: the policies told no probabilities, and their density ratio was estimated "
        f"by a classifier from {safe_draws:,} draws of the safe and {optimized_draws:,} of the "
        f"optimized policy. On held-out draws it is off by a factor of up to "
        f"{measured.factor:.3g} on average over cells of draws; the promise holds only if no ratio "
        f"is off by more than the ratio_error stated"
    )


def _sampler(name: str, policy: Any) -> Callable[[Any, np.random.Generator], Any]:
    found: Callable[[Any, np.random.Generator], Any] = getattr(policy, "sample", policy)
    if isinstance(policy, type) or not callable(found):
        raise TypeError(
            f"{name} must be an object with sample(contexts, rng) or a function of "
            f"(contexts, rng), got {shown(policy)}"
        )
    return found


def _draw_counts(draws: int | tuple[int, int], rows: int) -> tuple[int, int]:
    """How many draws of each policy are made per context."""
    if isinstance(draws, (tuple, list)):
        if len(draws) != 2:
            raise ValueError(f"draws must be an integer or a pair of integers, got {draws!r}")
        counts = (draws[0], draws[1])
    else:
        counts = (draws, draws)
    for count, name in zip(counts, ("safe", "optimized"), strict=True):
        total = rows * validate.integer_at_least("draws", count)
        if total < MIN_RATIO_DRAWS:
            raise ValueError(
                f"contexts and draws make {total} draws of the {name} policy; at least "
                f"{MIN_RATIO_DRAWS} are needed"
            )
    return counts


def _random_parts(
    contexts: Any, rows: list[Integers], count: int, rng: np.random.Generator
) -> Integers:
    """A part for each draw, at random; all draws of a row of contexts are in the same part."""
    if isinstance(contexts, int):
        return np.concatenate([rng.permutation(len(row)) % count for row in rows])
    return np.asarray(rng.permutation(length(contexts)) % count)[np.concatenate(rows)]


@dataclass(frozen=True)
class ZeroLogRatio:
    """The log ratio of the safe policy to itself."""

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """One log ratio per action."""
        return np.zeros(len(actions))


@dataclass(frozen=True)
class EstimatedLogRatio:
    """The estimated log ratio of actions in their contexts."""

    scorer: RatioClassifier
    features: Features | None

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """One log ratio per action."""
        return self.scorer.log_ratio(feature_matrix(self.features, contexts, actions))
