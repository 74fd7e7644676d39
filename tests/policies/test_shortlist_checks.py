"""What contradicts the assumptions of a shortlist is refused or reported."""

import numpy as np
import pytest

import tether
from tether import Shortlist
from tether.policies import shortlist_checks


def near(contexts, rng):
    return rng.normal(contexts)


def above(contexts, candidates):
    return candidates - contexts[:, None]


def test_a_score_that_depends_on_other_rows_is_refused():
    """As many rows as candidates: a context broadcasts along the wrong axis without an error."""
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=4)
    for wrong in (lambda x, c: c - x, lambda x, c: (c - c.mean()) / c.std(),
                  lambda x, c: c + rng.normal(size=c.shape)):  # fmt: skip
        shortlist = Shortlist(near, wrong, size=4)
        with pytest.raises(ValueError, match="when the row is scored alone"):
            shortlist.make_log(contexts, near(contexts, rng), np.zeros(4), rng)


def test_logged_actions_that_another_sampler_took_are_noticed():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=2_000)
    shortlist = Shortlist(near, above, size=4)
    with pytest.warns(UserWarning, match="does not hold: the logged actions score higher"):
        shortlist.make_log(contexts, near(contexts, rng) + 0.3, np.zeros(2_000), rng)
    with pytest.warns(UserWarning, match="score lower than fresh candidates"):
        shortlist.make_log(contexts, near(contexts, rng) - 0.3, np.zeros(2_000), rng)


def test_ties_and_single_rows_raise_no_false_warning():
    rng = np.random.default_rng(0)
    for _ in range(200):
        scores = rng.integers(2, size=(30, 3)).astype(float)
        assert shortlist_checks.exchangeable_warning(scores, rng.integers(3, size=30)) is None
    alone = np.full((1, 2), -np.inf)
    assert shortlist_checks.exchangeable_warning(alone, np.array([0])) is None


@pytest.mark.parametrize(
    ("scale", "message"),
    [(0.01, "almost a uniform pick: the best of 8 .* of a possible 8"), (1000.0, "an argmax")],
)
def test_a_score_of_another_scale_is_told(scale, message):
    rng = np.random.default_rng(0)
    safe = tether.Gaussian(0.0)
    actions = safe.sample(300, rng)
    losses = np.zeros(300)

    def scored(factor, **more):
        return tether.Shortlist(safe, lambda _, drawn: factor * drawn, size=8, **more)

    with pytest.warns(tether.AssumptionWarning, match=message):
        scored(scale).make_log(None, actions, losses, rng)
    scored(1.0).make_log(None, actions, losses, rng)
    scored(scale, temperature=scale).make_log(None, actions, losses, rng)
    scored(scale, temperature=0).make_log(None, actions, losses, rng)


def test_the_scale_of_policies_of_ties_and_of_few_rows_is_not_judged():
    rng = np.random.default_rng(1)
    safe, near = tether.Gaussian(0.0), tether.Gaussian(0.01)
    actions = safe.sample(300, rng)
    tether.Shortlist(safe, near, size=8).make_log(None, actions, np.zeros(300), rng)
    same = tether.Shortlist(safe, lambda _, drawn: np.zeros_like(drawn), size=8)
    same.make_log(None, actions, np.zeros(300), rng)
    flat = tether.Shortlist(safe, lambda _, drawn: 0.01 * drawn, size=8)
    flat.make_log(None, actions[:10], np.zeros(10), rng)


def test_a_score_that_fails_says_how_it_is_called():
    rng = np.random.default_rng(0)
    safe = tether.Gaussian(0.0)
    actions = safe.sample(20, rng)
    for score in (lambda answer: answer, lambda contexts, candidates: candidates[500]):
        shortlist = tether.Shortlist(safe, score, size=4)
        with pytest.raises(ValueError, match=r"optimized failed .* called with \(contexts, cand"):
            shortlist.make_log(20, actions, np.zeros(20), rng)


def test_a_log_that_is_refuted_has_no_useful_promise_saved_or_not(tmp_path):
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=2_000)
    shortlist = Shortlist(near, above, size=4)
    right = near(contexts, rng)
    log = shortlist.make_log(contexts, right, 1.0 * (right > contexts + 2), rng)
    assert tether.calibrate(log, promise=0.1).useful
    wrong = right + 0.3  # of a bolder sampler
    with pytest.warns(tether.AssumptionWarning, match="score higher than fresh candidates"):
        log = shortlist.make_log(contexts, wrong, 1.0 * (wrong > contexts + 2.3), rng)
    found = tether.calibrate(log, promise=0.1)
    found.save(tmp_path / "found.json")
    for each in (found, tether.Calibration.load(tmp_path / "found.json")):
        assert each.exists
        assert each.promise <= 0.1
        assert not each.useful
        assert "a calibration on this log does not hold" in str(each).splitlines()[0]
        assert each.statement == "none: a calibration on this log does not hold"
        with pytest.warns(tether.PromiseWarning, match="safe policy instead. a calibration"):
            shortlist.tethered(each)
    shortlist.tethered(0.5)  # a number of one's own has no promise to warn of


def test_a_constant_score_is_called_by_its_name():
    rng = np.random.default_rng(2)
    contexts = rng.normal(size=50)
    shortlist = Shortlist(near, lambda x, c: np.zeros(c.shape), size=4)
    log = shortlist.make_log(contexts, near(contexts, rng), np.zeros(50), rng)
    texts = tether.calibrate(log, promise=0.2).warnings
    assert any("all candidates of the shortlist have the same score" in each for each in texts)
    assert not any("log_safe" in each for each in texts)
