"""More rows are not advised where they do not help."""

import numpy as np
import pytest

import tether

ASKED_TOO_MUCH = [{"alpha": 0.0301}, {"promise": 0.035}, {"promise": 0.035, "confidence": 0.9}]


def log_of(mean, rows=5000, seed=0):
    rng = np.random.default_rng(seed)
    return tether.Log(
        np.arange(rows) < round(mean * rows), np.zeros(rows), 0.1 * rng.normal(size=rows)
    )


@pytest.mark.parametrize("asked", ["alpha", "promise"])
def test_a_safe_policy_above_what_is_asked_is_named(asked):
    found = tether.calibrate(log_of(0.06), **{asked: 0.04})
    assert not found.exists
    assert "the safe policy's own mean loss is 0.06" in found.warnings[0]
    assert "above 0.04: more rows will not help" in found.warnings[0]
    assert not any("collect rows" in each for each in found.warnings)
    assert "Is 1 the harm" not in found.warnings[0]
    assert "Were missing outcomes counted as the worst case?" in found.warnings[0]
    assert "up to alpha" not in str(found)
    assert "from this safe policy 0.04 cannot be promised" in found.warnings[0]
    for text in (found.warnings[0], str(found).partition("\n")[0]):
        assert "serving the safe policy does not keep it either" in text
        assert "erve the safe policy only" not in text, "that is what breaks it"


def test_inverted_harm_is_asked_about():
    found = tether.calibrate(log_of(0.92), promise=0.1)
    assert "Is 1 the harm, and 0 the good outcome?" in found.warnings[0]


def test_near_the_limit_the_advice_is_less_certain():
    found = tether.calibrate(log_of(0.055, rows=400), promise=0.05)
    assert not found.exists
    assert "more rows will help only if this is chance" in found.warnings[0]
    assert "does not keep it" not in str(found)


def test_a_safe_policy_below_what_is_asked_is_advised_to_collect_rows():
    found = tether.calibrate(log_of(0.03, rows=100), promise=0.035)
    assert not found.exists
    assert "collect rows (tether.plan says how many)" in found.warnings[0]


@pytest.mark.parametrize("asked", ASKED_TOO_MUCH)
def test_a_log_that_refutes_itself_is_not_advised_to_collect_rows(asked):
    honest = log_of(0.03, rows=500)
    wrong = tether.Log(honest.loss, honest.log_safe, honest.log_optimized + 1)
    for log, is_refuted in ((honest, False), (wrong, True)):
        found = tether.calibrate(log, **asked)
        assert not found.exists
        assert bool(found.refuted_by) == is_refuted
        assert any("collect rows" in each for each in found.warnings) != is_refuted


def test_the_loss_is_named_where_there_are_several():
    rng = np.random.default_rng(1)
    losses = {"cost": rng.random(3000) < 0.02, "harm": rng.random(3000) < 0.2}
    log = tether.Log(losses, np.zeros(3000), 0.1 * rng.normal(size=3000))
    found = tether.calibrate(log, alpha={"cost": 0.1, "harm": 0.1})
    assert "own mean loss of 'harm' is 0.19" in found.warnings[0]


def test_a_score_that_avoids_harm_does_not_help_a_safe_policy_above_what_is_asked():
    """The condition holds for all smaller betas too, so also for the safe policy."""
    rng = np.random.default_rng(0)
    actions = rng.normal(size=3000)
    shortlist = tether.Shortlist(tether.Gaussian(0.0), lambda _, drawn: -drawn, size=8)
    log = shortlist.make_log(None, actions, (actions > 1.5).astype(float), rng)
    weights = np.exp(log.log_optimized - log.log_safe)
    assert np.average(log.loss["loss"], weights=weights) < 0.01  # what it does at beta = inf
    found = tether.calibrate(log, promise=0.05)
    assert not found.useful
    assert "however safe the optimized one is" in found.warnings[0]
