"""`tether status`."""

import json

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
