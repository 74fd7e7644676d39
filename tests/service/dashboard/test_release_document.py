"""What is shown of a release is what its history says."""

import json

import pytest

from tether.monitor import RiskMonitor
from tether.release import ArmCounts
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
