"""A calibrated threshold: scikit-learn's checks, exactness beside tether.gcrc, and validity."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import tether
from tether.learn import ThresholdClassifier

NOT_APPLICABLE = {"check_classifiers_train": "the threshold is calibrated, and is not 1/2"}
X, Y = make_classification(6000, n_features=5, flip_y=0.2, class_sep=0.7, random_state=1)
MODEL = LogisticRegression().fit(X[:1000], Y[:1000])
CALIBRATION, TEST = slice(1000, 3000), slice(3000, 6000)


def make(alpha=0.15, **options):
    return ThresholdClassifier(MODEL, alpha=alpha, **options)


@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn():
    found = check_estimator(
        ThresholdClassifier(LogisticRegression(), alpha=0.3, random_state=0),
        expected_failed_checks=NOT_APPLICABLE,
        on_fail=None,
        on_skip=None,
    )
    assert {each["check_name"] for each in found if each["status"] == "failed"} == set()
    assert sum(each["status"] == "passed" for each in found) > 45


@pytest.mark.parametrize("method", ["gcrc", "crc", "monotonized_crc", "ltt"])
@pytest.mark.parametrize("loss", ["false_positive", "false_negative"])
def test_the_threshold_is_that_of_the_method(method, loss):
    model = make(method=method, loss=loss).calibrate(X[CALIBRATION], Y[CALIBRATION])
    scores = MODEL.predict_proba(X[CALIBRATION])[:, 1]
    scored = tether.ScoredLabels(scores, Y[CALIBRATION])
    assert model.threshold_ == getattr(tether, method)(scored, alpha=0.15, loss=loss).threshold
    predicted = model.predict(X[TEST])
    assert (predicted == (MODEL.predict_proba(X[TEST])[:, 1] >= model.threshold_)).all()
    wrong = predicted[Y[TEST] == 0].mean() if loss == "false_positive" else None
    if wrong is None:
        wrong = 1 - predicted[Y[TEST] == 1].mean()
    assert wrong < 0.15 + 0.03
    assert (predicted == 1).mean() > 0.05  # it does something


def test_precision_needs_thresholds_that_were_chosen_beforehand():
    with pytest.raises(ValueError, match=r"needs thresholds, the largest .* thresholds = None"):
        make(loss="false_discovery").calibrate(X[CALIBRATION], Y[CALIBRATION])
    grid = np.linspace(0.3, 0.8, 51)
    model = make(loss="false_discovery", thresholds=grid, method="ltt", confidence=0.8)
    predicted = model.calibrate(X[CALIBRATION], Y[CALIBRATION]).predict(X[TEST])
    assert 1 - Y[TEST][predicted == 1].mean() < 0.15 + 0.03


def test_it_holds_beside_mapie_which_searches_a_grid():
    """Same promise, same confidence, same rows: the exact threshold is at most the grid's."""
    control = pytest.importorskip("mapie.risk_control")
    other = control.BinaryClassificationController(
        MODEL.predict_proba, "fpr", target_level=0.15, confidence_level=0.9
    ).calibrate(X[CALIBRATION], Y[CALIBRATION])
    model = make(method="ltt", confidence=0.9).calibrate(X[CALIBRATION], Y[CALIBRATION])
    assert model.threshold_ <= other.best_predict_param + 1e-9
    assert (model.predict(X[TEST]) >= other.predict(X[TEST])).all()


def test_the_mean_rate_is_at_most_alpha_and_an_uncalibrated_threshold_breaks_it():
    scores = MODEL.predict_proba(X[1000:])[:, 1]
    labels, rates, naive = Y[1000:], [], []
    for seed in range(400):
        rows = np.random.default_rng(seed).permutation(5000)
        few, rest = rows[:60], rows[60:]
        with np.errstate(all="ignore"):
            found = tether.gcrc(
                tether.ScoredLabels(scores[few], labels[few]), alpha=0.15, loss="false_positive"
            )
        negatives = rest[labels[rest] == 0]
        rates.append((scores[negatives] >= found.threshold).mean())
        at_limit = np.quantile(scores[few][labels[few] == 0], 0.85 - 0.05)
        naive.append((scores[negatives] >= at_limit).mean())
    assert np.mean(rates) <= 0.15 + 3 * np.std(rates) / np.sqrt(400)
    assert np.mean(naive) > 0.15 + 3 * np.std(naive) / np.sqrt(400)


def test_groups_have_their_own_thresholds():
    groups = pd.Series(np.where(X[:, 0] > 0, "new", "old"), dtype="category")
    model = make().calibrate(X[CALIBRATION], Y[CALIBRATION], groups=groups[1000:3000])
    assert set(model.selection_.groups) == {"new", "old"}
    predicted = model.predict(X[TEST], groups=groups[3000:])
    scores = MODEL.predict_proba(X[TEST])[:, 1]
    for name in ("new", "old"):
        rows = (groups[3000:] == name).to_numpy()
        limit = model.selection_.for_group(name).threshold
        assert (predicted[rows] == (scores[rows] >= limit)).all()
    with pytest.raises(ValueError, match="groups is required: there is one threshold per group"):
        model.predict(X[TEST])


def test_the_positive_class_can_be_named():
    words = np.array(["bad", "good"])[Y]
    model = LogisticRegression().fit(X[:1000], words[:1000])
    found = ThresholdClassifier(model, alpha=0.15, pos_label="bad")
    found.calibrate(X[CALIBRATION], pd.Series(words[CALIBRATION], dtype="category"))
    predicted = found.predict(X[TEST])
    assert (predicted[words[TEST] == "good"] == "bad").mean() < 0.18
    with pytest.raises(ValueError, match=r"pos_label must be one of \['bad', 'good'\], got 'ugly'"):
        ThresholdClassifier(model, alpha=0.1, pos_label="ugly").calibrate(X[:9], words[:9])


def test_a_fitted_model_is_kept_and_pickled():
    model = make().calibrate(X[CALIBRATION], Y[CALIBRATION])
    assert model.estimator_ is MODEL
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X[TEST]) == model.predict(X[TEST])).all()
    np.testing.assert_array_equal(model.predict_proba(X[:3]), MODEL.predict_proba(X[:3]))


def test_a_model_that_was_fitted_on_a_frame_is_calibrated_on_frames_without_a_warning():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = LogisticRegression().fit(frame[:1000], Y[:1000])
    found = ThresholdClassifier(model, alpha=0.15).calibrate(frame[CALIBRATION], Y[CALIBRATION])
    by_array = make().calibrate(X[CALIBRATION], Y[CALIBRATION])
    assert (found.predict(frame[TEST]) == by_array.predict(X[TEST])).all()


def test_mistakes_are_named():
    rows = X[CALIBRATION], Y[CALIBRATION]
    for options, message in [
        ({"alpha": 15}, "alpha must be above 0 and below 1, got 15"),
        ({"method": "ltr"}, "method must be one of 'gcrc'.*, got 'ltr'"),
        ({"loss": "fpr"}, "loss must be one of 'false_discovery'.*, got 'fpr'"),
        ({"confidence": 0.9}, "confidence is for method 'ltt', got confidence = 0.9"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(**options).calibrate(*rows)
    with pytest.raises(ValueError, match="y must have two classes, got one"):
        ThresholdClassifier(LogisticRegression(), alpha=0.1).fit(X, np.zeros(6000, int))
    with pytest.warns(tether.PromiseWarning, match="no useful promise"):
        nothing = make(alpha=0.001).calibrate(X[1000:1100], Y[1000:1100])
    assert not nothing.predict(X[TEST]).any()
