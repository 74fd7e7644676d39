"""What is kept by names that tether does not write, and risk monitors of several lanes."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

import tether
from tether._core import records
from tether.monitor import RiskMonitor
from tether.rounds import Controller, resume, verify_store


def problems(path):
    return [finding.text for finding in verify_store(path).problems]


def controller(path):
    return Controller(tether.Gaussian(0.0), store=path, alpha=0.1, alarm_risk=0.9)


@pytest.fixture
def several_lanes(tmp_path):
    """A run with losses of its second round in lanes 0 and 3, as PostgreSQL has them."""
    rng = np.random.default_rng(0)
    with controller(tmp_path / "run.db") as run:
        taken = run.begin().act(400, rng)
        run.observe(taken.ids, (taken.actions > 2).astype(float))
        round_ = run.begin(tether.Gaussian(0.3))
        with run._store.writing(exclusive=True) as writer:
            writer._own_lane = 3
            scores = {"log_safe": [-1.0] * 5, "log_optimized": [-1.0] * 5, "log_prob": [-1.0] * 5}
            rows = {"calibration": [False] * 5, "context": [None] * 5, **scores}
            rows["action"] = [np.float64(0.5).tobytes()] * 5
            ids = writer.actions(rows, number=2, served=2)
            nothing = {"which": [0] * 5, "reward": [None] * 5, "reason": [None] * 5}
            writer.observations({"action": ids, "loss": [0.0, 0.1, 0.2, 0.3, 0.4], **nothing})
        run.observe(round_.act(20, rng).ids, np.linspace(0, 1, 20))
        run.halt("a test", actor="Grace")
        run.resume("it is over", actor="Grace")
        run.observe(round_.act(6, rng).ids, np.linspace(0, 1, 6))
    return tmp_path / "run.db"


def change_monitor(path, change):
    connection = sqlite3.connect(path)
    query = "SELECT value FROM tether_kept WHERE name = 'round 2'"
    content = json.loads(connection.execute(query).fetchone()[0])
    change(content["losses"]["loss"])
    update = "UPDATE tether_kept SET value = ? WHERE name = 'round 2'"
    connection.execute(update, [json.dumps(content)])
    connection.commit()
    connection.close()


def after_seven_losses(alpha, bound, false_alarm_probability, **_):
    monitor = RiskMonitor(alpha, bound, false_alarm_probability)
    monitor.update(np.full(7, 0.5))
    return records.encode(monitor.to_dict())


def test_several_lanes_verify(several_lanes):
    assert problems(several_lanes) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda loss: loss.update(risk=None),
        lambda loss: loss.update(risk=after_seven_losses(**loss["risk"])),
        lambda loss: loss["risk"].update(total=0.5),
        lambda loss: loss["risk"].update(false_alarm_probability=1e-9),
    ],
)
def test_a_changed_risk_monitor_of_several_lanes_is_named(several_lanes, change):
    change_monitor(several_lanes, change)
    found = problems(several_lanes)
    assert any("risk monitor of round 2" in text for text in found), found


@pytest.mark.parametrize("name", ["round 1x", "round 7", "round", "other"])
def test_other_names_are_named_and_do_not_prevent_a_resumption(tmp_path, name):
    with controller(tmp_path / "run.db") as run:
        run.begin()
        run.halt("a test", actor="Grace")
    connection = sqlite3.connect(tmp_path / "run.db")
    connection.execute("INSERT INTO tether_kept VALUES (?, '{}')", [name])
    connection.commit()
    connection.close()
    assert any(repr(name) in text for text in problems(tmp_path / "run.db"))
    resume(tmp_path / "run.db", "it is over", actor="Grace")
