"""A shortlist that picks otherwise than the one that was calibrated is not served."""

import numpy as np
import pytest

import tether
from tether.policies.fingerprint import fingerprint


def score(contexts, candidates):
    return candidates


def louder(contexts, candidates):
    return 20.0 * candidates


def serve_one_by_one(policy, rows, rng):
    for _ in range(rows):
        policy.sample(1, rng)


def loaded(found, tmp_path):
    found.save(tmp_path / "found.json", overwrite=True)
    return tether.Calibration.load(tmp_path / "found.json")


def shortlist(optimized=score, **options):
    return tether.Shortlist(tether.Gaussian(0.0), optimized, size=4, **options)


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    actions = rng.normal(size=400)
    log = shortlist().make_log(400, actions, (actions > 1.5).astype(float), rng)
    return tether.calibrate(log, alpha=0.15)


def test_the_same_shortlist_is_served(found, tmp_path):
    found.save(tmp_path / "found.json")
    for calibration in (found, tether.Calibration.load(tmp_path / "found.json")):
        assert shortlist().tethered(calibration).beta == found.beta


def test_another_temperature_is_refused_also_with_a_saved_calibration(found, tmp_path):
    found.save(tmp_path / "found.json")
    for calibration in (found, tether.Calibration.load(tmp_path / "found.json")):
        with pytest.raises(ValueError, match=r"with temperature 1, .* temperature 0\.1: that"):
            shortlist(temperature=0.1).tethered(calibration)


def test_a_score_on_another_scale_is_refused(found):
    with pytest.raises(ValueError, match="candidates are scored otherwise than in the log"):
        shortlist(louder).tethered(found)


def test_a_scorer_of_another_name_is_refused(found):
    def named(contexts, candidates):
        return candidates

    named.name = "judge 2"
    with pytest.raises(ValueError, match="temperature 1, scored by judge 2: that is another"):
        shortlist(named).tethered(found)


def test_a_score_that_is_unavailable_is_not_compared(found):
    def away(contexts, candidates):
        raise RuntimeError("the judge is away")

    away.__name__ = "score"
    assert shortlist(away).tethered(found).beta == found.beta


def test_after_loading_a_function_of_another_name_is_told(found, tmp_path):
    with pytest.warns(tether.AssumptionWarning, match="by the function score, .* function louder"):
        shortlist(louder).tethered(loaded(found, tmp_path))
    shortlist(lambda contexts, candidates: candidates).tethered(loaded(found, tmp_path))


def test_after_loading_a_score_on_another_scale_is_refused_when_it_serves(found, tmp_path):
    policy = shortlist(lambda *given: louder(*given)).tethered(loaded(found, tmp_path))
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match=r"picked otherwise than in the log .* likeliest of 4"):
        policy.sample(20_000, rng)
    with pytest.raises(ValueError, match="picked otherwise"):  # and it stays refused
        policy.sample(1, rng)


def test_after_loading_a_few_single_rows_are_enough(found, tmp_path):
    policy = shortlist(lambda *given: louder(*given)).tethered(loaded(found, tmp_path))
    rng = np.random.default_rng(2)
    with pytest.raises(ValueError, match="picked otherwise"):
        serve_one_by_one(policy, 40, rng)


def test_the_same_shortlist_serves_row_by_row_and_scores_each_once(found, tmp_path):
    calls = []

    def counted(contexts, candidates):
        calls.append(len(candidates))
        return candidates

    counted.__name__ = "score"
    policy = shortlist(counted).tethered(loaded(found, tmp_path))
    serve_one_by_one(policy, 600, np.random.default_rng(3))
    assert calls == [1] * 600


def test_the_safe_policy_serves_whatever_the_score_does(tmp_path):
    rng = np.random.default_rng(0)
    actions = rng.normal(size=400)
    log = shortlist().make_log(400, actions, (actions > 0).astype(float), rng)
    none = loaded(tether.calibrate(log, alpha=0.1), tmp_path)
    assert not none.exists
    assert len(shortlist(lambda *given: louder(*given)).tethered(none).sample(600, rng)) == 600


def test_candidates_of_another_safe_policy_are_told(found, tmp_path):
    other = tether.Shortlist(tether.Gaussian(0.5), score, size=4)
    with pytest.warns(tether.AssumptionWarning, match="drew the candidates of the log"):
        other.tethered(loaded(found, tmp_path))


def test_another_model_by_its_own_fingerprint_is_refused(tmp_path):
    class Model:
        def __init__(self, fingerprint):
            self.fingerprint = fingerprint

        def sample(self, contexts, rng):
            return rng.normal(size=contexts)

    rng = np.random.default_rng(0)
    actions = rng.normal(size=400)
    small = tether.Shortlist(Model("chat small"), score, size=4)
    log = small.make_log(400, actions, (actions > 1.5).astype(float), rng)
    found = loaded(tether.calibrate(log, alpha=0.15), tmp_path)
    assert small.tethered(found).beta == found.beta
    with pytest.raises(ValueError, match=r"drawn by chat small, .* with chat large: that"):
        tether.Shortlist(Model("chat large"), score, size=4).tethered(found)


def test_what_is_noted_is_in_the_saved_calibration(found, tmp_path):
    again = loaded(found, tmp_path)
    assert again.policies == found.policies
    assert set(again.policies) == {"picker", "candidates", "scorer"}
    assert again.pick_quantiles == found.pick_quantiles
    assert len(found.pick_quantiles) == 101
    assert 0.25 <= found.pick_quantiles[0] < found.pick_quantiles[-1] <= 1


def test_a_used_policy_has_the_fingerprint_of_a_new_one(found):
    policy = shortlist(tether.Gaussian(1.0)).tethered(2.0)
    before = fingerprint(policy)
    policy.sample(20, np.random.default_rng(0))
    assert before is not None
    assert fingerprint(policy) == before
    used = shortlist().tethered(found)
    used.sample(20, np.random.default_rng(0))
    assert "_watch" not in vars(used)
