import numpy as np
import pytest

from tether.demo.biopsy_clinic import (
    REFER,
    WATCH,
    Clinic,
    load_patients,
    predict_unseen,
    train_score,
)


@pytest.fixture(scope="module")
def clinic():
    return Clinic(*load_patients(), np.random.default_rng(0))


def test_training_and_held_out_patients_are_disjoint(clinic):
    assert len(clinic.training) == 100
    assert len(clinic.actions) == len(clinic.missed) == 330
    assert len(clinic.held_out) == 139
    assert not set(clinic.training) & set(clinic.held_out)


def test_the_naive_threshold_meets_alpha_on_the_training_patients(clinic):
    watched = clinic.apply_naive_threshold(0.05) == WATCH
    threshold = clinic.log_odds[clinic.held_out][watched].max()
    training = clinic.log_odds[clinic.training] <= threshold
    assert (training & clinic.malignant[clinic.training]).mean() <= 0.05


def test_unseen_log_odds_do_not_know_a_diagnosis_that_features_do_not_tell():
    rng = np.random.default_rng(0)
    features, tossed = rng.normal(size=(100, 20)), rng.random(100) < 0.5
    seen, unseen = train_score(features, tossed)(features), predict_unseen(features, tossed)
    assert np.corrcoef(seen, tossed)[0, 1] > 0.4
    assert np.corrcoef(unseen, tossed)[0, 1] < 0.2


def test_outcomes_are_counted_per_hundred_patients(clinic):
    patients, malignant = len(clinic.held_out), clinic.malignant[clinic.held_out]
    missed, avoided = clinic.count_outcomes(np.full(patients, WATCH))
    assert missed == pytest.approx(100 * malignant.mean())
    assert missed + avoided == pytest.approx(100)
    assert clinic.count_outcomes(np.full(patients, REFER)) == (0, 0)
