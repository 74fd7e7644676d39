"""A calibrated threshold: scikit-learn's checks, equality with tether.gcrc, and validity."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import tether
from tether.learn import ThresholdClassifier
from tether.learn.classifiers import _lowered

X, Y = make_classification(6000, n_features=5, flip_y=0.2, class_sep=0.7, random_state=1)
MODEL = LogisticRegression().fit(X[:1000], Y[:1000])
CALIBRATION, TEST = slice(1000, 3000), slice(3000, 6000)
ROWS = X[CALIBRATION], Y[CALIBRATION]


def make(alpha=0.15, **options):
    return ThresholdClassifier(MODEL, alpha=alpha, **options)


@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn():
    failing = {"check_classifiers_train": "the threshold is calibrated, and is not 1/2"}
    model = ThresholdClassifier(LogisticRegression(), alpha=0.3, random_state=0)
    found = check_estimator(model, expected_failed_checks=failing, on_fail=None, on_skip=None)
    assert [each["check_name"] for each in found if each["status"] == "failed"] == []
    assert sum(each["status"] == "passed" for each in found) > 45


@pytest.mark.parametrize("method", ["gcrc", "crc", "monotonized_crc", "ltt"])
@pytest.mark.parametrize("loss", ["false_positive", "false_negative"])
def test_the_threshold_is_that_of_the_method(method, loss):
    model = make(method=method, loss=loss).calibrate(*ROWS)
    scored = tether.ScoredLabels(MODEL.predict_proba(ROWS[0])[:, 1], ROWS[1])
    by_method = getattr(tether.thresholds, method)(scored, alpha=0.15, loss=loss).threshold
    assert by_method - 1e-11 <= model.threshold_ <= by_method
    predicted = model.predict(X[TEST])
    assert (predicted == (MODEL.predict_proba(X[TEST])[:, 1] >= model.threshold_)).all()
    wrong = predicted != Y[TEST]
    assert wrong[Y[TEST] == (loss == "false_negative")].mean() < 0.15 + 0.03
    assert (predicted == 1).mean() > 0.05  # it does something


def test_precision_needs_thresholds_that_were_chosen_beforehand():
    with pytest.raises(ValueError, match="thresholds"):
        make(loss="false_discovery").calibrate(*ROWS)
    grid = np.linspace(0.3, 0.8, 51)
    model = make(loss="false_discovery", thresholds=grid, method="ltt", confidence=0.8)
    predicted = model.calibrate(*ROWS).predict(X[TEST])
    assert 1 - Y[TEST][predicted == 1].mean() < 0.15 + 0.03


def test_groups_have_their_own_thresholds():
    groups = pd.Series(np.where(X[:, 0] > 0, "new", "old"), dtype="category")
    model = make().calibrate(*ROWS, groups=groups[CALIBRATION])
    predicted, scores = model.predict(X[TEST], groups=groups[TEST]), MODEL.predict_proba(X[TEST])
    for name in ("new", "old"):
        rows = (groups[TEST] == name).to_numpy()
        limit = model.selection_.for_group(name).threshold
        assert (predicted[rows] == (scores[rows, 1] >= limit)).all()
    with pytest.raises(ValueError, match="groups"):
        model.predict(X[TEST])


def test_the_positive_class_can_be_named_and_the_model_is_kept():
    words = np.array(["bad", "good"])[Y]
    frame = pd.DataFrame(X, columns=list("abcde"))
    inner = LogisticRegression().fit(frame[:1000], words[:1000])
    model = ThresholdClassifier(inner, alpha=0.15, pos_label="bad")
    model.calibrate(frame[CALIBRATION], pd.Series(words[CALIBRATION], dtype="category"))
    predicted = pickle.loads(pickle.dumps(model)).predict(frame[TEST])
    assert (predicted[words[TEST] == "good"] == "bad").mean() < 0.18
    assert model.estimator_ is inner
    with pytest.raises(ValueError, match="pos_label"):
        ThresholdClassifier(inner, alpha=0.1, pos_label="ugly").calibrate(frame[:9], words[:9])


def test_wrong_arguments_are_refused_and_change_nothing():
    for name, value in (("alpha", 15), ("method", "ltr"), ("loss", "fpr"), ("confidence", 0.9)):
        with pytest.raises((ValueError, TypeError), match=name):
            make(**{name: value}).calibrate(*ROWS)
    model = make().calibrate(*ROWS)
    before = model.predict(X[TEST])
    for wrong in (Y + 1, 2 * Y - 1, Y.astype(str), Y[:, None], Y[:1001]):
        with pytest.raises(ValueError, match="y"):
            model.calibrate(ROWS[0], wrong[CALIBRATION])
    with pytest.raises(ValueError, match="estimator"):
        ThresholdClassifier(FrozenEstimator(MODEL), alpha=0.15).fit(X, Y + 5)
    assert (model.predict(X[TEST]) == before).all()
    with pytest.warns(tether.PromiseWarning, match="no useful promise"):
        assert not make(alpha=0.001).calibrate(X[1000:1100], Y[1000:1100]).predict(X).any()


def test_the_last_bits_of_a_score_do_not_matter():
    for dtype in (np.float64, np.float32):
        for score in (0.5, 0.75, 0.125, 1.0, 1 / 3, 0.1, 0.7282480020843659):
            near = np.array([score], dtype=dtype)
            for _ in range(8):
                near = np.concatenate([np.nextafter(near[:1], dtype(0)), near])
            assert len(np.unique(_lowered(near))) == 1
    assert len(np.unique(_lowered(np.linspace(0, 1, 10_001)))) == 10_001
