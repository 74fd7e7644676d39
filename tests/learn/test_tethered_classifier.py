"""The tethered classifier: scikit-learn's own checks, and what it promises."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import tether
from tests.scale import scaled
from tether.learn import TetheredClassifier

DRAWS = "predict draws from predict_proba, as the promise is about draws: it is no argmax"
NOT_APPLICABLE = {"check_classifiers_train": DRAWS}
X, Y = make_classification(1500, n_features=6, n_informative=4, n_classes=3, random_state=0)
HARMFUL = FrozenEstimator(LogisticRegression().fit(X, (Y + 1) % 3))  # almost always wrong


def make(alpha=0.72, **options):
    safe, new = DummyClassifier(strategy="uniform"), LogisticRegression()
    return TetheredClassifier(safe, new, alpha=alpha, random_state=0, **options)


@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn():
    found = check_estimator(
        make(), expected_failed_checks=NOT_APPLICABLE, on_fail=None, on_skip=None
    )
    assert {each["check_name"] for each in found if each["status"] == "failed"} == set()
    assert {each["check_name"] for each in found if each["status"] == "xfail"} == {
        "check_classifiers_train"
    }
    assert sum(each["status"] == "passed" for each in found) > 45


def held_back():
    """A classifier of which only a part may serve."""
    safe = DummyClassifier(strategy="uniform")
    return TetheredClassifier(safe, HARMFUL, alpha=0.75, random_state=0).fit(X, Y)


def test_probabilities_are_those_of_the_tethered_policy():
    model = held_back()
    assert model.calibration_.exists
    assert 0 < model.calibration_.beta < np.inf
    table = model.predict_proba(X)
    assert table.shape == (1500, 3)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    np.testing.assert_allclose(table, np.exp(model.policy_.log_prob_all(X)))
    assert model.classes_.tolist() == [0, 1, 2]


def test_predictions_have_the_probabilities_that_are_stated():
    """Over many seeds, each class is predicted as often as `predict_proba` says."""
    model = held_back()
    few, repeats = X[:40], scaled(600)
    counts = np.zeros((40, 3))
    for seed in range(repeats):
        model.seed_ = seed
        counts[np.arange(40), model.predict(few)] += 1
    stated = model.predict_proba(few)
    error = np.sqrt(stated * (1 - stated) / repeats)
    assert (np.abs(counts / repeats - stated) <= 4.5 * error + 1e-9).all()


def test_a_row_has_one_prediction_alone_and_among_others_and_in_a_frame():
    model = held_back()
    together = model.predict(X[:50])
    assert [model.predict(X[k : k + 1])[0] for k in range(50)] == together.tolist()
    array, frame = make().fit(X, Y), make().fit(pd.DataFrame(X, columns=list("abcdef")), Y)
    rows = pd.DataFrame(X[:50], columns=list("abcdef"))
    assert (frame.predict(rows) == array.predict(X[:50])).all()


@pytest.mark.slow
def test_the_expected_loss_is_at_most_the_promise_and_a_wrong_beta_breaks_it():
    """Worlds with 300 rows: the mean loss of drawn predictions on fresh rows, over many fits."""
    losses, wrong, promises = [], [], []
    safe = DummyClassifier(strategy="uniform").fit(X, Y)
    for seed in range(scaled(50)):
        rng = np.random.default_rng(seed)
        rows = rng.choice(1500, 600, replace=False)
        model = TetheredClassifier(safe, HARMFUL, alpha=0.75, random_state=seed)
        model.calibrate(X[rows[:300]], Y[rows[:300]])
        test = rows[300:]
        table = model.predict_proba(X[test])
        losses.append(1 - table[np.arange(300), Y[test]].mean())
        promises.append(model.calibration_.promise)
        unbounded = HARMFUL.predict_proba(X[test])
        wrong.append(1 - unbounded[np.arange(300), Y[test]].mean())
    error = np.std(losses) / np.sqrt(len(losses))
    assert np.mean(losses) <= np.mean(promises) + 3 * error
    assert np.mean(wrong) > np.mean(promises) + 0.05


@pytest.mark.parametrize("form", [np.array, pd.Series, lambda y: pd.Series(y, dtype="category")])
def test_classes_may_be_strings_of_every_form(form):
    names = np.array(["low", "mid", "top"])[Y]
    model = make().fit(X, form(names))
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert set(model.predict(X[:20])) <= {"low", "mid", "top"}


def test_features_may_be_frames_with_columns_chosen_by_name():
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    ward = np.array(["a", "b", "c"])[Y]
    for frame in (
        pd.DataFrame({"ward": ward, "x": X[:, 0]}),
        pl.DataFrame({"ward": ward, "x": X[:, 0]}),
    ):
        new = make_pipeline(encode, LogisticRegression())
        safe = DummyClassifier(strategy="uniform")
        model = TetheredClassifier(safe, new, alpha=0.72, random_state=0).fit(frame, Y)
        assert model.score(frame, Y) > 0.4


def test_a_log_of_what_the_safe_classifier_did_calibrates_it():
    rng = np.random.default_rng(0)
    safe = DummyClassifier(strategy="uniform").fit(X[:500], Y[:500])
    new = LogisticRegression().fit(X[:500], Y[:500])
    rows, actions = X[500:], rng.integers(3, size=1000)
    losses = (actions != Y[500:]).astype(float)
    model = TetheredClassifier(safe, new, alpha=0.72, random_state=0)
    model.calibrate(rows, actions=actions, losses=losses)
    log = tether.make_log(safe, new, rows, actions, losses)
    assert model.calibration_.beta == tether.calibrate(log, alpha=0.72).beta
    assert model.safe_ is safe


def test_costs_may_be_a_table_or_a_function():
    costs = np.array([[0, 0.5, 1], [1, 0, 0.5], [1, 1, 0]])
    by_table = make(loss=costs).fit(X, Y)
    by_function = make(loss=lambda labels, actions: costs[labels, actions]).fit(X, Y)
    assert by_table.calibration_.beta == by_function.calibration_.beta
    for loss, message in [
        (np.zeros((2, 2)), r"costs of shape \(3, 3\)"),
        (3 * costs, "a loss from 0 to bound = 1"),
        (lambda labels, actions: [1.0], "has 1 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(loss=loss).fit(X, Y)


def test_where_nothing_passes_the_safe_classifier_serves_and_a_warning_says_so():
    with pytest.warns(tether.PromiseWarning, match="no useful promise"):
        model = make(alpha=0.01).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X[:5]), 1 / 3)


def refuted(**options):
    """A log of another policy than the one that is passed as the safe classifier."""
    rng = np.random.default_rng(0)
    safe = DummyClassifier(strategy="uniform").fit(X, Y)
    new = LogisticRegression().fit(X, Y)
    actions = rng.choice(3, p=[0.8, 0.1, 0.1], size=1500)
    model = TetheredClassifier(safe, new, alpha=0.72, random_state=0, **options)
    return model.calibrate(X, actions=actions, losses=(actions != Y).astype(float))


@pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")
@pytest.mark.parametrize("family", ["mix", "clip"])
def test_where_the_log_contradicts_itself_the_safe_classifier_serves(family):
    with pytest.warns(tether.PromiseWarning, match="the safe classifier serves: .*does not hold"):
        model = refuted(family=family)
    found = model.calibration_
    assert found.refuted_by
    assert found.beta > 0
    assert not found.useful
    np.testing.assert_allclose(model.predict_proba(X[:5]), 1 / 3)
    assert model.policy_.beta == 0


def test_where_the_log_lacks_what_the_new_one_does_the_safe_classifier_serves():
    rng = np.random.default_rng(0)
    safe, new = DummyClassifier(strategy="uniform").fit(X, Y), LogisticRegression().fit(X, Y)
    actions = rng.integers(3, size=1500)
    kept = (actions != new.predict(X)) | (rng.random(1500) < 0.3)  # rows are missing
    model = TetheredClassifier(safe, new, alpha=0.9, family="mix", random_state=0)
    rows = {"actions": actions[kept], "losses": (actions != Y)[kept].astype(float)}
    with (
        pytest.warns(tether.AssumptionWarning),
        pytest.warns(tether.PromiseWarning, match="the safe classifier serves"),
    ):
        model.calibrate(X[kept], **rows)
    assert model.calibration_.beta > 0
    assert not model.calibration_.covered
    np.testing.assert_allclose(model.predict_proba(X[:5]), 1 / 3)


def test_where_the_promise_is_of_no_use_the_safe_classifier_serves():
    """A beta passes, but what is promised is more than twice what was asked for."""
    rng = np.random.default_rng(2)
    safe, new = DummyClassifier(strategy="uniform").fit(X, Y), LogisticRegression().fit(X, Y)
    actions = rng.integers(3, size=30)
    model = TetheredClassifier(safe, new, alpha=0.08, random_state=0)
    with pytest.warns(tether.PromiseWarning, match="the safe classifier serves: no useful promise"):
        model.calibrate(X[:30], actions=actions, losses=np.zeros(30))
    assert model.calibration_.beta > 0
    np.testing.assert_allclose(model.predict_proba(X[:5]), 1 / 3)


def test_a_log_may_have_rewards_and_propensities_and_a_confidence():
    rng = np.random.default_rng(0)
    safe, new = DummyClassifier(strategy="uniform").fit(X, Y), LogisticRegression().fit(X, Y)
    actions = rng.integers(3, size=1500)
    losses = (actions != Y).astype(float)
    options = {"alpha": 0.75, "confidence": 0.9}
    model = TetheredClassifier(safe, new, random_state=0, **options)
    beside = {"rewards": 1 - losses, "propensities": np.full(1500, 1 / 3)}
    model.calibrate(X, actions=actions, losses=losses, **beside)
    log = tether.make_log(safe, new, X, actions, losses, **beside)
    assert model.calibration_.confidence == 0.9
    assert model.calibration_.beta == tether.calibrate(log, **options).beta
    assert tether.gain(model.calibration_).reward is not None
    beside["propensities"] = np.full(1500, 0.5)
    with pytest.raises(ValueError, match="propensities disagree with the safe policy"):
        model.calibrate(X, actions=actions, losses=losses, **beside)
    with pytest.raises(ValueError, match=r"actions and losses, beside which.*got y, rewards"):
        model.calibrate(X, Y, rewards=1 - losses)


class Rule(ClassifierMixin, BaseEstimator):
    """A rule of one's own, which knows nothing of features."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


@pytest.mark.parametrize("named", [True, False])
def test_a_rule_without_names_of_features_serves_frames(named):
    """Nobody fitted this estimator, so nobody is told that it was, with other features."""
    frame = pd.DataFrame(X, columns=list("abcdef"))
    new = LogisticRegression().fit(frame, Y) if named else Rule().fit(X, Y)
    model = TetheredClassifier(Rule().fit(X, Y), new, alpha=0.75, random_state=0)
    model.calibrate(frame, Y)
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.predict(frame[:3]).shape == (3,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["a", "b", "c", "d", "e"]])


def test_it_can_be_cloned_pickled_searched_and_cross_validated():
    model = make().fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()
    assert clone(model).get_params()["alpha"] == 0.72
    assert len(cross_val_score(make(), X, Y, cv=2)) == 2
    search = GridSearchCV(make(), {"optimized__C": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert search.best_params_["optimized__C"] in (0.1, 1.0)
    assert "TetheredClassifier(" in repr(model)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make(alpha=60).fit(X, Y), "alpha must be above 0 and below 1, got 60"),
        (lambda: make(calibration_share=1.0).fit(X, Y), "calibration_share must be above 0"),
        (lambda: make().fit(X, Y).calibrate(X), "calibrate needs the right classes y.*neither"),
        (lambda: make().fit(X, Y).calibrate(X, losses=Y), "got losses"),
        (lambda: make().fit(X, Y).predict(X[:, :2]), "2 features"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_target_is_required():
    with pytest.raises(TypeError, match="give exactly one of alpha"):
        make(alpha=None).fit(X, Y)


def test_classifiers_without_probabilities_and_new_classes_are_refused():
    from sklearn.svm import LinearSVC

    safe = DummyClassifier(strategy="uniform")
    with pytest.raises(TypeError, match="optimized must be a classifier with predict_proba"):
        TetheredClassifier(safe, LinearSVC(), alpha=0.6).fit(X, Y)
    two = LogisticRegression().fit(X[Y < 2], Y[Y < 2])
    three = DecisionTreeClassifier(max_depth=2).fit(X, Y)
    with pytest.raises(ValueError, match="optimized has the class 2, which is not among"):
        TetheredClassifier(two, three, alpha=0.6).calibrate(X[Y < 2], Y[Y < 2])


def test_a_class_without_training_rows_has_probability_zero():
    labels = Y.copy()
    labels[0] = 3
    model = make().fit(X, labels)
    assert model.predict_proba(X).shape == (1500, 4)
    assert make_pipeline(StandardScaler(), make()).fit(X, Y).predict(X[:3]).shape == (3,)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (Y[:1], "y has 1 rows but X has 1500"),
        (Y + 1, r"is 3 .*expected one of the classes 0, 1, 2"),
        (Y.astype(str), r"y\[0\] is '\d' \(1,500 such"),
        (np.where(np.arange(1500) < 7, np.nan, Y), r"y\[0\] is nan \(7 such"),
        (Y[:, None], r"1 dimension, got shape \(1500, 1\)"),
    ],
)
def test_labels_that_are_no_known_class_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        make().fit(X, Y).calibrate(X, labels)


def test_a_function_of_the_labels_may_know_more_classes():
    model = make(loss=lambda labels, actions: labels != actions).fit(X, Y)
    assert model.calibrate(X, np.where(np.arange(1500) < 7, 9, Y)).calibration_.exists


class Reversed(LogisticRegression):
    """A classifier whose classes are not sorted."""

    def fit(self, X, y):
        super().fit(X, y)
        self.inner = LogisticRegression().fit(X, y)
        self.classes_ = self.inner.classes_[::-1]
        return self

    def predict_proba(self, X):
        return self.inner.predict_proba(X)[:, ::-1]


def test_a_classifier_may_have_its_classes_in_any_order():
    reverse, plain = (each.fit(X[:500], Y[:500]) for each in (Reversed(), LogisticRegression()))
    model = TetheredClassifier(reverse, plain, alpha=0.72, random_state=0)
    found = model.calibrate(X[500:], Y[500:])
    assert found.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.predict_proba(X), plain.predict_proba(X))


def test_other_classifiers_that_are_set_are_those_that_are_calibrated():
    safe = DummyClassifier(strategy="uniform").fit(X[:500], Y[:500])
    news = [LogisticRegression(C=c).fit(X[:500], Y[:500]) for c in (1e-4, 1.0)]
    model = TetheredClassifier(safe, news[0], alpha=0.72, random_state=0).calibrate(X, Y)
    model.set_params(optimized=news[1]).calibrate(X, Y)
    assert model.optimized_ is news[1]


def test_a_fit_or_calibration_that_fails_changes_nothing():
    model = make().fit(X, Y)
    before, kept = model.predict_proba(X), model.optimized_
    with pytest.raises(ValueError, match="costs of shape"):
        model.set_params(loss=np.zeros((2, 2))).fit(-X, Y)
    with pytest.raises(ValueError, match="y has 1 rows"):
        model.calibrate(X, Y[:1])
    assert model.optimized_ is kept
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.filterwarnings("ignore:a calibration on this log does not hold")
def test_the_most_likely_classes_are_no_log_of_draws():
    safe = LogisticRegression(C=1e-3).fit(X[:500], Y[:500])
    new = LogisticRegression().fit(X[:500], Y[:500])
    model = TetheredClassifier(safe, new, alpha=0.6, random_state=0)
    actions = safe.predict(X[500:])
    losses = (actions != Y[500:]).astype(float)
    with pytest.raises(ValueError, match=r"most likely class in each of 1,000 rows.*drawn"):
        model.calibrate(X[500:], actions=actions, losses=losses)
    model.calibrate(X[500:508], actions=actions[:8], losses=losses[:8])  # so few may be drawn
