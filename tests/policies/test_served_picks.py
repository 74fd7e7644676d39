"""A shortlist that picks otherwise than the one that was calibrated is not served."""

import numpy as np
import pytest

import tether


def score(contexts, candidates):
    return candidates


def louder(contexts, candidates):
    return 20.0 * candidates


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
    def silent(contexts, candidates):
        raise RuntimeError("the judge is away")

    assert shortlist(silent).tethered(found).beta == found.beta
