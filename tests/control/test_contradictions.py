"""Logs that contradict their probabilities: found, never by chance, and kept in the result."""

import numpy as np
import pytest

import tether
from tether.control.contradictions import (
    CONTRADICTION_WORDS,
    ratio_contradiction,
    taken_too_often,
)
from tether.control.refuted_log import REFUTED_WORDS

ROWS = 3000
NAMES = np.array(["pay", "phone", "visit"])


def world(seed=0, rows=ROWS):
    """Contexts, tables of both policies, and actions of the safe one."""
    rng = np.random.default_rng(seed)
    safe = 0.85 * rng.dirichlet([4.0, 2.0, 1.0], size=5) + 0.05
    new = tether.Categorical.from_probabilities(rng.dirichlet(np.ones(3), size=5), actions=NAMES)
    contexts = rng.integers(5, size=rows)
    taken = (rng.random(rows)[:, None] > safe[contexts].cumsum(axis=1)).sum(axis=1)
    return rng, safe, new, contexts, taken


def logged(new, contexts, taken, propensities, **more):
    losses = np.arange(len(taken)) % 20 == 0
    given = {"propensities": propensities, "min_propensity": 0.05, **more}
    return tether.make_log(None, new, contexts, NAMES[taken], losses, **given)


def told(taken, probability, actions=3):
    return taken_too_often(NAMES, taken, probability, actions, "propensity", "")


def test_honest_logs_contradict_nothing():
    for seed in range(40):
        _, safe, new, contexts, taken = world(seed, 400)
        propensities = safe[contexts, taken]
        assert told(taken, propensities) is None
        log_ratios = new.log_prob(contexts, NAMES[taken]) - np.log(propensities)
        assert ratio_contradiction(log_ratios, 1.0) is None


def test_an_action_that_is_not_offered_everywhere_is_no_contradiction():
    rng, _, _, contexts, _ = world()
    table = np.array([[0.5, 0.5, 0.0], [0.3, 0.3, 0.4]])[(contexts > 0).astype(int)]
    taken = (rng.random(ROWS)[:, None] > table.cumsum(axis=1)).sum(axis=1)
    assert told(taken, table[np.arange(ROWS), taken]) is None


@pytest.mark.parametrize("shuffled", ["actions", "propensities"])
def test_rows_in_another_order_promise_nothing_useful(shuffled, tmp_path):
    rng, safe, new, contexts, taken = world()
    propensities = safe[contexts, taken]
    table = np.exp(new.log_prob_all(np.arange(5)))
    contexts = np.arange(ROWS) * 5 + contexts  # each row is a context of its own
    new = tether.Categorical.from_probabilities(lambda rows: table[rows % 5], actions=NAMES)
    found = tether.calibrate(logged(new, contexts, taken, propensities), promise=0.3, family="mix")
    assert found.covered
    assert found.useful
    order = rng.permutation(ROWS)
    rows = (taken[order], propensities) if shuffled == "actions" else (taken, propensities[order])
    with pytest.warns(tether.AssumptionWarning, match="from different rows"):
        log = logged(new, contexts, *rows)
    found = tether.calibrate(log, promise=0.3, family="mix")
    assert found.exists
    assert not found.useful
    assert found.refuted_by == log.warnings
    assert found.statement == f"none: {REFUTED_WORDS}"
    assert REFUTED_WORDS in str(found).splitlines()[0]
    assert sum(CONTRADICTION_WORDS in each for each in found.warnings) == 1
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    assert loaded.refuted_by == found.refuted_by
    assert not loaded.useful
    assert str(loaded) == str(found)


def test_actions_of_another_policy_are_found_beside_a_safe_policy():
    _, safe, new, contexts, taken = world()
    safe = tether.Categorical.from_probabilities(safe, actions=NAMES)
    losses = np.zeros(ROWS)
    assert tether.make_log(safe, new, contexts, NAMES[taken], losses).warnings == ()
    with pytest.warns(tether.AssumptionWarning, match="coded in another order"):
        tether.make_log(safe, new, contexts, NAMES[::-1][taken], losses)


def test_ratios_whose_mean_is_above_one_promise_nothing_useful():
    rng = np.random.default_rng(0)
    log_safe = np.log(rng.uniform(0.2, 0.4, size=2000))
    log_optimized = np.log(rng.uniform(0.3, 0.6, size=2000))
    log = tether.Log(rng.random(2000) < 0.05, log_safe, log_optimized, max_ratio=5)
    found = tether.calibrate(log, promise=0.2, family="mix")
    assert not found.useful
    assert sum("should be at most 1" in each for each in found.warnings) == 1
    assert not tether.calibrate(log, alpha=0.2, family="mix", ratio_error=1.1).useful
    assert tether.calibrate(log, alpha=0.2, family="mix", ratio_error=2.0).refuted_by == ()


def test_the_expectation_of_the_capital_is_at_most_one():
    """All logs of three rows of one action with probability p: P(alarm) ≤ the false alarm."""
    for probability in (1e-7, 1e-3, 0.5):
        alarmed = 0.0
        for taken in range(4):
            inverse = np.full(taken, probability)
            rows = np.r_[np.zeros(taken, int), np.ones(3 - taken, int)]
            stated = np.r_[inverse, np.full(3 - taken, 1 - probability)]
            found = taken_too_often(NAMES[:2], rows, stated, 2, "propensity", "")
            chance = [1, 3, 3, 1][taken] * probability**taken * (1 - probability) ** (3 - taken)
            alarmed += chance * (found is not None)
        assert alarmed <= 1e-6
