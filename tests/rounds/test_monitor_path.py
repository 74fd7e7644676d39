"""The path of a monitor: what the stored monitor would have said on the way."""

import numpy as np
import pytest

from tether.monitor import RiskMonitor
from tether.release import ArmCounts
from tether.rounds import monitor_path
from tether.rounds.kept_sums import Sums
from tether.rounds.monitor_path import MAX_PATH_POINTS, RecordedMonitor
from tether.rounds.releases.served_release import ServedRelease

LOG = {"complaint": ArmCounts(10_000, 0.0), "delay": ArmCounts(10_000, 100.0)}


@pytest.mark.parametrize("count", [1, MAX_PATH_POINTS, 3_001])
@pytest.mark.parametrize("pieces", [1, 7])
def test_every_point_is_the_state_after_its_losses(count, pieces):
    losses = np.random.default_rng(1).binomial(1, 0.1, count).astype(float)
    recorded = RecordedMonitor(RiskMonitor(0.15))
    for piece in np.array_split(losses, pieces):
        recorded.update(piece)
    path = recorded.path
    assert len(path) <= MAX_PATH_POINTS
    assert path[-1].seen == count
    for status in path[:: max(1, len(path) // 10)]:
        expected = RiskMonitor(0.15).update(losses[: status.seen])
        assert status.mean == pytest.approx(expected.mean)
        assert (status.lower, status.upper) == pytest.approx((expected.lower, expected.upper))


def test_a_path_goes_on_after_its_alarm():
    recorded = RecordedMonitor(RiskMonitor(0.1))
    recorded.update(np.ones(1_000))
    last = recorded.path[-1]
    assert (last.seen, last.alarm_at) == (1_000, RiskMonitor(0.1).update(np.ones(50)).alarm_at)


def test_the_paths_end_where_the_stored_monitors_are(monkeypatch):
    """Also if the losses of the step are read in several pieces and looks."""
    monkeypatch.setattr(monitor_path, "LOSSES_PER_QUERY", 10)
    monkeypatch.setattr(monitor_path, "LOSSES_PER_LOOK", 15)
    guardrails = {"complaint": 0.2, "delay": (0.2, 2.0)}
    random = np.random.default_rng(2)
    with ServedRelease("sqlite://", guardrails, old=LOG, salt=b"s") as release:
        for number in range(2):
            keys = [f"{number} {each}" for each in range(80)]
            systems = release.assign(keys)
            losses = {name: number * random.random(80) / 5 for name in guardrails}
            release.observe(keys, losses, system=systems)
            if number == 0:
                release.advance()
        watch = release.watch()
        for _ in range(20):
            view = watch.look()
        with release._store.reading() as connection:
            query = "SELECT value FROM tether_kept WHERE name = 'round 2'"
            kept = Sums.from_json(connection.exec_driver_sql(query).scalar())
        for name in guardrails:
            found, expected = view.monitors[name][-1], kept.losses[name].risk.status
            assert found.to_dict() == pytest.approx(expected.to_dict())
            assert found.seen > 15


def test_a_share_of_zero_has_no_monitors():
    with ServedRelease("sqlite://", {"complaint": 0.02}) as release:
        assert release.watch().look().monitors == {}
