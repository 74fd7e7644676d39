"""Deployed risk against what is promised, in known worlds; `make validity` runs longer."""

import numpy as np
import pytest
from benchmarks import validity, validity_monitors, validity_releases, validity_thresholds

from tests.scale import scaled

CASES = {each.name: each for each in validity.cases()}
LONG = ("3000 rows", "4000 rows", "5000 rows", "20000 rows")
SHORT = {
    name: case
    for name, case in CASES.items()
    if not case.wrong and not any(each in name for each in LONG)
}
WRONG = {name: case for name, case in CASES.items() if case.wrong}
WRONG_NAMES = [
    pytest.param(each, marks=[pytest.mark.slow] * ("searched" in each)) for each in WRONG
]


@pytest.mark.parametrize("name", SHORT)
def test_what_is_promised_holds(name):
    line = SHORT[name].simulate(scaled(25))
    assert line.held, str(line)


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_the_same_measure_sees_wrong_procedures_break(name):
    case = WRONG[name]
    line = case.simulate(400 if "searched" in name else min(case.runs, 150))
    assert not line.held, str(line)


@pytest.mark.parametrize("room", [validity_thresholds, validity_monitors])
def test_thresholds_and_monitors_hold_and_wrong_rules_break(room):
    for case in room.cases():
        line = case.simulate(60 if case.wrong else scaled(150))
        assert line.held != case.wrong, str(line)


def test_control_is_not_bought_with_idleness():
    for name, case in CASES.items():
        plain = " 1000 rows, alpha, asked" in name or " 1000 rows, promise, asked" in name
        if plain and "rare" not in name:
            assert np.nanmean(case.repeats(10)[:, 2]) > 0.5, name


RELEASES = {
    "40 visitors, new 0.3": 80,
    "0.25, harmless outcomes known sooner": 5,
    "900 regulars, 15 % harmed": 6,
    "80 % harmed, who leave": 15,
    "relative, 0.04 against 0.02, share 1": 10,
    "relative, keys stay": 10,
    "false halts, harmless late": 8,
    "failures after step 10 turns bad": 5,
}


@pytest.mark.parametrize("world", RELEASES)
def test_releases_hold_and_wrong_rules_break(world):
    for case in validity_releases.cases():
        if case.name.startswith(f"release, {world}"):
            line = case.simulate(scaled(RELEASES[world]))
            assert line.held != case.wrong, str(line)
