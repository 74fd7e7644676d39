"""A store from the command line."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import tether
from tests.rounds.worlds import World, one_round
from tether.cli.app import app
from tether.rounds import Controller, read_history


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def store(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(0)
    with Controller(world.safe(), alpha=0.3, store=tmp_path / "run.db") as made:
        for number in (1, 2):
            one_round(made, world, number, 150, rng)
        made.round.act(10, rng)
    return tmp_path / "run.db"


def alarm(store):
    policies = {"round 2": World("marginal").optimized(2)}
    with Controller(World("marginal").safe(), alpha=0.3, store=store, policies=policies) as made:
        taken = made.round.act(100, np.random.default_rng(1))
        made.observe(taken.ids, np.ones(100))


def test_status(store):
    shown = run("status", store)
    assert shown.exit_code == 0
    assert "alpha 0.3" in " ".join(shown.output.split())
    assert "round 2: 150 of 160 losses have arrived" in shown.output
    found = json.loads(run("status", store, "--json").output)
    assert [row["number"] for row in found["rounds"]] == [1, 2]
    assert found["rounds"][1]["pending"] == 10
    assert found["rounds"][1]["calibration"]["rows"] > 50
    alarm(store)
    shown = run("status", store)
    assert shown.exit_code == 4
    assert "stands" in shown.output
    assert run("status", store, "--json").exit_code == 4


def test_status_of_an_empty_run(tmp_path):
    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "run.db").close()
    assert "No round has begun yet" in run("status", tmp_path / "run.db").output


def test_following(store):
    words = [sys.executable, "-m", "tether", "status", store, "--follow", "--every", "0.1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "150 of 160 losses" in output


def test_resume(store):
    done = run("resume", store, "--reason", "a drill")
    assert done.exit_code == 2
    assert "no alarm stands" in " ".join(done.output.split())
    alarm(store)
    assert run("resume", store, "--reason", " ").exit_code == 2
    assert run("resume", store, "--reason", "a drill").exit_code == 0
    assert read_history(store).alarms[0].reason == "a drill"
    assert run("status", store).exit_code == 0


def test_export_and_import(store, tmp_path):
    assert run("export", store, tmp_path / "run.csv").exit_code == 2
    assert run("export", store, tmp_path / "run.parquet").exit_code == 0
    assert run("import", tmp_path / "run.parquet", tmp_path / "again.db").exit_code == 0
    assert read_history(tmp_path / "again.db").rounds == read_history(store).rounds
    again = run("import", tmp_path / "run.parquet", tmp_path / "again.db")
    assert again.exit_code == 2
    assert "holds a run already" in " ".join(again.output.split())
    assert run("import", tmp_path / "none.parquet", tmp_path / "new.db").exit_code == 2
    assert not (tmp_path / "new.db").exists()


def test_report(store, tmp_path):
    done = run("report", store, "-o", tmp_path / "report.html")
    assert done.exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"(src|href)=.?https?:", page)


@pytest.mark.parametrize("command", ["status", "report", "resume", "export"])
def test_a_store_that_is_not_there(command, tmp_path):
    more = {"resume": ["--reason", "x"], "export": [tmp_path / "x.parquet"]}.get(command, [])
    done = run(command, tmp_path / "none.db", *more)
    assert done.exit_code == 2
    assert "there is no store" in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []
