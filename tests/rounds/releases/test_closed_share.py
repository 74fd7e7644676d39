"""What to do about a share of 0."""

import pytest

import tether
from tether.release import ArmCounts, Guardrail, ramp_share
from tether.rounds.releases.closed_share import closed_share_advice

NONE = ArmCounts(0, 0.0)


@pytest.mark.parametrize(
    ("guardrail", "old", "confidence", "advice"),
    [
        (Guardrail(promise=0.02), ArmCounts(11, 0.0), None, "more rows of the old system are"),
        (Guardrail(0.02), ArmCounts(11, 0.0), None, "in another store"),
        (
            Guardrail(promise=0.01),
            ArmCounts(1_000, 6.0),
            None,
            "began with. If its risk is 0.006, 5,000 rows pass with a probability of 95 %",
        ),
        (Guardrail(promise=0.02), ArmCounts(150, 0.0), None, "is 0.01, 1,600 rows pass"),
        (Guardrail(0.02), ArmCounts(11, 0.0), 0.9, "those of this release count too"),
        (Guardrail(0.02), ArmCounts(1_000, 300.0), None, "0.3 itself, so that more rows alone"),
        (Guardrail(0.02), ArmCounts(1_000, 980.0), None, "0.98, of at most 1: are losses inverted"),
        (Guardrail(0.02, bound=2.0), ArmCounts(1_000, 980.0), None, "0.98 itself"),
        (Guardrail(0.02), ArmCounts(100, 0.0, 100), None, "more rows of the old system are"),
    ],
)
def test_the_advice_names_what_would_help(guardrail, old, confidence, advice):
    made = ramp_share({"x": guardrail}, old={"x": old}, new={"x": NONE}, confidence=confidence)
    assert made.share == 0
    assert advice in closed_share_advice(made)


def test_outcomes_of_the_first_step_that_are_late_count_when_they_arrive():
    """The same store goes on, so nobody is told to begin in another one."""
    keys = [f"user {k}" for k in range(200)]
    with tether.Release("sqlite://", {"harm": 0.05}) as release:
        release.assign(keys)
        release.observe(keys[:150], [0.0] * 150)
        release.advance()
        assert release.share == 0
        assert release.history().closed == (
            "50 of the 200 rows of the old system have no outcome yet. Report them to this "
            "release: the next step counts those that have arrived by then"
        )
        release.observe(keys[150:], [0.0] * 50)
        release.advance()
        assert release.share > 0
        assert release.history().closed == ""
    unknown = {"harm": [0.0] * 150 + [float("nan")] * 50}
    with pytest.warns(tether.AssumptionWarning, match="50 of them without an outcome"):
        made = tether.Release("sqlite://", {"harm": 0.05}, old=unknown)
    with made as release:
        assert "in another store" in release.history().closed  # a log gets no outcomes


def test_outcomes_that_would_not_help_are_not_waited_for():
    old = {"x": ArmCounts(100, 1.9, 1)}  # 0 for the last one would not be enough
    made = ramp_share({"x": Guardrail(0.02)}, old=old, new={"x": NONE})
    advice = closed_share_advice(made, outcomes_may_come=True)
    assert advice.startswith("more rows of the old system are needed")


def test_there_is_none_where_the_old_system_passes_or_nothing_is_known_of_it():
    for old in (NONE, ArmCounts(1_000, 5.0)):
        made = ramp_share({"x": Guardrail(0.02)}, old={"x": old}, new={"x": NONE})
        assert closed_share_advice(made) == ""
