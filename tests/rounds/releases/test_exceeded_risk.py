"""A new system that is bad from the start raises no alarm, and everything that shows it says so."""

import numpy as np
import pytest

import tether
from tests.cli.command_line import one_line, run
from tests.service.running import running, settings
from tether.release import ArmCounts

SAID = (
    "is above what is tolerated (0.03): unless it gets better, its share will not grow to 100 %. "
    "Consider to halt it"
)
OLD = {"failed": ArmCounts(2000, 20.0)}


def released(path, rate, steps=6):
    """A release whose new system fails at a rate, at evenly spaced keys."""
    with tether.Release(path, {"failed": 0.03}, promise=True, old=OLD, salt=b"bad") as release:
        count = 0
        for number in range(steps):
            if number:
                release.advance()
            keys = [f"{number}/{k}" for k in range(500)]
            systems = release.assign(keys)
            new = np.array(systems) == "new"
            numbers = count + np.cumsum(new)
            failed = new & (np.floor(numbers * rate) > np.floor((numbers - 1) * rate))
            release.observe(keys, {"failed": failed.astype(float)}, system=systems)
            count = int(numbers[-1])
        return release.history()


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad") / "release.db"
    return path, released(path, 0.2)


def test_a_new_system_above_what_is_tolerated_is_named(bad):
    history = bad[1]
    assert history.alarm is None
    assert 0 < history.share < 0.5
    assert SAID in history.exceeded
    assert history.exceeded.startswith("the new system's mean 'failed' (0.")
    assert SAID in " ".join(history.summary().split())
    assert history.inverted == ""


def test_the_command_line_says_so(bad):
    assert SAID in one_line(run("status", bad[0]))
    assert SAID in one_line(run("release", "status", bad[0], "--json"))


def test_the_service_says_so(bad):
    with running(
        settings(bad[0], release={"guardrails": None, "old": None, "salt": None})
    ) as client:
        status, gate = client.get("/v1/status").json(), client.get("/v1/gate").json()
        shown = client.get("/v1/dashboard").json()["parts"]["state"]
    (warning,) = status["warnings"]
    assert SAID in warning
    assert gate["pass"] is True
    assert gate["reason"] == f"no alarm stands; {warning}"
    assert SAID in shown["note"]
    assert (shown["kind"], shown["heading"]) == ("held", "Running, held back")


def test_a_good_one_and_one_that_is_halted_are_not(bad, tmp_path):
    good = released(tmp_path / "good.db", 0.01, steps=3)
    assert good.warnings == ()
    with tether.Release(bad[0]) as release:
        release.halt("it is bad", actor="ann")
        assert release.history().exceeded == ""
        release.resume("go on", actor="ann")


def test_one_that_was_bad_and_has_all_keys_now_is_not(tmp_path):
    """The mean over all steps is still above what is tolerated, and the share is 100 %."""
    rates = [0.5, 0.5, 0.5, 0.0, 0.0]
    with tether.Release(
        tmp_path / "mended.db", {"failed": 0.03}, promise=True, old=OLD, salt=b"mended"
    ) as release:
        for number, rate in enumerate(rates):
            if number:
                release.advance()
            keys = [f"{number}/{k}" for k in range(3000)]
            systems = release.assign(keys)
            losses, count = [], 0
            for system in systems:
                count += system == "new"
                losses.append(float(system == "new" and count % 2 < 2 * rate))
            release.observe(keys, {"failed": losses}, system=systems)
        history = release.history()
    assert history.share == 1
    assert history.new_losses["failed"].lower > 0.03
    assert history.warnings == ()
