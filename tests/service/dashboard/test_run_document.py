"""What is shown of a run is what its rows and its history say."""

import json
import math

import pytest

import tether
from tether.monitor import RiskMonitor
from tether.report.sentences import run_promise, run_state
from tether.rounds.served_run import ServedRun
from tether.service.dashboard.run_document import WatchedRun

ACTIONS = ["wait", "treat"]
SAFE = tether.Categorical.from_probabilities([0.8, 0.2], actions=ACTIONS)
BOLD = tether.Categorical.from_probabilities([0.3, 0.7], actions=ACTIONS)


def served(improve=lambda rows: BOLD, **options):
    options = {"alpha": 0.3, "missing": "worst_case"} | options
    return ServedRun(tether.Controller(SAFE, store="sqlite://", **options), improve)


def collect(run, count=300, loss=0.5):
    taken = run.act(count)
    losses = (taken.actions == "treat") * loss
    run.observe(taken.ids.tolist(), {"loss": losses})
    return taken, losses


def watched(run):
    return json.loads(json.dumps(WatchedRun(run, "clinic").look().parts()))


def begin(run, number):
    run.begin(number, "enough rows", actor="ann")
    run.wait()
    assert run.begin_failure == ""


def test_the_numbers_and_sentences_are_those_of_the_rows():
    run = served()
    _, first = collect(run)
    begin(run, 1)
    taken, losses = collect(run, 100, loss=0.25)  # too small for an alarm
    shown, history = watched(run), run.run.history()
    state, calibration = run_state(history), history.rounds[-1].calibration
    assert (shown["kind"], shown["number"], shown["title"]) == ("run", 2, "clinic")
    assert (shown["state"]["sentence"], shown["state"]["note"]) == (state.sentence, "")
    assert tuple(shown["promise"].values()) == run_promise(history)
    assert [each["number"] for each in shown["path"]] == [1, 2]
    value = shown["level"]["value"]
    assert value == shown["path"][-1]["level"]["value"]
    assert calibration.beta > 0
    assert (value is None) == math.isinf(calibration.beta)
    assert value is None or value == pytest.approx(calibration.beta, rel=1e-5)
    assert shown["path"][0]["level"] == {"value": 0, "text": "0", "height": 0}
    (loss,) = shown["guardrails"]
    assert (loss["alpha"], loss["alarm_risk"]) == (0.3, 0.45)
    assert loss["promise"] == pytest.approx(calibration.promises["loss"], rel=1e-5)
    assert loss["old"]["count"] == 300
    assert loss["old"]["mean"] == pytest.approx(first.mean(), rel=1e-5)
    assert (loss["new"]["count"], loss["new_step"]) == (100, 2)
    assert loss["new"]["mean"] == pytest.approx(losses.mean(), rel=1e-5)
    safe, bold = loss["means"]
    assert (safe["new"], bold["old"]) == (None, None)
    assert (safe["old"]["count"], bold["new"]) == (300, loss["new"])
    monitor = RiskMonitor(loss["alarm_risk"]).update(losses)
    seen, mean, lower, upper = loss["monitor"]["points"][-1]
    expected = (monitor.mean, monitor.lower, monitor.upper)
    assert (seen, (mean, lower, upper)) == (100, pytest.approx(expected, rel=1e-5))
    assert loss["monitor"]["level"] == loss["alarm_risk"]
    last = shown["recent"][0]
    assert (last["id"], last["served"], last["context"]) == ("400", "round 2", "")
    assert (last["action"], last["losses"]["loss"]) == (taken.actions[-1], losses[-1])
    assert [each["act"] for each in shown["acts"]] == ["begin"]
    assert [each["name"] for each in shown["offers"]] == ["halt", "resume", "begin"]
    run.close()
