"""What is shown of a run is what its rows and its history say."""

import json
import math
import threading

import numpy as np
import pytest

import tether
from tether.monitor import RiskMonitor
from tether.report.sentences import run_promise, run_state
from tether.rounds.served_run import ServedRun
from tether.service.dashboard import run_document as module
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


def test_an_alarm_stands_and_is_cleared():
    run = served()
    collect(run)
    begin(run, 1)
    taken = run.act(50)
    run.observe(taken.ids.tolist(), {"loss": [1.0] * 50})
    shown = watched(run)
    assert shown["state"]["kind"] == "alarm"
    assert "Round 2 began with its optimized policy." in shown["state"]["details"]
    assert shown["level"]["text"] == "0" != shown["path"][-1]["level"]["text"]
    assert shown["guardrails"][0]["promise"] is None
    monitor = shown["guardrails"][0]["monitor"]
    assert 1 <= monitor["evidence_from"] <= monitor["alarm_at"]
    assert shown["alarms"][0]["cleared"] is None
    assert {each["name"]: each["is_open"] for each in shown["offers"]} == {
        "halt": False,
        "resume": True,
        "begin": True,
    }
    run.resume("<b>fine</b>", actor="bob")
    shown = watched(run)
    assert shown["level"] == shown["path"][-1]["level"]
    assert shown["guardrails"][0]["monitor"]["points"] == []
    assert shown["guardrails"][0]["promise"] > 0
    assert (shown["acts"][0]["actor"], shown["acts"][0]["reason"]) == ("bob", "<b>fine</b>")
    run.close()


def test_a_ramp_has_shares_and_its_own_words():
    run = served(family="ramp", actions_per_step=50)
    collect(run)
    begin(run, 1)
    _, losses = collect(run, 20)
    shown, history = watched(run), run.run.history()
    share = history.rounds[-1].share
    assert shown["level"]["value"] == pytest.approx(share, rel=1e-5)
    assert shown["level"]["text"].endswith(" %")
    assert shown["axis"] == []
    assert "share" in shown["words"]["path_title"].lower()
    assert shown["progress"]["length"] == 50
    assert shown["progress"]["done"] == 20
    assert shown["guardrails"][0]["new"]["count"] == len(losses)  # both policies together
    run.halt("a test", actor="ann")
    assert watched(run)["progress"]["is_paused"]
    run.resume("a test", actor="ann")
    shown = watched(run)
    assert shown["level"]["text"] == "0 %"
    assert shown["state"]["heading"] == "Ramp begins anew"
    assert shown["state"]["sentence"] == "Round 2 is over."
    assert "the next action begins another one" in shown["state"]["details"]
    assert "No promise" in shown["promise"]["sentence"]
    run.act(1)
    assert watched(run)["number"] == 3
    run.close()


def test_a_round_of_the_safe_policy_has_neither_promise_nor_monitor(monkeypatch):
    run = served(None)
    monkeypatch.setattr(module, "ROUNDS_SHOWN", 2)
    for _ in range(2):
        run.run.begin()
    run.follow()
    shown = watched(run)
    assert (shown["left_out"], [each["number"] for each in shown["path"]]) == (1, [2, 3])
    (loss,) = shown["guardrails"]
    assert (loss["promise"], loss["monitor"], loss["old"], loss["new"]) == (None,) * 4
    assert "the safe policy takes all actions" in loss["without_monitor"]
    assert shown["recent"] == []
    assert [each["name"] for each in shown["offers"]] == ["halt", "resume"]
    run.close()


def test_what_this_process_does_is_said():
    may_go_on = threading.Event()

    def improve(rows):
        assert may_go_on.wait(30)
        raise ValueError("postgresql://ann:secret@host has no rows")

    run = served(improve)
    collect(run)
    run.begin(1, "enough rows", actor="ann")
    shown = watched(run)
    assert "Round 2 is being calibrated" in shown["state"]["details"]
    assert not shown["offers"][-1]["is_open"]
    may_go_on.set()
    run.wait()
    note = watched(run)["state"]["note"]
    assert "The last attempt to begin a round failed. ValueError: " in note
    assert "secret" not in note
    run.close()


def test_a_policy_that_is_missing_here_is_said(tmp_path):
    store = f"sqlite:///{tmp_path}/run.db"

    class Unsaved:
        """A policy that a store cannot hold."""

        def sample(self, contexts, rng):
            return BOLD.sample(contexts, rng)

        def log_prob(self, contexts, actions):
            return BOLD.log_prob(contexts, actions)

    settings = {"alpha": 0.3, "missing": "worst_case"}
    with tether.Controller(SAFE, store=store, **settings) as run:
        taken = run.begin().act(300, np.random.default_rng(0))
        run.observe(taken.ids, (taken.actions == "treat") * 0.5)
        run.begin(Unsaved())
    other = ServedRun(tether.Controller(SAFE, store=store, **settings))
    assert (
        "In this process the safe policy acts: its policy is not" in watched(other)["state"]["note"]
    )
    other.close()
