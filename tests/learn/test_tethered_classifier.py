"""The tethered classifier: scikit-learn's own checks, what it promises, and what breaks it."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import tether
from tests.scale import scaled
from tether.learn import TetheredClassifier
from tether.learn.classifiers import _uniform_by_row

X, Y = make_classification(1500, n_features=6, n_informative=4, n_classes=3, random_state=0)
HARMFUL = FrozenEstimator(LogisticRegression().fit(X, (Y + 1) % 3))  # almost always wrong
SAFE, NEW = DummyClassifier(strategy="uniform").fit(X, Y), LogisticRegression().fit(X, Y)


def make(alpha=0.72, **options):
    safe, new = DummyClassifier(strategy="uniform"), LogisticRegression()
    return TetheredClassifier(safe, new, alpha=alpha, random_state=0, **options)


@pytest.fixture(scope="module")
def held_back():
    """A classifier of which only a part may serve."""
    safe = DummyClassifier(strategy="uniform")
    return TetheredClassifier(safe, HARMFUL, alpha=0.75, random_state=0).fit(X, Y)


@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn():
    draws = "predict draws from predict_proba, as the promise is about draws: it is no argmax"
    failing = {"check_classifiers_train": draws}
    found = check_estimator(make(), expected_failed_checks=failing, on_fail=None, on_skip=None)
    assert [each["check_name"] for each in found if each["status"] == "failed"] == []
    assert sum(each["status"] == "passed" for each in found) > 45


def test_probabilities_are_those_of_the_policy_and_predictions_follow_them(held_back):
    assert 0 < held_back.calibration_.beta < np.inf
    few, repeats, counts = X[:40], scaled(600), np.zeros((40, 3))
    stated = held_back.predict_proba(few)
    np.testing.assert_allclose(stated, np.exp(held_back.policy_.log_prob_all(few)))
    model = pickle.loads(pickle.dumps(held_back))
    for seed in range(repeats):
        model.seed_ = seed
        counts[np.arange(40), model.predict(few)] += 1
    error = np.sqrt(stated * (1 - stated) / repeats)
    assert (np.abs(counts / repeats - stated) <= 4.5 * error + 1e-9).all()
    together = held_back.predict(few)
    assert [held_back.predict(few[k : k + 1])[0] for k in range(40)] == together.tolist()


def test_draws_by_row_are_uniform_and_depend_on_the_row_alone():
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    together = _uniform_by_row(rows, 1)
    one = [_uniform_by_row(rows[:1], seed)[0] for seed in range(2000)]
    assert min(stats.kstest(each, "uniform").pvalue for each in (together, one)) > 1e-3
    assert (_uniform_by_row(rows[::-1], 1)[::-1] == together).all()
    assert (_uniform_by_row(pd.DataFrame(rows), 1) == together).all()


def test_the_expected_loss_is_at_most_the_promise_and_without_a_tether_it_is_not():
    losses, wrong, promises = [], [], []
    for seed in range(scaled(40)):
        rows = np.random.default_rng(seed).choice(1500, 600, replace=False)
        model = TetheredClassifier(SAFE, HARMFUL, alpha=0.75, random_state=seed)
        model.calibrate(X[rows[:300]], Y[rows[:300]])
        test, at = rows[300:], (np.arange(300), Y[rows[300:]])
        losses.append(1 - model.predict_proba(X[test])[at].mean())
        wrong.append(1 - HARMFUL.predict_proba(X[test])[at].mean())
        promises.append(model.calibration_.promise)
    assert np.mean(losses) <= np.mean(promises) + 3 * np.std(losses) / np.sqrt(len(losses))
    assert np.mean(wrong) > np.mean(promises) + 0.05


def test_a_frame_of_costs_is_read_by_its_labels_and_holds_what_is_promised():
    """Read by position it is another loss, and what is served costs more than is promised."""
    costs = pd.DataFrame([[0, 0, 0], [1, 0, 1], [1, 1, 0]], [1, 0, 2], [1, 0, 2]).astype(float)
    truth, means = costs.loc[[0, 1, 2], [0, 1, 2]].to_numpy(), []
    often_one = FrozenEstimator(DummyClassifier(strategy="constant", constant=1).fit(X, Y))
    for loss in (costs, truth, lambda y, a: truth[y, a], costs.to_numpy()):
        served = []
        for seed in range(10):
            model = TetheredClassifier(SAFE, often_one, alpha=0.5, loss=loss, random_state=seed)
            table = model.calibrate(X[seed::3], Y[seed::3]).predict_proba(X)
            served.append((table * truth[Y]).sum(axis=1).mean())
        means.append(np.mean(served))
    assert means[0] == means[1] == means[2] <= 0.5
    assert means[3] > 0.52
    more = make(loss=lambda y, a: y != a).fit(X, Y)  # a function may know of more classes
    assert more.calibrate(X, np.where(np.arange(1500) < 7, 9, Y)).calibration_.exists
    polars = pl.DataFrame(costs.to_numpy(), schema=["1", "0", "2"])
    renamed = costs.rename(index={1: 7}), costs.rename(columns={1: 7})
    for wrong in (*renamed, polars, np.zeros((2, 2)), 3 * costs):
        with pytest.raises(ValueError, match="loss"):
            make(loss=wrong).fit(X, Y)


@pytest.mark.parametrize("form", [np.array, pd.Series, lambda y: pd.Series(y, dtype="category")])
def test_classes_may_be_strings_and_features_frames(form):
    names = np.array(["low", "mid", "top"])[Y]
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model, by_array = make().fit(frame, form(names)), make().fit(X, names)
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert (model.predict(frame[:50]) == by_array.predict(X[:50])).all()
    assert make().fit(pl.DataFrame(X), Y).predict(pl.DataFrame(X[:5])).shape == (5,)


def test_a_log_of_what_the_safe_classifier_did_calibrates_it():
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=1500)
    losses = (actions != Y).astype(float)
    beside = {"rewards": 1 - losses, "propensities": np.full(1500, 1 / 3)}
    model = TetheredClassifier(SAFE, NEW, alpha=0.75, confidence=0.9, random_state=0)
    model.calibrate(X, actions=actions, losses=losses, **beside)
    log = tether.make_log(SAFE, NEW, X, actions, losses, **beside)
    assert model.calibration_.beta == tether.calibrate(log, alpha=0.75, confidence=0.9).beta
    assert model.safe_ is SAFE
    beside["propensities"] = np.full(1500, 0.5)
    with pytest.raises(ValueError, match="propensities"):
        model.calibrate(X, actions=actions, losses=losses, **beside)
    for wrong in ({}, {"losses": losses}, {"y": Y, "rewards": losses}):
        with pytest.raises(ValueError, match="calibrate needs"):
            model.calibrate(X, **wrong)


def test_where_no_promise_is_useful_the_safe_classifier_serves_and_a_warning_says_so():
    with pytest.warns(tether.PromiseWarning, match="the safe classifier serves"):
        model = make(alpha=0.01).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X[:5]), 1 / 3)
    assert model.policy_.beta == 0


class Reversed(ClassifierMixin, BaseEstimator):
    """A classifier of one's own whose classes are not sorted and which knows no features."""

    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(np.asarray(X), y)
        self.classes_ = self.inner_.classes_[::-1]
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(np.asarray(X))[:, ::-1]


def test_classifiers_may_have_classes_in_any_order_and_others_may_be_set():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = TetheredClassifier(Reversed().fit(X, Y), NEW, alpha=0.72, random_state=0)
    np.testing.assert_allclose(model.calibrate(X, Y).predict_proba(X), NEW.predict_proba(X))
    model.set_params(optimized=Reversed().fit(frame, Y)).calibrate(frame, Y)
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["a", "b"]])


def test_what_fails_changes_nothing():
    model = make().fit(X, Y)
    before, kept = model.predict_proba(X), model.optimized_
    for wrong in (Y[:1], Y + 1, Y.astype(str), np.where(np.arange(1500) < 7, np.nan, Y)):
        with pytest.raises(ValueError, match="y"):
            model.calibrate(X, wrong)
    for name, value in (("alpha", 60), ("loss", np.zeros((2, 2))), ("calibration_share", 1.0)):
        with pytest.raises(ValueError, match=name):
            model.set_params(**{name: value}).fit(-X, Y)
        model.set_params(**make().get_params())
    assert model.optimized_ is kept
    np.testing.assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(TypeError, match="predict_proba"):
        TetheredClassifier(SAFE, LinearSVC(), alpha=0.6).fit(X, Y)
