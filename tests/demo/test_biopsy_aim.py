import numpy as np
import pytest

from tether.demo.biopsy_aim import AIMS, PLAIN_CANDIDATE, BiopsyAim
from tether.demo.biopsy_clinic import REFER, WATCH, Clinic, load_patients


@pytest.fixture(scope="module")
def aim():
    return BiopsyAim(Clinic(*load_patients(), np.random.default_rng(0)))


def test_only_watching_is_predicted_to_cost_and_more_so_where_cancer_is_likely(aim):
    log_odds = np.array([-4.0, 0.0, 4.0])
    watched = aim.loss_model(log_odds, np.full(3, WATCH))
    referred = aim.loss_model(log_odds, np.full(3, REFER))
    assert np.all(np.diff(watched) > 0.1)
    assert np.all(referred < 0.05)


def test_candidates_are_aimed_at_their_share_of_alpha(aim):
    candidates = aim.candidates(0.06)
    assert list(candidates) == [PLAIN_CANDIDATE, *AIMS]
    for name, (share, _) in AIMS.items():
        chances = np.exp(candidates[name].log_prob_all(aim.log_odds))
        predicted = [aim.loss_model(aim.log_odds, np.full(100, a)) for a in (WATCH, REFER)]
        loss = (chances * np.array(predicted).T).sum(axis=1).mean()
        assert loss == pytest.approx(share * 0.06, rel=1e-3)


def test_the_choice_is_a_candidate(aim):
    assert aim.choose() in (PLAIN_CANDIDATE, *AIMS)
