"""A calibrated threshold: scikit-learn's checks, exactness beside tether.gcrc, and validity."""

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
    by_method = getattr(tether, method)(scored, alpha=0.15, loss=loss).threshold
    assert by_method * (1 - 1e-10) <= model.threshold_ <= by_method
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
    as_bytes = model.predict(X[TEST], groups=groups[3000:].astype("S"))
    assert as_bytes.tolist() == predicted.tolist()
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


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (Y + 1, r"y\[\d+\] is 2 .*expected one of the classes 0, 1"),
        (2 * Y - 1, r"is -1 .*expected one of the classes 0, 1"),
        (Y.astype(str), r"y\[0\] is '[01]' \(2,000 such"),
        (np.where(np.arange(6000) < 1500, np.nan, Y), r"is nan \(500 such"),
        (Y[:, None], r"1 dimension, got shape \(2000, 1\)"),
        (Y[:1001], "y has 1 rows but X has 2000"),
    ],
)
@pytest.mark.parametrize("loss", ["false_positive", "false_negative"])
def test_labels_that_are_no_class_of_the_model_are_refused(labels, message, loss):
    with pytest.raises(ValueError, match=message):
        make(loss=loss).calibrate(X[CALIBRATION], labels[CALIBRATION])


def test_another_estimator_that_is_set_is_the_one_that_is_calibrated():
    other = LogisticRegression(C=1e-5).fit(X[:1000], Y[:1000])
    model = make().calibrate(X[CALIBRATION], Y[CALIBRATION])
    model.set_params(estimator=other).calibrate(X[CALIBRATION], Y[CALIBRATION])
    fresh = ThresholdClassifier(other, alpha=0.15).calibrate(X[CALIBRATION], Y[CALIBRATION])
    assert model.threshold_ == fresh.threshold_
    assert model.estimator_ is other


def test_a_fit_or_calibration_that_fails_changes_nothing():
    model = ThresholdClassifier(LogisticRegression(), alpha=0.15, random_state=0)
    with pytest.raises(ValueError, match="must be above 0"):
        model.set_params(alpha=15).fit(X, Y)
    assert not hasattr(model, "estimator_")
    model.set_params(alpha=0.15).fit(X, Y)
    before, kept = model.predict(X[TEST]), model.estimator_
    with pytest.raises(ValueError, match="must be above 0"):
        model.set_params(alpha=15).fit(-X, Y)
    assert model.estimator_ is kept
    with pytest.raises(ValueError, match="expected one of the classes"):
        model.set_params(alpha=0.15, pos_label=0).calibrate(X, Y + 1)
    with pytest.raises(ValueError, match="must be above 0"):
        model.set_params(alpha=15).calibrate(X, Y)
    assert (model.predict(X[TEST]) == before).all()


class LastBits(LogisticRegression):
    """Scores that differ in the last bit for a row alone, as sums in another order do."""

    def predict_proba(self, X):
        found = super().predict_proba(np.round(X))
        return np.nextafter(found, 0) if len(found) == 1 else found


@pytest.mark.parametrize("loss", ["false_positive", "false_negative"])
def test_a_shared_score_decides_the_same_alone_and_among_others(loss):
    model = LastBits().fit(X[:1000, :1], Y[:1000])
    found = ThresholdClassifier(model, alpha=0.3, loss=loss)
    found.calibrate(X[CALIBRATION, :1], Y[CALIBRATION])
    cells = np.arange(-3.0, 4.0)[:, None]
    assert 0 < found.predict(cells).mean() < 1
    assert [found.predict(cell[None])[0] for cell in cells] == list(found.predict(cells))


def test_a_score_that_is_no_number_and_a_model_of_other_classes_are_refused():
    class Failing(LogisticRegression):
        def predict_proba(self, X):
            return np.where(X[:, :1] > 2, np.nan, super().predict_proba(X))

    model = Failing().fit(X[:1000], Y[:1000])
    rows = X[:, 0] < 1
    found = ThresholdClassifier(model, alpha=0.15, loss="false_negative").calibrate(
        X[rows], Y[rows]
    )
    with pytest.raises(
        ValueError, match=r"predict_proba\(X\)\[.*\] is nan: expected a probability"
    ):
        found.predict(X)
    with pytest.raises(ValueError, match=r"estimator has the class 0, which is not in y: \[5, 6\]"):
        ThresholdClassifier(FrozenEstimator(MODEL), alpha=0.15).fit(X, Y + 5)
