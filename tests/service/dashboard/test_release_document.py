"""What is shown of a release is what its history says."""

import json
from datetime import timedelta

import pytest

from tests.cli.command_line import one_line, run
from tether.monitor import RiskMonitor
from tether.release import ArmCounts
from tether.report import render
from tether.report.releases.release_sentences import release_promise, release_state
from tether.rounds.releases.served_release import ServedRelease
from tether.service.dashboard import release_document as module
from tether.service.dashboard.release_document import WatchedRelease

LOG = {"complaint": ArmCounts(10_000, 0.0)}


def watched(release):
    return json.loads(json.dumps(WatchedRelease(release, "checkout").look().parts()))


def test_the_numbers_and_sentences_are_those_of_the_history(monkeypatch):
    monkeypatch.setattr(module, "STEPS_SHOWN", 2)
    with ServedRelease("sqlite://", {"complaint": 0.2}, old=LOG, salt=b"s") as release:
        for number in range(3):
            keys = [f"{number} {each}" for each in range(60)]
            release.observe(keys, [0.25] * 60, system=release.assign(keys))
            release.advance() if number < 2 else None
        shown, history = watched(release), release.history()
        state, promise = release_state(history), release_promise(history)
        assert (shown["number"], shown["left_out"], len(shown["path"])) == (3, 1, 2)
        assert shown["level"]["value"] == pytest.approx(history.share, rel=1e-5)
        assert shown["state"]["sentence"] == state.sentence
        assert (shown["promise"]["sentence"], shown["promise"]["details"]) == promise
        (rail,) = shown["guardrails"]
        estimate = history.steps[-1].new.losses["complaint"]
        pooled = history.new_losses["complaint"]
        assert pooled.count == sum(step.new.rows for step in history.steps) > estimate.count
        assert rail["new"]["upper"] == pytest.approx(pooled.upper, rel=1e-5)
        assert rail["means"][-1]["new"]["upper"] == pytest.approx(estimate.upper, rel=1e-5)
        assert (rail["new_step"], rail["new_since"], rail["new"]["count"]) == (3, 1, pooled.count)
        promised = history.steps[-1].calibration.promises["complaint"]
        assert rail["promise"] == pytest.approx(promised, rel=1e-5)
        level = history.limits["complaint"].alarm_risk / history.share
        expected = RiskMonitor(level).update([0.25] * estimate.count)
        seen, mean, lower, upper = rail["monitor"]["points"][-1]
        assert (seen, mean) == (estimate.count, 0.25)
        assert (lower, upper) == pytest.approx((expected.lower, expected.upper), rel=1e-5)
        assert rail["monitor"]["level"] == pytest.approx(level, rel=1e-5)
        assert rail["monitor"]["needed"] == 20
        assert [step["number"] for step in rail["means"]] == [2, 3]


def test_an_alarm_and_what_people_did_are_shown_latest_first():
    with ServedRelease("sqlite://", {"complaint": 0.2}, old=LOG) as release:
        release.halt("<b>why</b>", actor="ann")
        release.resume("fine", actor="bob")
        release.halt("again", actor="ann")
        shown = watched(release)
    assert shown["level"]["value"] == shown["path"][-1]["level"]["value"] == 0  # nobody had it
    assert shown["state"]["kind"] == "alarm"
    assert [each["cleared"] is None for each in shown["alarms"]] == [True, False]
    assert [each["act"] for each in shown["acts"]] == ["halt", "resume", "halt"]
    assert shown["acts"][-1]["reason"] == "<b>why</b>"
    assert shown["guardrails"][0]["promise"] is None


@pytest.mark.parametrize(
    ("options", "unit", "length", "can_advance"),
    [
        ({"keys_per_step": 10}, "rows", 10, False),
        ({"step_duration": timedelta(hours=1)}, "seconds", 3600, False),
        ({"step_duration": 60, "confidence": 0.9}, "seconds", 60, True),
        ({}, "rows", None, True),
    ],
)
def test_the_progress_of_a_step(options, unit, length, can_advance):
    with ServedRelease("sqlite://", {"complaint": 0.2}, old=LOG, **options) as release:
        release.assign(["ann", "bob"])
        shown = watched(release)
        found, offers = shown["progress"], [each["name"] for each in shown["offers"]]
        assert (found["unit"], found["length"]) == (unit, length)
        assert offers == ["halt", "resume", "advance"][: 2 + can_advance]
        assert found["done"] == (2 if unit == "rows" else None)
        assert not found["is_paused"]
        release.halt("a test", actor="ann")
        assert watched(release)["progress"]["is_paused"]


def test_a_ramp_without_losses_shows_the_last_step_that_has_some():
    with ServedRelease("sqlite://", {"complaint": 0.2}, old=LOG, salt=b"s") as release:
        keys = [f"a {each}" for each in range(60)]
        release.observe(keys, [0.25] * 60, system=release.assign(keys))
        release.halt("a rumour", actor="ann")
        release.resume("false", actor="bob")
        release.advance()
        (rail,) = watched(release)["guardrails"]
        assert (rail["new_step"], rail["new_since"]) == (1, None)
        assert rail["new"]["mean"] == 0.25
        keys = [f"b {each}" for each in range(60)]
        release.observe(keys, [0.0] * 60, system=release.assign(keys))
        (rail,) = watched(release)["guardrails"]
        assert (rail["new_step"], rail["new_since"], rail["new"]["mean"]) == (2, 2, 0)


def test_answers_without_the_store_are_counted(tmp_path):
    path = tmp_path / "r.db"
    with ServedRelease(path, {"complaint": 0.2}, old=LOG, spool=tmp_path) as release:
        assert watched(release)["unstored"] == 0
        assert "without it" not in one_line(run("status", path))
        release.unstored.append([b"ann", b"bob"])
        release.list_unstored()
        assert watched(release)["unstored"] == 2
        told = "the old system gave 2 answers without it, which count nowhere."
        assert told in one_line(run("release", "status", path))
        assert "Answers without the store</dt><dd>2</dd>" in render(release.history())


def test_a_release_without_losses_can_be_shown():
    with ServedRelease("sqlite://", {"complaint": 0.02}) as release:
        shown = watched(release)
    assert (shown["level"]["value"], shown["guardrails"][0]["old"]) == (0, None)
    assert shown["guardrails"][0]["monitor"] is None


def alarm_before_any_key(path, **options):
    """A release that a person halts when its second step has no keys yet, and resumes."""
    old = {"complaint": ArmCounts(2000, 20.0)}
    release = ServedRelease(path, {"complaint": 0.2}, old=old, salt=b"s", **options)
    keys = [f"a {each}" for each in range(60)]
    release.observe(keys, [0.0] * 60, system=release.assign(keys))
    release.advance()
    release.halt("a rumour", actor="ann")
    release.assign([f"b {each}" for each in range(60)])
    return release


def test_a_step_in_which_nobody_had_the_new_system_has_no_share_and_no_promise(tmp_path):
    path = tmp_path / "r.db"
    with alarm_before_any_key(path) as release:
        history = release.history()
        first, step = history.steps
        assert (first.stopped_by, step.stopped_by) == (None, 1)
        assert history.share == step.share == 0 < step.calibration.share
        assert step.promises == {"complaint": 1.0}
        assert step.why.startswith("alarm 1 stood before any key had the new system; without it")
        shown = one_line(run("status", path))
        assert "2 0.000% 60 0 alarm 1 stood before any key" in shown
        assert "2 none" in shown
        assert watched(release)["path"][-1]["level"]["value"] == 0
        release.resume("false", actor="bob")
        release.advance()
        later = release.history().steps
    assert [each.stopped_by for each in later] == [None, 1, None]
    assert [each.share > 0 for each in later] == [True, False, True]
    assert later[0].why == first.why


def test_a_share_that_an_alarm_ended_falls_within_its_step():
    old = {"complaint": ArmCounts(2000, 20.0)}
    with ServedRelease("sqlite://", {"complaint": 0.2}, old=old, salt=b"s") as release:
        release.assign([f"a {each}" for each in range(60)])
        release.halt("a rumour", actor="ann")
        step = release.history().steps[0]
        (point,) = watched(release)["path"]
        assert step.share == step.calibration.share > 0
        assert step.why.endswith("; the old system alone since alarm 1")
        assert point["falls"]
        release.resume("false", actor="bob")
        release.advance()
        assert [each["falls"] for each in watched(release)["path"]] == [True, False]
