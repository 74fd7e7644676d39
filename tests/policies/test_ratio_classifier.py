import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tether.policies import ratio_classifier
from tether.policies.ratio_classifier import (
    RatioClassifier,
    cross_fit,
    log_odds_of,
    recalibrated,
    seeded_clone,
)


class Frequencies(ClassifierMixin, BaseEstimator):
    """The exact frequencies of the classes at each value of an integer feature."""

    def __init__(self, refuse=False):
        self.refuse = refuse

    def fit(self, matrix, labels):
        self.classes_, self.seen_ = np.array([0, 1]), set(map(tuple, matrix.tolist()))
        self.share_ = {key: labels[matrix[:, 0] == key].mean() for key in set(matrix[:, 0])}
        return self

    def predict_proba(self, matrix):
        if self.refuse:
            assert not self.seen_ & set(map(tuple, matrix.tolist()))
        share = np.array([self.share_[key] for key in matrix[:, 0]])
        return np.column_stack([1 - share, share])


def two_values(safe, optimized):
    """Draws of a feature with values 0 and 1: counts of both under each policy."""
    values = np.repeat([0, 1, 0, 1], [*safe, *optimized]).astype(float)
    return values[:, None], np.repeat([False, True], [sum(safe), sum(optimized)])


@pytest.mark.parametrize("optimized", [(100, 300), (400, 1_200), (25, 75)])
def test_the_numbers_of_draws_do_not_matter_to_the_ratio(optimized):
    matrix, is_optimized = two_values((300, 100), optimized)
    fold = np.arange(len(matrix)) % 5  # every fold has the same shares
    scorer, _ = cross_fit(Frequencies(), matrix, is_optimized, fold, np.random.default_rng(0))
    found = scorer.log_ratio(np.array([[0.0], [1.0]]))
    assert np.allclose(found, np.log([0.25 / 0.75, 0.75 / 0.25]), atol=1e-3)


def test_weights_of_classes_do_not_matter_to_the_ratio():
    rng = np.random.default_rng(0)
    matrix = np.concatenate([rng.normal(size=1_000), rng.normal(1, 1, size=4_000)])[:, None]
    is_optimized, fold = np.arange(5_000) >= 1_000, rng.permutation(5_000) % 5
    points = np.linspace(-2, 3, 9)[:, None]
    plain, weighted = (
        cross_fit(LogisticRegression(class_weight=weight), matrix, is_optimized, fold, rng)[0]
        for weight in (None, "balanced")
    )
    assert np.allclose(plain.log_ratio(points), points[:, 0] - 0.5, atol=0.25)
    assert np.allclose(plain.log_ratio(points), weighted.log_ratio(points), atol=0.05)


def test_no_draw_is_scored_by_a_classifier_that_saw_it():
    matrix, is_optimized = two_values((30, 30), (30, 30))
    matrix = np.column_stack([matrix, np.arange(120.0)])  # every draw can be told apart
    fold = np.arange(120) % 4
    rng = np.random.default_rng(0)
    scorer, _ = cross_fit(Frequencies(refuse=True), matrix, is_optimized, fold, rng)
    assert len(scorer.models) == 4
    with pytest.raises(AssertionError):
        scorer.log_ratio(matrix)


def test_a_classifier_that_memorizes_is_not_believed():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(2_000, 1))
    is_optimized, fold = np.arange(2_000) >= 1_000, rng.permutation(2_000) % 5
    scorer, _ = cross_fit(KNeighborsClassifier(1), matrix, is_optimized, fold, rng)
    assert scorer.slope < 0.01
    assert np.abs(scorer.log_ratio(matrix)).max() < 0.2


def test_ratios_are_clipped_at_the_number_of_draws():
    scorer = RatioClassifier((), 0.5, 2.0, -3.0, 4.0)
    assert scorer.finish(np.array([-9.0, 1.0, 9.0])).tolist() == [-3.0, 2.5, 4.0]
    matrix, is_optimized = two_values((200, 0), (0, 100))
    fold = np.arange(300) % 5
    scorer, unseen = cross_fit(Frequencies(), matrix, is_optimized, fold, np.random.default_rng(0))
    assert np.allclose(scorer.log_ratio(np.array([[0.0], [1.0]])), [-np.log(100), np.log(200)])
    assert np.isfinite(unseen).all()


@given(
    st.lists(st.tuples(st.floats(-4, 4), st.booleans()), min_size=30, max_size=60),
    st.floats(-0.3, 0.3),
    st.floats(-0.3, 0.3),
)
def test_recalibration_has_the_largest_likelihood(draws, shift_by, slope_by):
    log_odds, is_optimized = (np.array(column) for column in zip(*draws, strict=True))
    if is_optimized.all() or not is_optimized.any():
        return

    def loss(shift, slope):
        margin = np.where(is_optimized, 1, -1) * (shift + slope * log_odds)
        return np.logaddexp(0, -margin).mean()

    shift, slope = recalibrated(log_odds, is_optimized)
    assert 0 <= slope <= 4
    assert loss(shift, slope) <= loss(shift + shift_by, np.clip(slope + slope_by, 0, 4)) + 1e-6


def test_random_states_come_from_the_generator_unless_they_are_set():
    rng = np.random.default_rng(0)
    nested = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    copies = [seeded_clone(nested, rng)[1].random_state for _ in range(2)]
    assert None not in copies
    assert copies[0] != copies[1]
    assert nested[1].random_state is None
    assert seeded_clone(RandomForestClassifier(random_state=7), rng).random_state == 7


def test_probabilities_of_zero_and_one_have_finite_log_odds_and_others_are_refused():
    class Broken(DummyClassifier):
        def predict_proba(self, matrix):
            return np.full((len(matrix), 2), np.nan)

    matrix, labels = np.zeros((10, 1)), np.arange(10) % 2
    sure = DummyClassifier(strategy="most_frequent").fit(matrix, labels)
    assert np.isfinite(log_odds_of(sure, matrix)).all()
    with pytest.raises(ValueError, match="not between 0 and 1"):
        log_odds_of(Broken().fit(matrix, labels), matrix)


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match=r"estimate_ratio needs sklearn: pip install"):
        ratio_classifier.default_classifier(np.zeros((4, 2)))
