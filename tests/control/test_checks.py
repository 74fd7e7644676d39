"""What looks wrong about a log: the scoreboard of mistakes in small, and its parts."""

from functools import partial

import numpy as np
import pytest
from benchmarks.mistakes import MISTAKES, WORLDS, features, gaussian, share_noticed
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether._core.rows import Rows
from tether.control import checks
from tether.control.checks import is_refuted

NOTICED = {
    "gaussian": ("swapped", "sign", "copied column", "repeated rows"),
    "classes": ("swapped", "sign", "temperature", "copied column"),
    "features": ("swapped", "shuffled actions", "copied column", "repeated rows", "logits"),
    "two": ("swapped", "shuffled actions", "repeated rows", "trained on it", "logits"),
}
LATER = {
    "gaussian": ("base 10", "temperature", "shuffled scores", "filtered rows"),
    "classes": ("filtered rows",),
    "features": ("an action left out", "filtered rows"),
    "two": ("an action left out", "filtered rows", "trained on it"),
    "twice": ("shuffled actions", "an action left out"),
}


def check_rows(rows, draws=None):
    found = rows.together(it=checks.checks(rows, 1.0))["it"]
    return checks.findings(rows, found, draws, 1.0)


@pytest.mark.parametrize("world", WORLDS)
def test_right_logs_are_hardly_suspected(world):
    limit = 0.1 if world == "peaked" else 0.02
    assert share_noticed(WORLDS[world], "none", 200, 50, seed=7) <= limit
    assert share_noticed(WORLDS[world], "none", 3000, 5, seed=7) == 0


@pytest.mark.parametrize(
    ("world", "mistake", "rows"),
    [(world, each, 200) for world, several in NOTICED.items() for each in several]
    + [(world, each, 3000) for world, several in LATER.items() for each in several],
)
def test_mistakes_are_noticed(world, mistake, rows):
    assert share_noticed(WORLDS[world], mistake, rows, 10, seed=7) >= 0.8


def test_every_mistake_of_the_scoreboard_is_noticed_somewhere():
    assert {each for part in (NOTICED, LATER) for several in part.values() for each in several} == {
        name for name in MISTAKES if name != "none"
    }


@given(st.lists(st.floats(-8, 3), min_size=2, max_size=60), st.integers(1, 70))
@settings(max_examples=50)
def test_bets_are_those_of_the_definition_in_any_blocks(logs, size):
    ratio = np.exp(np.array(logs))
    zeros = np.zeros(len(ratio))
    rows = Rows({"loss/loss": zeros, "log_safe": zeros, "log_optimized": np.log(ratio)})
    capital = np.mean([np.prod(1 + s * (ratio / 1.01 - 1)) for s in checks.STAKES])
    found = rows.reduce(partial(checks._sums, 1.0, 1, 1.01), checks.HOW, size)
    assert checks._exceeds(found["bets"]) == (capital > 1e6)


def test_a_refuted_log_promises_nothing_useful_and_a_right_one_has_no_doubts():
    rng = np.random.default_rng(0)
    wrong, right = MISTAKES["swapped"](None, gaussian(rng, 500)), gaussian(rng, 2000)
    wrong, right = (tether.Log(c.pop("loss/loss"), **c) for c in (wrong, right))
    with pytest.warns(tether.AssumptionWarning, match="does not hold"):
        found = tether.calibrate(wrong, alpha=0.3)
    assert (is_refuted(found.warnings), found.useful) == (True, False)
    found = tether.calibrate(right, alpha=0.12)  # a warning would be an error
    assert (is_refuted(found.warnings), found.useful) == (False, True)


def test_proposals_that_are_the_rows_are_noticed():
    rng = np.random.default_rng(0)
    columns = gaussian(rng, 300)
    rows, order = Rows(columns), rng.permutation(300)
    drawn = Rows({name: column[order] for name, column in columns.items()})
    assert any("fresh draws" in each for each in check_rows(rows, drawn))
    assert not check_rows(rows, Rows(gaussian(rng, 300)))


def test_what_the_policies_that_acted_took_is_compared_with_their_probabilities():
    rng = np.random.default_rng(0)
    a = np.where(rng.random(3000) < 0.3, rng.normal(1, 0.8, 3000), rng.normal(size=3000))
    safe, optimized = -(a**2) / 2, -(((a - 1) / 0.8) ** 2) / 2 - np.log(0.8)
    mix = np.logaddexp(safe + np.log(0.7), optimized + np.log(0.3))
    columns = {"loss/loss": (a > 1.5) * 1.0, "log_safe": safe, "log_optimized": optimized}
    assert any(map(str, check_rows(Rows(columns))))  # the safe policy did not take them all
    assert not check_rows(Rows({**columns, "log_mix": mix}))
    assert not check_rows(Rows({**columns, "log_mix": mix, "log_logged": mix}))


def test_copies_among_many_rows_are_found_in_a_sample(monkeypatch):
    monkeypatch.setattr(checks, "SAMPLED", 2000)
    columns = features(np.random.default_rng(0), 20_000)
    repeated = MISTAKES["repeated rows"](None, columns)
    (found,) = (each for each in check_rows(Rows(repeated)) if "more than once" in each)
    count = float(found.split()[1].replace(",", ""))
    assert 9000 < count < 11_000
    assert not check_rows(Rows(columns))
    tripled = {name: np.concatenate([column[:500]] * 3) for name, column in columns.items()}
    assert any("more than once" in each for each in check_rows(Rows(tripled)))
