"""`tether doctor`: versions, extras, what is missing and how to get it."""

import json

import numpy as np
import pytest

import tether
from tests.cli.command_line import one_line, run
from tether._core.extras import EXTRAS, Package
from tether.cli import installation


def test_a_complete_installation_has_no_problems():
    done = run("doctor")
    assert done.exit_code == 0, done.output
    assert f"tether    {tether.__version__}" in done.stdout
    assert f"numpy     {np.__version__}" in done.stdout
    for extra in EXTRAS:
        assert f"  {extra:9} " in done.stdout


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    absent = Package("no-such-package", "no_such_package", "1")
    monkeypatch.setitem(EXTRAS, "bo", (absent,))
    done = run("doctor")
    assert done.exit_code == 0  # an extra that is not needed
    assert "missing  no-such-package: pip install 'tether[bo]'" in done.stdout
    done = run("doctor", "--need", "bo", "--need", "cli")
    assert done.exit_code == 1
    assert "problem: no-such-package is not installed: pip install -U 'tether[bo]'" in one_line(
        done
    )


def test_a_package_that_is_too_old_is_a_problem(monkeypatch):
    monkeypatch.setitem(EXTRAS, "cli", (Package("rich", "rich", "999.1"),))
    done = run("doctor", "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert "is older than 999.1" in told["problems"][0]
    assert told["tether"] == tether.__version__


def test_a_wrong_calibration_is_a_problem(monkeypatch):
    class Wrong:
        beta = 1.0

    monkeypatch.setattr(tether, "calibrate", lambda *a, **k: Wrong)
    assert "a calibration gives beta 1, not 3.5" in one_line(run("doctor"))
    monkeypatch.setattr(tether, "calibrate", lambda *a, **k: 1 / 0)
    assert "a calibration fails: ZeroDivisionError" in one_line(run("doctor"))


def test_unknown_extras_are_refused():
    done = run("doctor", "--need", "everything")
    assert done.exit_code == 2
    assert "--need must be one of 'cli'" in one_line(done)


@pytest.mark.parametrize(
    ("version", "oldest", "is_too_old"),
    [
        ("1.10", "1.9", False),
        ("1.9", "1.10", True),
        ("2.0", "2", False),
        ("2.13.0+cpu", "2.2", False),
    ],
)
def test_versions_are_compared_as_numbers(version, oldest, is_too_old):
    found = installation.InstalledPackage(Package("x", "x", oldest), version)
    assert found.is_too_old is is_too_old
