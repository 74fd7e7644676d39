"""A release through its public class, on both databases."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from tests.runs.audit import audit
from tests.runs.test_outages import Clock
from tether.runs import Guardrail, Release, Run, plan_release, relative
from tether.runs.errors import FinalLossError, StoreError

OLD = {"error": 0.02}


def open_release(store="sqlite://", **more):
    return Release(store, {"error": 0.1}, **({"old": OLD} | more))


def serve(release, keys, losses=None):
    systems = release.assign(keys)
    values = np.zeros(len(keys)) if losses is None else losses
    release.observe(keys, {"error": values}, system=systems)
    return systems


def test_a_good_system_reaches_everybody(store_url, tmp_path):
    rng = np.random.default_rng(3)
    with open_release(store_url, step=300) as release:
        shares = []
        for _ in range(8):
            keys = [f"u{k}" for k in rng.integers(0, 1000, 450)]
            serve(release, keys, None)
            shares.append(release.share)
        assert shares[-1] == 1.0
        assert max(np.divide(shares[1:], shares[:-1])) <= 3.3
        history = release.history()
        assert [unit.number for unit in history.units] == list(range(1, len(history.units) + 1))
        assert history.units[0].level == pytest.approx(0.08 / 0.98)
        assert all(unit.promises == {"error": 0.1} for unit in history.units)
        assert release.verify() == []
        release.export(tmp_path / "export")
    assert audit(tmp_path / "export").wrong == []
    for opened in (Release(store_url), Run.open(store_url)):  # without its settings
        with opened:
            assert opened.history().units == history.units
    with pytest.raises(ValueError, match="growth"):
        open_release(store_url, step=300, growth=2.0)
    with pytest.raises(StoreError, match="no"):
        Run.open("/nonexistent/run.db")


def test_the_guardrail_with_the_smallest_share_decides():
    masked = np.ma.array([0.0] * 9, mask=[1] + [0] * 8)
    with pytest.raises(ValueError, match=r"old\['error'\]\[0\] is missing"):
        Release("sqlite://", {"error": 0.1}, old={"error": masked})
    guardrails = {"error": 0.1, "harm": 0.1}
    with Release("sqlite://", guardrails, old={"error": 0.02, "harm": 0.09}) as release:
        assert release.share == pytest.approx(0.01 / 0.91)
    for failing in (0.2, [1.0] * 20 + [0.0] * 80):
        with Release("sqlite://", guardrails, old={"error": failing, "harm": 0.09}) as release:
            assert release.share == 0
            assert "old system" in release.step.decision["reason"]


def test_a_key_stays_with_the_new_system_while_the_share_grows():
    with open_release() as release:
        keys, new = [f"u{k}" for k in range(500)], set()
        for _ in range(4):
            systems = serve(release, keys)
            now = {key for key, system in zip(keys, systems, strict=True) if system == "new"}
            assert new <= now
            assert systems == release.assign(keys)
            new = now
            release.advance()
        units = release.history().units[:4]
        assert [unit.rows["old"] + unit.rows["new"] for unit in units] == [500] * 4


def test_a_release_that_is_not_sticky_draws_anew_in_every_step():
    with open_release(sticky=False) as release:
        keys, drawn = [f"u{k}" for k in range(400)], []
        for _ in range(3):
            drawn.append(tuple(serve(release, keys)))
            release.advance()
        assert any(a == "new" and b == "old" for a, b in zip(drawn[0], drawn[1], strict=True))
        assert release.verify() == []


def test_without_an_old_log_the_first_step_collects_it():
    with open_release(old=None, step=300) as release:
        assert release.share == 0.0
        assert set(serve(release, [f"a{k}" for k in range(300)])) == {"old"}
        assert release.share == pytest.approx((0.1 - 1 / 301) / (1 - 1 / 301), rel=1e-6)
        assert release.verify() == []


def test_a_ratio_alone_begins_with_what_the_old_system_was_seen_to_lose():
    with Release("sqlite://", {"error": relative(ratio=0.5)}, step=100) as release:
        assert set(serve(release, [f"a{k}" for k in range(100)], np.arange(100) < 20)) == {"old"}
        assert release.share == pytest.approx(0.5 * (101 / 81 - 1))
        serve(release, [f"b{k}" for k in range(100)], np.arange(100) < 20)
        assert release.share > 0.1
        release.tighten("closer to the old one", error=0.3)
        assert release.settings.limits["error"].ratio == 0.3
        assert release.verify() == []
    rng, limit = np.random.default_rng(0), relative(ratio=0.5)  # a share of 0 limits no growth
    assert plan_release({"error": limit}, {"error": 0.2}, 1000, rng, runs=8).steps == 4


def test_a_step_waits_a_while_for_the_outcomes_of_its_rows():
    """Not every outcome is written when the last key of a step comes: that is no loss."""
    with open_release(step=300) as release:
        keys = [f"a{k}" for k in range(300)]
        systems = release.assign(keys)
        new = [key for key, system in zip(keys, systems, strict=True) if system == "new"]
        release.observe(new[3:], {"error": np.zeros(len(new) - 3)})
        release.assign([f"b{k}" for k in range(10)])
        assert release.step.number == 1
        release.observe(new[:3], {"error": np.zeros(3)})
        assert release.step.number == 2
        release.assign([f"c{k}" for k in range(331)])  # none of these is ever known
        assert release.step.number == 3
        assert release.share < 0.1
        assert release.verify() == []


def test_steps_by_time_and_their_outcome_deadline(monkeypatch):
    clock = Clock(monkeypatch)
    given = {"step": timedelta(hours=1), "outcome_deadline": timedelta(minutes=30)}
    with open_release(**given, stop=None) as release:
        keys = [f"a{k}" for k in range(400)]
        clock.seconds += 3_500
        systems = release.assign(keys)
        clock.seconds += 200
        assert release.step.number == 1  # it waits for outcomes
        release.observe(keys, {"error": np.zeros(400)}, system=systems)
        assert release.step.number == 2
        release.assign([f"b{k}" for k in range(400)])
        clock.seconds += 3_600 + 1_900
        assert release.step.number == 3  # it has waited long enough
        assert release.verify() == []


def test_a_step_by_time_with_hardly_any_keys_goes_on(monkeypatch):
    clock = Clock(monkeypatch)
    with open_release(step=timedelta(hours=1)) as release:
        serve(release, [f"a{k}" for k in range(400)])
        clock.seconds += 3_700
        share = release.share
        serve(release, ["night"])
        clock.seconds += 3_700
        assert (release.step.number, release.share) == (2, share)
        serve(release, [f"b{k}" for k in range(300)])
        assert release.step.number == 3
        assert release.verify() == []


def test_losses_are_final_and_belong_to_the_last_row_of_a_key_or_to_a_step():
    with open_release() as release:
        assert release.assign(["ann", "bob", "ann"])[0] in ("old", "new")
        assert release.observe(["ann", "bob"], {"error": [0.0, np.nan]}) == 1
        assert release.observe("ann", {"error": 0.0}) == 0
        with pytest.raises(FinalLossError, match="final"):
            release.observe("ann", {"error": 1.0})
        assert release.observe(["ann", "bob"], {"error": [1.0, 1.0]}, keep_first=True) == 1
        release.advance()
        release.assign("ann")
        assert release.observe("ann", {"error": 1.0}) == 1
        with pytest.raises(FinalLossError):
            release.observe("ann", {"error": 1.0}, step=1)
        with pytest.raises(ValueError, match="step 2"):
            release.observe("bob", {"error": 1.0}, step=2)
        with pytest.raises(FinalLossError, match="two values"):
            release.observe(["bob", "bob"], {"error": [0.0, 1.0]})
        assert release.observe([], {"error": []}) == 0
        assert release.assign([]) == []


def test_each_row_of_a_call_may_have_another_loss_of_a_key(sqlite_url):
    guardrails, nan = {"error": 0.5, "delay": 0.5}, np.nan
    with Release(sqlite_url, guardrails, old=dict.fromkeys(guardrails, 0.1)) as release:
        release.assign(["ann", "bob"])
        long = {"error": [nan, 0.25, 0.75], "delay": [0.5, nan, nan]}
        assert release.observe(["ann", "ann", "bob"], long) == 3
        assert release.observe(["ann", "ann"], {"error": [nan, 0.25]}) == 0
        with pytest.raises(FinalLossError, match="two values"):
            release.observe(["bob", "bob", "bob"], {"delay": [nan, 0.0, 1.0]})
        given = {"delay": [nan, 0.0, 1.0]}
        assert release.observe(["bob", "bob", "bob"], given, keep_first=True) == 1
        assert release._log.state.loss("error").tolist() == [0.25, 0.75]
        assert release._log.state.loss("delay").tolist() == [0.5, 0.0]


def test_settings_can_be_tightened_and_not_loosened(sqlite_url):
    with open_release(sqlite_url) as release:
        serve(release, [f"a{k}" for k in range(400)])
        release.advance()
        serve(release, [f"b{k}" for k in range(400)])
        for looser in ({"error": 0.2}, {"growth": 5.0}, {"outcome_deadline": -1}, {"stop": 0.01}):
            with pytest.raises(ValueError, match=next(iter(looser))):
                release.tighten("no", **looser)
        last = release.step
        with pytest.raises(ValueError, match="tighter"):
            release.tighten("no", growth=release.settings.growth)
        release.tighten("fewer errors", actor="ann", error=0.03, growth=1.5)
        assert release.step.number == 3  # at once, and without the rows that were seen so far
        assert release.step.decision["used"] == last.decision["used"]
        assert 0 < release.share <= last.level
        assert release.settings.limits["error"].tolerated == 0.03
        assert release.verify() == []
    with open_release(sqlite_url) as release:  # as it was created
        assert release.settings.growth == 1.5
        assert release.history().acts[-1].act == "tighten"


def test_confidence_asks_for_more_rows_than_an_average():
    keys = [[f"{name}{k}" for k in range(300)] for name in "abc"]
    shares = {}
    for confidence in (None, 0.9):
        with open_release(confidence=confidence, growth=1000.0) as release:
            for each in keys:
                serve(release, each)
                release.advance()
            shares[confidence] = [unit.level for unit in release.history().units]
            assert release.verify() == []
    assert shares[None][1] > shares[0.9][1] > 0.1
    assert shares[0.9][-1] > 0.9


def test_halt_and_resume_begin_the_ramp_anew(store_url):
    with open_release(store_url) as release:
        first = release.share
        serve(release, [f"a{k}" for k in range(400)])
        release.advance()
        assert release.share > first
        release.halt("a complaint", actor="ann")
        assert release.advance().level == 0
        with Run.open(store_url) as other:
            assert other.history().alarm.message == "a complaint"
            other.resume("it was nothing", actor="bob")
            with pytest.raises(ValueError, match="resume"):
                other.resume("again", actor="bob")
        assert release.share == release.history().units[-1].level == first
        acts = [(act.act, act.actor) for act in release.history().acts]
        assert acts == [("halt", "ann"), ("resume", "bob")]
        assert release.verify() == []


def test_a_router_is_part_of_the_new_system():
    with open_release() as release:
        keys = [f"u{k}" for k in range(1000)]
        routed = release.routes(keys, 0.3)
        assert routed == release.routes(keys, 0.3)
        assert 0.2 < np.mean(routed) < 0.4
        assert release.routes("u1", 1.0) is True
        new = np.array(release.assign(keys)) == "new"
        assert 0.1 < np.mean(np.array(routed)[new]) < 0.55  # independent of the assignment


def test_keys_of_every_kind_are_kept_apart():
    with open_release() as release:
        keys = ["1", "é", b"\xff\x00", b"\xff", "a\0", "a", 17]
        release.assign(keys)
        assert release.assign(b"17") == release.assign(17)
        history = release.history()
        assert sum(history.units[0].rows.values()) == len(keys)
        assert set(history.to_frame()) >= {"unit", "level", "arm", "loss", "mean"}
        assert history.to_dict()["settings"]["kind"] == "release"


WRONG = [
    ({"guardrails": {}}, TypeError, "guardrails"),
    ({"old": {"other": 0.1}}, ValueError, "old"),
    ({"old": {"error": [0.0, 3.0]}}, ValueError, "old"),
    ({"step": 0}, ValueError, "step"),
    ({"confidence": 1.5}, ValueError, "confidence"),
    ({"guardrails": {"error": relative(0.1)}, "old": None, "confidence": 0.9}, ValueError, "conf"),
    ({"outcome_deadline": 5}, TypeError, "outcome_deadline"),
    ({"store": "mysql://host/name"}, ValueError, "store"),
    ({"store": "/nonexistent/folder/run.db"}, StoreError, "folder"),
]


@pytest.mark.parametrize(("given", "error", "name"), WRONG)
def test_wrong_arguments_are_refused(given, error, name):
    given = {"store": "sqlite://", "guardrails": {"error": 0.1}, "old": OLD} | given
    with pytest.raises(error, match=name):
        Release(**given)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda r: r.assign([1.5]), TypeError, "keys"),
        (lambda r: r.observe("ann", {"error": 2.0}), ValueError, "error"),
        (lambda r: r.observe("ann", {"other": 0.0}), ValueError, "other"),
        (lambda r: r.observe("ann", {"error": 0.0}, system="both"), ValueError, "system"),
        (lambda r: r.observe("eve", {"error": 0.0}), ValueError, "eve"),
        (lambda r: r.routes("ann", 1.5), ValueError, "probabilities"),
    ],
)
def test_wrong_calls_are_refused(call, error, name):
    with open_release() as release:
        release.assign("ann")
        with pytest.raises(error, match=name):
            call(release)


def test_a_plan_says_what_a_release_takes():
    rng = np.random.default_rng(0)
    given = {"error": 0.05, "delay": Guardrail(0.3, bound=3.0), "refund": relative(0.05)}
    plan = plan_release(given, {"error": 0.01, "delay": 0.1, "refund": 0.1}, 500, rng, runs=8)
    for name in given:
        good, *bad = (each for each in plan.versions if each.guardrail == name)
        assert 1 < good.steps <= plan.steps < 40
        assert [each.stopped for each in bad] == [1.0] * 3
        assert [each.lost for each in bad] == sorted((each.lost for each in bad), reverse=True)
    assert "full share after" in str(plan)
