"""Two policies that report no probabilities: their density ratio, estimated from draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Actions, Booleans, Contexts, Floats, Integers, shown
from tether._core.contexts import as_contexts, length, take
from tether._core.extras import require
from tether.policies.functions import FunctionPolicy
from tether.policies.policy import as_sampler

Features: TypeAlias = Callable[[Any, NDArray[Any]], Any]
"""A function of (contexts, actions) that returns a matrix with one row per action."""
MIN_RATIO_DRAWS = 100
"""Draws of each policy below which no ratio is estimated."""
MAX_FEATURES_WITH_PRODUCTS = 32
"""Up to this many features the default classifier uses their squares and products as well."""
RATIO_CONFIDENCE = 0.95
"""The probability, over the held-out draws, that the intervals of all cells hold at once."""
MAX_SCORE_CELLS, MIN_DRAWS_PER_CELL = 10, 50
"""Into how many cells the estimated ratio is cut, and how many draws each of them has at least."""
MAX_REGIONS, MIN_DRAWS_OF_REGION = 8, 100
"""Into how many regions the features are cut, and how many draws each of them has at least."""
LARGEST_LOG_FACTOR = 60.0
"""Beyond the factor that any number of draws can show."""


@dataclass(frozen=True)
class DensityRatio:
    """An estimated density ratio of two policies, and the two as policies to calibrate.

    In cells of held-out draws, with similar ratios or in a region where the estimate looks off, the
    number of draws of the optimized policy is compared with the number that the ratios imply. This
    measures the *average* error over a cell: where the ratio is off in both directions within a
    cell, it is not seen. A promise that rests on it is therefore approximate.
    """

    safe: FunctionPolicy
    optimized: FunctionPolicy
    error: float
    """The factor by which ratios may be off, the largest over all cells: for `ratio_error`."""

    def log_ratio(self, contexts: Contexts, actions: Actions) -> Floats:
        """Log of the optimized policy's density over that of the safe one, at each action."""
        return self.optimized.log_prob(contexts, actions)

    def __str__(self) -> str:
        return str(self.optimized.approximate)


def estimate_ratio(
    safe: Any,
    optimized: Any,
    contexts: Contexts,
    rng: np.random.Generator,
    *,
    features: Features | None = None,
    classifier: Any = None,
) -> DensityRatio:
    """Estimate the density ratio of two policies that draw but report no probabilities.

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
        Contexts like those to be served and not those of the log, in each of which both policies
        draw once; the number of draws where there are no contexts.
    rng : numpy.random.Generator
        Source of all randomness: the same state gives the same estimate.
    features : callable, optional
        Function of (contexts, actions) that returns a matrix, dense or sparse, with one row per
        action. By default contexts and actions side by side, which must be numbers.
    classifier : scikit-learn classifier, optional
        Any classifier with `predict_proba`; logistic regression on scaled features and their
        products by default. One that is too sure of itself, such as a forest, is better wrapped in
        scikit-learn's `CalibratedClassifierCV`.

    Returns
    -------
    DensityRatio
        The two policies, and the measured error.
    """
    samplers = {"safe": as_sampler("safe", safe), "optimized": as_sampler("optimized", optimized)}
    contexts = as_contexts(contexts)
    validate.generator("rng", rng)
    require("tether.estimate_ratio", "sklearn")
    count = length(contexts)
    if count < MIN_RATIO_DRAWS:
        raise ValueError(
            f"contexts make {count} draws of each policy; at least {MIN_RATIO_DRAWS} are needed"
        )
    drawn_in = take(contexts, np.tile(np.arange(count), 2))
    actions = np.concatenate(
        [policy_calls.draw(name, each, contexts, rng) for name, each in samplers.items()]  # type: ignore[arg-type]
    )
    # Both halves have as many draws of one policy as of the other, in a context both.
    is_optimized = np.repeat([False, True], count)
    if isinstance(contexts, int):
        fitting = np.concatenate([rng.permutation(count) % 2 == 0 for _ in samplers])
    else:
        fitting = np.tile(rng.permutation(count) % 2 == 0, 2)
    matrix = feature_matrix(features, drawn_in, actions)
    unfitted = default_classifier(matrix) if classifier is None else classifier
    model = seeded_clone(unfitted, rng).fit(matrix[fitting], is_optimized[fitting].astype(np.int64))
    log_ratio = EstimatedLogRatio(model, features, int(fitting.sum()) // 2)
    found = log_ratio(drawn_in, actions)
    tree = _fit_regions(matrix[fitting], found[fitting], is_optimized[fitting], rng)
    held_out = ~fitting
    regions = tree.apply(matrix[held_out])
    error = measure(found[held_out], is_optimized[held_out], regions)
    approximate = (
        f"approximate: the policies report no probabilities, and their density ratio was estimated "
        f"by a classifier from {count:,} draws of either policy. On held-out draws it is off by a "
        f"factor of up to {error:.3g} ({RATIO_CONFIDENCE:.0%} confidence) on average over cells "
        f"of draws; the promise holds only if no ratio is off by more than the ratio_error stated"
    )
    found_safe = FunctionPolicy(samplers["safe"].sample, EstimatedLogRatio())
    found_optimized = FunctionPolicy(samplers["optimized"].sample, log_ratio)
    found_optimized.approximate, found_optimized.ratio_error = approximate, error
    return DensityRatio(found_safe, found_optimized, error)


@dataclass(frozen=True)
class EstimatedLogRatio:
    """The log odds of a classifier that tells draws of the two policies apart, as a log ratio.

    Clipped at the number of draws of each that it was fitted on: a larger ratio rests on no draw of
    the other. Without a model it is that of the safe policy to itself, 0.
    """

    model: Any = None
    features: Features | None = None
    draws: int = 1

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """One log ratio per action."""
        if self.model is None:
            return np.zeros(len(actions))
        matrix = feature_matrix(self.features, contexts, actions)
        column = int(np.flatnonzero(np.asarray(self.model.classes_) == 1)[0])
        probability = np.asarray(self.model.predict_proba(matrix), dtype=np.float64)[:, column]
        if not (probability.min() >= 0 and probability.max() <= 1):  # NaN fails this too
            raise ValueError("classifier returned a probability that is not between 0 and 1")
        with np.errstate(divide="ignore"):
            log_odds = np.log(probability) - np.log1p(-probability)
        return np.asarray(np.clip(log_odds, -np.log(self.draws), np.log(self.draws)))


def seeded_clone(classifier: Any, rng: np.random.Generator) -> Any:
    """An unfitted copy whose random states, where none is set, come from the generator."""
    from sklearn.base import clone

    copy, seed = clone(classifier), int(rng.integers(2**31 - 1))
    unset = [name for name, value in copy.get_params(deep=True).items() if value is None]
    states = (name for name in unset if name.rpartition("__")[2] == "random_state")
    return copy.set_params(**dict.fromkeys(states, seed))


def default_classifier(matrix: Any) -> Any:
    """Logistic regression on scaled features and their products: exact for two Gaussians."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    steps: list[Any] = [StandardScaler(with_mean=not hasattr(matrix, "tocsr"))]
    if matrix.shape[1] <= MAX_FEATURES_WITH_PRODUCTS and not hasattr(matrix, "tocsr"):
        steps += [PolynomialFeatures(2, include_bias=False), StandardScaler()]
    return make_pipeline(*steps, LogisticRegression(max_iter=1_000))


def feature_matrix(features: Features | None, contexts: Any, actions: NDArray[Any]) -> Any:
    """The features of each action in its context: a matrix of numbers that rows can be taken of."""
    if features is None:
        columns = [] if isinstance(contexts, int) else [_numbers("contexts", contexts)]
        return np.hstack([*columns, _numbers("actions", actions)])
    matrix = features(contexts, actions)
    matrix = matrix.tocsr() if hasattr(matrix, "tocsr") else _numbers("features", matrix)
    if matrix.shape[0] != len(actions):
        raise ValueError(f"features returned {matrix.shape[0]} rows for {len(actions)} actions")
    return matrix


def _numbers(name: str, values: Any) -> Floats:
    table = np.asarray(values)
    if table.dtype.kind in "fiub":
        return table.reshape(len(table), -1).astype(np.float64)
    raise TypeError(
        f"{name} must hold numbers, got {shown(values)}; features= is a function of (contexts, "
        f"actions) that returns a matrix of them, such as lambda contexts, actions: "
        f"contexts.assign(action=actions)"
    )


def _fit_regions(
    matrix: Any, log_ratio: Floats, is_optimized: Booleans, rng: np.random.Generator
) -> Any:
    """A small tree of the error of the log odds: it sees what too simple a classifier does not."""
    from scipy.special import expit
    from sklearn.tree import DecisionTreeRegressor

    expected = expit(log_ratio)
    variance = np.maximum(expected * (1 - expected), 1e-3)
    tree = DecisionTreeRegressor(
        max_leaf_nodes=MAX_REGIONS,
        min_samples_leaf=max(MIN_DRAWS_OF_REGION, len(log_ratio) // 20),
        random_state=int(rng.integers(2**31 - 1)),
    )
    return tree.fit(matrix, (is_optimized - expected) / variance, sample_weight=variance)


def measure(log_ratio: Floats, is_optimized: Booleans, regions: Integers) -> float:
    """The factor by which ratios are off, by held-out draws.

    Cells are draws of similar ratio, and regions.
    """
    count = int(np.clip(len(log_ratio) // MIN_DRAWS_PER_CELL, 1, MAX_SCORE_CELLS))
    edges = np.unique(np.quantile(log_ratio, np.linspace(0, 1, count + 1)[1:-1]))
    number = np.searchsorted(edges, log_ratio)  # equal ratios share a cell
    cells = [each == value for each in (number, regions) for value in np.unique(each)]
    ratio = np.exp(log_ratio[~is_optimized])
    factors = [ratio.mean(), 1 / ratio.mean()]
    for inside in cells:
        hits, miss = int(is_optimized[inside].sum()), (1 - RATIO_CONFIDENCE) / len(cells)
        low, high = factor_interval(log_ratio[inside], hits, miss)
        factors += [high, 1 / low if low > 0 else np.inf]
    return float(max(factors))


def factor_interval(log_odds: Floats, hits: int, miss: float) -> tuple[float, float]:
    """The interval of a common factor of all odds, from the number of hits; wrong with `miss`.

    Given their places, draws are of the optimized policy independently of each other, with odds of
    a factor times those predicted. The number of hits is then more concentrated than a binomial one
    with the same mean (Hoeffding, 1956), so the ends of the Clopper-Pearson interval of that mean,
    turned into factors, hold.
    """
    from scipy.optimize import brentq
    from scipy.special import expit
    from scipy.stats import beta as beta_distribution

    def factor(mean: float) -> float:
        def excess(log_factor: float) -> float:
            return float(expit(log_odds + log_factor).mean()) - mean

        return float(np.exp(brentq(excess, -LARGEST_LOG_FACTOR, LARGEST_LOG_FACTOR)))

    draws = len(log_odds)
    low = factor(beta_distribution.ppf(miss / 2, hits, draws - hits + 1)) if hits else 0.0
    high = beta_distribution.isf(miss / 2, hits + 1, draws - hits) if hits < draws else None
    return low, np.inf if high is None else factor(high)
