"""Deployed risk against what is promised, in known worlds; `make validity` runs longer."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import validity, validity_monitors, validity_releases, validity_thresholds

from tests.scale import scaled
from tether.runs.keys import as_bytes, hashed_positions

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
    "relative, 0.04 against 0.02": 10,
    "relative, keys stay": 10,
    "relative, 15 % of regulars harmed": 2,
    "false halts, harmless late": 8,
    "failures after step 10 turns bad": 5,
}


@pytest.mark.parametrize("world", RELEASES)
def test_releases_hold_and_wrong_rules_break(world):
    for case in validity_releases.cases():
        if case.name.startswith(f"release, {world}"):
            line = case.simulate(scaled(RELEASES[world]))
            assert line.held != case.wrong, str(line)


class Both(validity_releases.Stored):
    """The class and the rules alone, side by side: they have to agree after every call."""

    def __init__(self, limit, old, rng, **how):
        super().__init__(limit, old, rng, **how)
        salt = bytes.fromhex(self.release.settings.salt)
        how["hashed"] = lambda keys: hashed_positions(map(as_bytes, keys.tolist()), salt)
        self.pure, stored = validity_releases.Pure(limit, old, rng, **how), self.advance
        self.advance = lambda: (stored(), self.pure.advance())

    def assign(self, keys):
        assert self.pure.share == pytest.approx(self.share, abs=1e-12)
        found = super().assign(keys)
        assert found.tolist() == self.pure.assign(keys).tolist()
        return found

    def observe(self, keys, new, lost):
        super().observe(keys, new, lost)
        self.pure.observe(keys, new, lost)
        assert self.pure.share == pytest.approx(self.share, abs=1e-12)


@pytest.mark.parametrize("stop", [None, 0.05])
@pytest.mark.parametrize("name", ["FEW", "REGULARS", "LEAVE", "RELATIVE", "TURNS"])
def test_the_rules_alone_are_those_of_the_class(name, stop):
    world = replace(getattr(validity_releases, name), sticky=True)
    validity_releases.simulate(world, np.random.default_rng(1), stop=stop, rules=Both)
