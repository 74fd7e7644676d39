"""Outcomes in which 1 is the good one are asked about."""

import numpy as np

import tether
from tests.cli.command_line import one_line, run
from tests.service.running import running, settings
from tether.release import ArmCounts


def release_with(path, mean, alpha=0.02, rows=300):
    keys = [f"k{i}" for i in range(rows)]
    with tether.Release(path, {"harm": alpha}) as release:
        release.assign(keys)
        release.observe(keys, {"harm": (37 * np.arange(rows) % 100 < 100 * mean).astype(float)})
        return release.history()


def test_an_old_system_that_mostly_harms_is_asked_about(tmp_path):
    history = release_with(tmp_path / "r.db", 0.98)
    assert "mean 'harm' is 0.98 of at most 1, where 0.02 is tolerated" in history.inverted
    assert "are outcomes inverted?" in " ".join(history.summary().split())
    done = run("release", "status", tmp_path / "r.db")
    assert "are outcomes inverted?" in one_line(done)
    assert "are outcomes inverted?" in one_line(
        run("release", "status", tmp_path / "r.db", "--json")
    )


def test_true_outcomes_and_large_tolerances_are_not(tmp_path):
    assert release_with(tmp_path / "a.db", 0.02).inverted == ""
    assert release_with(tmp_path / "b.db", 0.55, rows=20).inverted == ""  # may be chance
    assert release_with(tmp_path / "c.db", 0.98, alpha=0.6).inverted == ""


def test_a_new_system_that_mostly_harms_is_asked_about(tmp_path):
    old = {"harm": ArmCounts(2000, 20.0)}
    with tether.Release(tmp_path / "r.db", {"harm": 0.02}, old=old, salt=b"new") as release:
        for number in range(4):  # a few keys a step: no step alone is enough
            if number:
                release.advance()
            keys = [f"{number}/{k}" for k in range(600)]
            systems = release.assign(keys)
            losses = [float(system == "new") for system in systems]
            release.observe(keys, {"harm": losses}, system=systems)
        history = release.history()
    assert "the new system's mean 'harm' is 1 of at most 1" in history.inverted
    assert "are outcomes inverted?" in one_line(run("status", tmp_path / "r.db"))


def test_a_log_in_which_1_is_the_good_outcome_closes_the_gate(tmp_path):
    """The store's release cannot go on, and everything that shows it says so."""
    path, old = tmp_path / "r.db", {"complaint": ArmCounts(2000, 1980.0)}
    told = "are losses inverted? The harm has the larger loss. This release cannot go on"
    with running(settings(path, release={"old": old})) as client:
        status, gate = client.get("/v1/status").json(), client.get("/v1/gate").json()
        shown = client.get("/v1/dashboard").json()["parts"]["state"]
        assert client.get("/v1/gate?weight=0").json()["pass"] is True  # nothing was asked for
    assert gate["pass"] is False
    assert gate["reason"].startswith("no share passes: the old system alone does not pass")
    for text in (*status["warnings"], gate["reason"], shown["note"], one_line(run("status", path))):
        assert told in text
