"""Deployed risk against what is promised, in known worlds; `make validity` runs longer."""

import numpy as np
import pytest
from benchmarks import validity

from tests.scale import scaled

CASES = {f"{each.world.name}, {each.rows} rows, {each.rule}": each for each in validity.cases()}
SHORT = {name: case for name, case in CASES.items() if case.rows <= 1000 and not case.wrong}
WRONG = {name: case for name, case in CASES.items() if case.wrong}


@pytest.mark.parametrize("name", SHORT)
def test_what_is_promised_holds(name):
    line = SHORT[name].simulate(scaled(25))
    assert line.held, str(line)


@pytest.mark.parametrize("name", WRONG)
def test_the_same_measure_sees_wrong_procedures_break(name):
    case = WRONG[name]
    line = case.simulate(min(case.runs, 150))
    assert not line.held, str(line)


def test_control_is_not_bought_with_idleness():
    for name, case in CASES.items():
        if case.rows == 1000 and case.rule in ("alpha", "promise") and "rare" not in name:
            assert np.nanmean(case.simulate(10).kept) > 0.5, name
