"""A loss model fitted on training rows: as simple as the rows ask for.

Three kinds of models compete on rows that they have not seen: a constant, logistic regression with
the ridge penalty that predicts best, and one with squares of the contexts' numbers. A more complex
kind is taken only if its held-out likelihood is better than that of every simpler one by two nats
and by its own standard error, so few rows give a constant and a policy that is not tilted. A loss
between 0 and its bound counts as that share of a loss at the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import arrays, policy_calls, validate
from tether._core.arrays import Floats, Integers
from tether._core.contexts import as_contexts
from tether._core.extras import require
from tether.aiming.loss_models import LossModel
from tether.policies.policy import as_policy
from tether.policies.shortlist import without_candidates

LOSS_FOLDS, LEAST_GAIN, MIN_ROWS_FOR_SQUARES = 5, 2.0, 300
"""The number of folds, each predicted from the others; how many nats of likelihood a more complex
kind must gain; the fewest rows on which squares are tried."""
RIDGE_STRENGTHS = (0.02, 0.1, 0.5, 2.0)
"""The inverse penalties of logistic regression that are tried."""
MAX_INDICATED_ACTIONS, MAX_INDICATED_WORDS, MIN_ROWS_PER_INDICATOR = 64, 32, 3
"""The most actions, and words of a column, with an indicator each; the fewest rows of each."""
MAX_COLUMNS_WITH_PRODUCTS, LARGEST_SCORE = 64, 8.0
"""The most columns of contexts that are multiplied by those of the action; how many standard
deviations log-probabilities are clipped at."""
MAX_SLOPE, LARGEST_LOG_ODDS = 2.0, 12.0
"""How far held-out rows may stretch the log odds of a model, and where they are clipped."""


class PairFeatures:
    """Turns contexts and actions into a matrix of numbers, by a rule learned from some rows.

    Actions that are few (or text) are indicators, one per action; others are their numbers and
    squares. Columns of words in the contexts are indicators too, of words that are frequent enough.
    All products of context and action are included, so that a linear model has a slope of its own
    for every action, unless there are many columns. A missing or infinite number counts as the mean
    of its column. Policies may add their log-probabilities: a safe policy rarely does harm.
    """

    def __init__(self, contexts: Any, actions: NDArray[Any], policies: Sequence[Any] = ()) -> None:
        self.policies, self.products = tuple(policies), True
        given, taken = without_candidates(contexts, actions)
        self.indicated = _few_actions(taken)
        self.words = tuple(_words(name, column) for name, column in _columns(given))
        numbers = self._context_numbers(given, len(taken))
        self.products = numbers.shape[1] <= MAX_COLUMNS_WITH_PRODUCTS
        self.means, self.scales = _mean_and_scale(numbers)
        self.centers, self.spreads = _mean_and_scale(self._scores(contexts, actions))

    def __call__(self, contexts: Any, actions: NDArray[Any], *, squares: bool = False) -> Floats:
        """The features of each action in its context, one row per action."""
        scores = (self._scores(contexts, actions) - self.centers) / self.spreads
        contexts, actions = without_candidates(contexts, np.asarray(actions))
        numbers = self._context_numbers(contexts, len(actions))
        given = (np.where(np.isfinite(numbers), numbers, self.means) - self.means) / self.scales
        if squares:
            given = np.hstack([given, given**2])
        if self.indicated is not None:
            taken = (actions[:, None] == self.indicated).astype(np.float64)
        else:
            flat = actions.reshape(len(actions), -1).astype(np.float64)
            taken = np.hstack([flat, flat**2])
        parts = [given, taken, np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)]
        if self.products:
            parts.append((given[:, :, None] * taken[:, None, :]).reshape(len(given), -1))
        return np.hstack(parts)

    def _scores(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        scores = [policy_calls.score("policies", each, contexts, actions) for each in self.policies]
        return np.reshape(scores, (len(self.policies), len(actions))).T

    def _context_numbers(self, contexts: Any, rows: int) -> Floats:
        columns = _columns(contexts)
        if len(columns) != len(self.words):
            raise ValueError(
                f"contexts must have {len(self.words)} columns, as when the model was fitted, got "
                f"{len(columns)}"
            )
        parts = [np.zeros((rows, 0))]
        for (name, column), words in zip(columns, self.words, strict=True):
            found = _numbers(name, column)[:, None] if words is None else column[:, None] == words
            parts.append(np.asarray(found, dtype=np.float64))
        return np.hstack(parts)


def _columns(contexts: Any) -> list[tuple[str, NDArray[Any]]]:
    """The columns of contexts, with what errors call them; none where there are no contexts."""
    if isinstance(contexts, int):
        return []
    if hasattr(contexts, "columns"):
        return [
            (f"column {name!r}", arrays.plain_array(contexts[name])) for name in contexts.columns
        ]
    table = np.asarray(contexts)
    flat = table.reshape(len(table), -1)
    return [(f"column {k}", arrays.plain_array(flat[:, k])) for k in range(flat.shape[1])]


def _words(name: str, column: NDArray[Any]) -> NDArray[Any] | None:
    """The words of a column that are frequent enough; None if it holds numbers."""
    present = [each for each in column.tolist() if isinstance(each, str)]
    if not present:
        _numbers(name, column)
        return None
    words, counts = np.unique(np.array(present, dtype=np.str_), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MAX_INDICATED_WORDS]
    return np.sort(words[order[counts[order] >= MIN_ROWS_PER_INDICATOR]])


def _numbers(name: str, column: NDArray[Any]) -> Floats:
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    try:
        return np.array(
            [np.nan if arrays.is_missing(each) else float(each) for each in column.tolist()]
        )
    except (TypeError, ValueError):
        raise TypeError(
            f"contexts: {name} must hold numbers or words: leave it out, or pass a loss model of "
            f"your own, a function of (contexts, actions)"
        ) from None


def _mean_and_scale(columns: Floats) -> tuple[Floats, Floats]:
    """The mean and standard deviation of the finite numbers in each column; 0 and 1 if none."""
    means, scales = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
    for column, values in enumerate(columns.T):
        known = values[np.isfinite(values)]
        if len(known):
            means[column] = known.mean()
            scales[column] = (np.ptp(known) > 0 and known.std()) or 1.0
    return means, scales


def _few_actions(actions: NDArray[Any]) -> NDArray[Any] | None:
    """The different actions, if they are few or text; None if they are numbers."""
    is_number = actions.dtype.kind in "fiub"
    if actions.ndim == 1:
        different = np.unique(actions)
        few = len(different) <= min(MAX_INDICATED_ACTIONS, len(actions) // MIN_ROWS_PER_INDICATOR)
        if few or not is_number:
            return different
    if not is_number:
        raise TypeError(f"actions must be numbers, or one label per row, got {actions.dtype}")
    return None


@dataclass(frozen=True)
class FittedLoss:
    """A fitted loss model: call it with contexts and actions.

    `kind` is "constant", "linear" or "quadratic". The log odds of a constant are `shift`; other
    kinds have shift + slope · those of `model`, a scikit-learn classifier, on `features`.
    """

    kind: str
    bound: float
    shift: float
    slope: float = 0.0
    features: PairFeatures | None = None
    model: Any = None

    def __call__(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        """Predict the loss of each action in its context, between 0 and the bound."""
        log_odds = np.full(len(actions), self.shift)
        if self.features is not None:
            matrix = self.features(contexts, actions, squares=self.kind == "quadratic")
            log_odds = self.shift + self.slope * self.model.decision_function(matrix)
        return self.bound * _chance(log_odds)


def fit_loss(
    contexts: Any,
    actions: ArrayLike,
    losses: ArrayLike,
    *,
    rng: np.random.Generator,
    bound: float = 1.0,
    policies: Sequence[Any] = (),
) -> FittedLoss:
    """Fit a loss model on training rows.

    Parameters
    ----------
    contexts, actions, losses : array-like
        The columns of the rows. Contexts are numbers or words, such as those of a frame, or None;
        actions are numbers or labels; losses are from 0 to `bound`.
    rng : numpy.random.Generator
        Assigns rows to folds.
    bound : float, default 1.0
        The largest possible loss.
    policies : sequence of Policy or classifier, default ()
        Those whose log-probabilities are features of the model: the safe and the optimized one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, a = rng.normal(size=500), rng.integers(2, size=500)
    >>> harmed = rng.random(500) < np.where(a == 1, 1 / (1 + np.exp(-3 * x)), 0.05)
    >>> model = fit_loss(x, a, harmed, rng=rng)
    >>> model.kind, model(np.array([-2.0, 2.0]), np.array([1, 1])).round(1)
    ('linear', array([0., 1.]))
    """
    validate.generator("rng", rng)
    arrays.check_row_indexes({"contexts": contexts, "actions": actions, "losses": losses})
    taken = arrays.plain_column("actions", actions)
    rows = as_contexts(contexts, taken)
    limit = validate.number("bound", bound, above=0, below=np.inf)
    loss = validate.losses("losses", losses)
    validate.same_length("losses", loss, "actions", len(taken))
    validate.reject_above_bound("losses", loss, limit)
    share = loss / limit
    scoring = [
        each if hasattr(each, "log_prob") else as_policy("policies", each) for each in policies
    ]
    features = PairFeatures(rows, taken, scoring)
    mean = (float(share.sum()) + 0.5) / (len(share) + 1)
    best = FittedLoss("constant", limit, float(np.log(mean) - np.log1p(-mean)))
    if min((share > 0).sum(), (share < 1).sum()) < LOSS_FOLDS:
        return best  # too few to learn from
    order = rng.permutation(len(share))
    fold = np.empty(len(share), dtype=np.int64)  # with about as many losses in each
    fold[order[np.argsort(share[order], kind="stable")]] = np.arange(len(share)) % LOSS_FOLDS
    likelihood = _likelihood(np.full(len(share), mean), share)
    require("a fitted loss model", "sklearn")
    from sklearn.linear_model import LogisticRegression

    models = [LogisticRegression(C=strength, max_iter=500) for strength in RIDGE_STRENGTHS]
    for kind in ("linear", "quadratic")[: 1 + (len(share) >= MIN_ROWS_FOR_SQUARES)]:
        matrix = features(rows, taken, squares=kind == "quadratic")
        tried = [_held_out(model, matrix, share, fold) for model in models]
        number = int(np.argmax([each[0].sum() for each in tried]))
        found, shift, slope = tried[number]
        gain = found - likelihood
        if gain.sum() > max(LEAST_GAIN, gain.std() * np.sqrt(len(gain))):
            likelihood = found
            fitted = _fit(models[number], matrix, share, np.arange(len(share)))
            best = FittedLoss(kind, limit, shift, slope, features, fitted)
    return best


def _held_out(
    model: Any, matrix: Floats, share: Floats, fold: Integers
) -> tuple[Floats, float, float]:
    """The likelihood of rows under models that have not seen their fold, after shift and slope."""
    from sklearn.linear_model import LogisticRegression

    log_odds, everything = np.empty(len(share)), np.arange(len(share))
    for number in range(LOSS_FOLDS):
        fitted = _fit(model, matrix, share, np.flatnonzero(fold != number))
        log_odds[fold == number] = fitted.decision_function(matrix[fold == number])
    scale = _fit(LogisticRegression(C=1e4), log_odds[:, None], share, everything)
    slope = float(np.clip(scale.coef_[0, 0], 0.0, MAX_SLOPE))
    shift = float(scale.intercept_[0])
    return _likelihood(_chance(shift + slope * log_odds), share), shift, slope


def _fit(model: Any, matrix: Floats, share: Floats, rows: Integers) -> Any:
    """Fit a classifier of losses at the bound: a fraction of a loss is that fraction of a row."""
    from sklearn.base import clone

    lost, kept = rows[share[rows] > 0], rows[share[rows] < 1]
    classes = np.repeat([1, 0], [len(lost), len(kept)])
    weights = np.concatenate([share[lost], 1 - share[kept]])
    return clone(model).fit(matrix[np.concatenate([lost, kept])], classes, sample_weight=weights)


def _chance(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS))))


def _likelihood(chance: Floats, share: Floats) -> Floats:
    return np.asarray(share * np.log(chance) + (1 - share) * np.log1p(-chance))


def fit_rewards(contexts: Any, actions: NDArray[Any], rewards: Floats) -> LossModel:
    """Ridge regression of the rewards; a constant where contexts are neither numbers nor labels."""
    require("a reward model", "sklearn")
    from sklearn.linear_model import RidgeCV

    try:
        features = PairFeatures(contexts, actions)
    except TypeError:
        return lambda contexts, actions: np.full(len(actions), rewards.mean())
    model = RidgeCV(np.logspace(-3, 4, 8)).fit(features(contexts, actions), rewards)
    return lambda contexts, actions: model.predict(features(contexts, actions))
