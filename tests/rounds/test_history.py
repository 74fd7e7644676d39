"""The records of a run."""

from tether.rounds import Alarm, History, Limit, RoundRecord

ROUND = RoundRecord(
    number=1, policy=None, begun="", calibration=None, note="", rows=10, safe_rows=10,
    calibration_rows=5, observed=6, withdrawn=1, losses={}, reward=None,
)  # fmt: skip


def make_history(alarms):
    return History(
        store="sqlite://", created="", safe="safe",
        limits={"loss": Limit(0.1, 1.0, 0.15)}, family="clip", test_weight="empirical",
        against="safe", missing="wait", calibration_share=0.5,
        rounds=(ROUND,), alarms=alarms, safe_losses={}, safe_reward=None,
    )  # fmt: skip


def test_rows_are_pending_until_they_are_observed_or_withdrawn():
    assert ROUND.pending == 3


def test_beta_is_zero_without_a_calibration():
    assert ROUND.beta == 0


def test_the_alarm_is_the_one_that_was_not_cleared():
    cleared = Alarm(1, 1, "risk", "", raised="then", cleared="later", reason="a drill")
    standing = Alarm(2, 1, "risk", "", raised="now")
    assert make_history(()).alarm is None
    assert make_history((cleared,)).alarm is None
    assert make_history((cleared, standing)).alarm is standing
