"""The stop and the finish: how often they err, how fast they are, and what they prevent."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction

import numpy as np
import pytest

from tests.runs.test_outages import Clock
from tests.scale import scaled
from tether.runs import Release, relative
from tether.runs.watch import log_factors, log_wealth, relative_log_factors

LIMIT = math.log(1 / 0.05)


def ever_shown(steps, limit):
    """Whether bets on the rows of steps ever reach 20, judged at every failing row."""
    sums = []
    for losses in steps:
        for place in np.flatnonzero(losses).tolist():
            now = log_factors(losses[: place + 1], limit)
            if log_wealth(np.array([*sums, now])) >= LIMIT:
                return True
        sums.append(log_factors(losses, limit))
    return False


def draw(rng, risk, rows=150, steps=4):
    return [(rng.random(rows) < risk).astype(float) for _ in range(steps)]


def test_two_failures_never_stop_a_release_however_rare_they_should_be():
    with Release("sqlite://", {"error": 0.005}, old={"error": 0.0}) as release:
        keys = [f"u{k}" for k in range(2_000)]
        systems = release.assign(keys)
        new = [key for key, system in zip(keys, systems, strict=True) if system == "new"]
        release.observe(new[:2], {"error": [1.0, 1.0]})
        assert release.history().alarm is None
        release.observe(new[2:3], {"error": [1.0]})
        assert release.history().alarm.monitor == "stop"


def test_a_release_is_stopped_exactly_when_the_bets_on_all_guardrails_reach_their_limit():
    limits, rng, late = {"a": 0.3, "b": 0.4}, np.random.default_rng(5), []
    for _ in range(5):
        seen, wealth = [], -math.inf
        with Release("sqlite://", limits, old=dict.fromkeys(limits, 0.0)) as release:
            for key in range(1000):
                is_new = release.assign(key) == "new"
                losses = {name: float(is_new and rng.random() < 0.6) for name in limits}
                release.observe(key, losses)
                if is_new:
                    seen.append(list(losses.values()))
                    bets = map(log_factors, np.transpose(seen), limits.values())
                    wealth = np.logaddexp.reduce([log_wealth(each[None]) for each in bets])
                    late.append(wealth >= LIMIT - 1)
                assert (release.share == 0) == (wealth >= LIMIT + math.log(2))
                if release.share == 0:
                    break
    assert np.mean(late) > 0.1


def test_a_version_at_the_limit_is_rarely_stopped_and_a_bad_one_always():
    rng = np.random.default_rng(0)
    repeats = scaled(150)
    wrongly = sum(ever_shown(draw(rng, 0.05), 0.05) for _ in range(repeats)) / repeats
    assert wrongly <= 0.05
    assert all(ever_shown(draw(rng, 0.2), 0.05) for _ in range(30))


def test_the_finish_is_shown_for_an_equal_version_and_hardly_ever_for_a_worse_one():
    rng = np.random.default_rng(3)
    delta, share, shown = 0.1, 0.5, {0.1: 0, 0.2: 0}
    for risk in shown:
        for _ in range(60):
            is_new = rng.random(600) < share
            losses = (rng.random(600) < np.where(is_new, risk, 0.1)).astype(float)
            sums = relative_log_factors(
                losses, is_new, np.full(600, share), delta, 0.0, finish=True
            )
            shown[risk] += log_wealth(sums[None]) >= LIMIT
    assert shown[0.1] > 30
    assert shown[0.2] <= 6


# ---- through the class --------------------------------------------------------------------------


def serve(release, rng, risks, name, count=500):
    """One round of traffic."""
    keys = [f"{name}-{k}" for k in range(count)]
    systems = np.array(release.assign(keys))
    is_new = systems == "new"
    losses = (rng.random(len(keys)) < np.where(is_new, risks[1], risks[0])).astype(float)
    release.observe(keys, dict.fromkeys(release.settings.limits, losses), system=systems)


def wealth(steps, limit):
    """By the definition: the mean over stakes and restarts, and cash."""
    total = Fraction(1, len(steps) + 1)
    for u in range(1, len(steps) + 1):
        losses = [each for step in steps[u - 1 :] for each in step]
        for stake in (Fraction(1, 2**k) for k in range(1, 9)):
            factors = (1 + stake * (loss / limit - 1) for loss in losses)
            total += math.prod(factors, start=Fraction(1, 8 * u * (u + 1)))
    return float(total)


@pytest.mark.parametrize("late", [0, 6])
def test_the_capital_is_that_of_the_definition_after_every_call(late):
    """Calls whose outcomes are all on their way do not count; before them, unknown is harmless."""
    rng, calls, waiting = np.random.default_rng(8), [], []
    with Release("sqlite://", {"error": 0.25}, old={"error": 0.02}, stop=1e-9) as release:
        for number in range(60):
            if number % 15 == 14:
                release.advance()
            keys = [f"{number}-{k}" for k in range(4)]
            systems = release.assign(keys)
            calls.append([release.step.number, False, [0] * systems.count("new")])
            waiting.append((keys, systems, calls[-1]))
            if len(waiting) > late:
                keys, systems, call = waiting.pop(0 if number % 3 else -1)
                call[1] = "new" in systems
                losses = [int(each == "new" and rng.random() < 0.4) for each in systems]
                call[2] = [x for x, each in zip(losses, systems, strict=True) if each == "new"]
                release.observe(keys, {"error": np.array(losses, float)}, system=systems)
            stop, last = release._log.state.stop, release.step.number
            counts = [k for k, each in enumerate(calls, 1) if each[1] or each[0] < last]
            steps = [
                [x for each in calls[: max(counts, default=0)] if each[0] == u for x in each[2]]
                for u in range(1, last + 1)
            ]
            expected = wealth(steps, Fraction(1, 4))
            assert math.exp(log_wealth(stop.sums[:last, 0])) == pytest.approx(expected, rel=1e-9)
        assert expected > 10
        assert release.verify() == []


def test_a_relative_guardrail_grows_to_everybody_by_evidence_alone():
    rng = np.random.default_rng(5)
    with Release("sqlite://", {"error": relative(0.05)}, step=1000) as release:
        assert release.share == 0.05
        largest = 0.0
        for call in range(40):
            serve(release, rng, (0.1, 0.05), call, 1000)
            unit = release.step
            largest = largest if unit.decision["finished"] else max(largest, unit.level)
            if unit.level == 1:
                break
        assert release.share == 1.0
        assert release.step.decision["finished"]
        assert largest <= 0.8
        release.tighten("less", error=0.01)  # that was not shown
        assert not release.step.decision["finished"]
        assert release.share < 1
        assert release.verify() == []


def test_a_relative_guardrail_stops_a_worse_version_though_both_drift():
    rng = np.random.default_rng(6)
    with Release("sqlite://", {"error": relative(0.02)}, step=1000) as release:
        for call in range(60):
            base = 0.05 + 0.03 * math.sin(call)
            serve(release, rng, (base, base + 0.2), call, 1000)
            if release.history().alarm:
                break
        assert release.history().alarm.monitor == "stop"
        assert release.verify() == []


def test_a_relative_guardrail_stops_what_harms_those_who_return_and_helps_the_others():
    rng, regulars = np.random.default_rng(7), np.arange(600)
    with Release("sqlite://", {"error": relative(0.02)}) as release:
        for step in range(30):
            keys = np.append(regulars, 1000 * step + np.arange(1000, 1100))
            is_new = np.array(release.assign(keys.tolist())) == "new"
            harmed = np.where(keys < 600, keys % 4 == 0, False)
            losses = (rng.random(len(keys)) < np.where(is_new, harmed, 0.1)) * 1.0
            who = np.where(is_new, "new", "old").tolist()
            release.observe(keys.tolist(), {"error": losses}, system=who)
            release.advance()
            assert not release.step.decision["finished"]
        assert release.history().alarm.monitor == "stop"
        assert release.verify() == []


@pytest.mark.parametrize("guardrail", [0.05, relative(0.05)])
def test_a_version_that_falls_silent_is_stopped_after_the_outcome_deadline(guardrail, monkeypatch):
    clock, rng = Clock(monkeypatch), np.random.default_rng(7)
    given = {"old": {"error": 0.01} if isinstance(guardrail, float) else None, "step": 500}
    given["outcome_deadline"] = timedelta(minutes=10)
    with Release("sqlite://", {"error": guardrail}, **given) as release:
        for call in range(2):
            serve(release, rng, (0.01, 0.01), call)
            clock.seconds += 60
        keys = [f"silent-{k}" for k in range(400)]
        systems = release.assign(keys)
        answered = [key for key, system in zip(keys, systems, strict=True) if system == "old"]
        release.observe(answered, {"error": np.zeros(len(answered))}, system="old")
        assert release.history().alarm is None
        clock.seconds += 700
        release.assign("one more")
        assert release.history().alarm.monitor == "stop"
        assert "without an outcome" in release.history().alarm.message
        assert release.verify() == []


def test_a_version_that_harms_few_regulars_within_the_limit_is_not_stopped():
    """It is known who fails: judged within a step, those who come first would halt it."""
    with Release("sqlite://", {"error": 0.3}, old={"error": 0.02}) as release:
        for _ in range(8):
            numbers = np.array(sorted(range(300), key=lambda k: k % 100 >= 15))
            keys = [f"r{k}" for k in numbers]
            systems = np.array(release.assign(keys))
            losses = ((numbers % 100 < 15) & (systems == "new")).astype(float)
            for part in np.array_split(np.arange(300), 6):
                chosen = [keys[k] for k in part.tolist()]
                release.observe(chosen, {"error": losses[part]}, system=systems[part])
            release.advance()
        assert release.history().alarm is None
        assert release.share == 1.0
