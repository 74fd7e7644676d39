"""Simulated releases; `python -m benchmarks.release_validity` is the long version."""

import numpy as np
import pytest
from benchmarks.release_keys import ALPHA, POPULATIONS, RIGHT
from benchmarks.release_keys import simulate as simulate_keys
from benchmarks.release_validity import PROMISING, WORLDS, stated, verdict
from benchmarks.release_worlds import simulate

RUNS = 600
CHOSEN = {world.name: (world, procedures) for world, procedures in WORLDS}


def run(name, procedure, runs=RUNS):
    world, procedures = CHOSEN[name]
    return world, simulate(world, procedures[procedure], runs, np.random.default_rng(3))


@pytest.mark.parametrize("name", CHOSEN)
def test_every_promise_holds_at_every_step(name):
    for procedure in set(CHOSEN[name][1]) & set(PROMISING):
        world, (shares, risks, windows) = run(name, procedure)
        held, worst, risk, error = verdict(world, procedure, shares, risks)
        assert held or risk <= stated(world, procedure, windows[worst]) + 3 * error


@pytest.mark.parametrize(
    ("name", "procedure"),
    [
        ("0.05, late losses", "unknown left out (wrong)"),
        ("0.05, 20 % missing", "unknown left out (wrong)"),
        ("0.015, from step 8 on 0.3", "all rows"),
        ("0.2, 100 keys a step", "fixed canary"),
        ("worse: 0.05", "peeking A/B test"),
    ],
)
def test_the_same_measure_sees_other_procedures_break(name, procedure):
    world, (shares, risks, _) = run(name, procedure, 2000)
    assert not verdict(world, procedure, shares, risks)[0]


def test_a_good_system_is_served_soon():
    """At least 65 % in the third step and 90 % in the fourth, over 2,000 releases."""
    _, (shares, _, _) = run("slightly worse: 0.015", "alpha", 2000)
    mean = shares.mean(axis=1)
    assert mean[2] >= 0.65
    assert mean[3] >= 0.90


@pytest.mark.parametrize("rows", RIGHT)
def test_one_row_per_key_holds_alpha_however_different_keys_are(rows):
    for population in POPULATIONS:
        _, risks = simulate_keys(population, rows, 200, np.random.default_rng(1))
        error = risks.std(axis=1, ddof=1) / np.sqrt(200)
        assert (risks.mean(axis=1) <= ALPHA + 3 * error).all()


def test_one_row_per_request_breaks_alpha():
    _, risks = simulate_keys(POPULATIONS[1], "each request (wrong)", 50, np.random.default_rng(1))
    assert risks.mean(axis=1).max() > 4 * ALPHA
