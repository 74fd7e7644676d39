"""`tether status`."""

import json

import numpy as np
import pytest

import tether
from tests.cli.command_line import one_line, run
from tether.rounds import Controller


def test_status(store, raise_alarm):
    shown = run("status", store)
    assert shown.exit_code == 0
    assert "alpha 0.3" in one_line(shown)
    assert "round 2: 150 of 160 losses have arrived" in shown.output
    content = json.loads(run("status", store, "--json").output)
    assert [row["number"] for row in content["rounds"]] == [1, 2]
    assert content["rounds"][1]["pending"] == 10
    assert content["rounds"][1]["calibration"]["rows"] > 50
    raise_alarm(store)
    shown = run("status", store)
    assert shown.exit_code == 4
    assert "stands" in shown.output
    assert run("status", store, "--json").exit_code == 4


def test_status_of_an_empty_run(tmp_path):
    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "run.db").close()
    assert "No round has begun yet" in run("status", tmp_path / "run.db").output


def test_following_shows_news_until_interrupted(store, raise_alarm, monkeypatch):
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 1:
            raise_alarm(store)
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("tether.cli.status.sleep", wait)
    shown = run("status", store, "--follow", "--every", 0.1)
    assert waits == [0.1, 0.1]
    assert shown.exit_code == 0
    assert "250 of 260 losses" in one_line(shown)
    assert "stands" in shown.output


@pytest.mark.parametrize("command", ["status", "report", "resume", "export"])
def test_a_missing_store_is_an_error_and_is_not_created(command, tmp_path):
    more = {"resume": ["--reason", "x"], "export": [tmp_path / "x.parquet"]}.get(command, [])
    done = run(command, tmp_path / "none.db", *more)
    assert done.exit_code == 2
    assert "there is no store" in one_line(done)
    assert list(tmp_path.iterdir()) == []


HOSTILE = "\x1b[31m[/] [red]x \u202e"


class Failing(tether.Gaussian):
    """A policy that scores, and fails when it is to act."""

    fails = False

    def sample(self, contexts, rng):
        if self.fails:
            raise RuntimeError(HOSTILE)
        return super().sample(contexts, rng)


@pytest.fixture
def hostile_store(tmp_path):
    """Names, notes, failures, alarms and acts with control characters and markup."""
    store, rng = tmp_path / "hostile.db", np.random.default_rng(0)
    with Controller(tether.Gaussian(0.0), alpha=0.3, store=store, name=HOSTILE) as run:
        taken = run.begin().act(200, rng)
        run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1))
        policy = Failing(0.5)
        round_ = run.begin(policy, name=HOSTILE)
        policy.fails = True
        assert round_.act(5, rng).failure
        run.withdraw(run.pending().ids, HOSTILE, actor=HOSTILE)
        run.halt(HOSTILE, actor=HOSTILE)
    return store


def test_text_from_a_store_is_shown_literally(hostile_store):
    shown = run("status", hostile_store)
    assert shown.exit_code == 4, shown.output
    joined = one_line(shown).replace(" ", "")
    assert joined.count("\\x1b[31m[/][red]x") >= 5
    assert "\x1b" not in shown.output
    assert "\u202e" not in shown.output


def test_text_from_a_store_cannot_act_in_the_report(hostile_store, tmp_path):
    done = run("report", hostile_store, "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "\\x1b[31m[/] [red]x \\u202e" in page
    assert not any(character in page for character in "\x1b\u202e\x00")


def test_status_of_a_release(tmp_path):
    path = tmp_path / "release.db"
    log = {"complaint": np.zeros(500)}
    with tether.Release(path, {"complaint": 0.05}, old=log) as release:
        keys = [f"key {k}" for k in range(200)]
        release.assign(keys)
        release.observe(keys, np.zeros(200))
        release.advance()
        shown = run("status", path)
        assert shown.exit_code == 0
        assert "release, alpha 0.05 (losses up to 1)" in one_line(shown)
        assert "so small that even a new system that always fails" in one_line(shown)
        content = json.loads(run("status", path, "--json").output)
        assert [row["share"] for row in content["steps"]] == [
            step.share for step in release.history().steps
        ]
        release.halt("a test", actor="ann")
    shown = run("status", path)
    assert shown.exit_code == 4
    assert "The old system acts until" in one_line(shown)
    assert run("resume", path, "--reason", "a test").exit_code == 0
    assert run("status", path).exit_code == 0
