"""Outcomes that never arrive hold a release back, and everything that shows it says so."""

import pytest

import tether
from tests.cli.command_line import one_line, run
from tests.service.running import running, settings
from tether.release import ArmCounts, Guardrail, ramp_share
from tether.rounds.releases.missing_outcomes import missing_outcomes

OLD = {"complaint": [0.0] * 1980 + [1.0] * 20}


def users(day):
    return [f"user {day}/{k}" for k in range(1000)]


@pytest.fixture
def path(tmp_path):
    """A release whose outcomes of the second step were never reported."""
    store = tmp_path / "release.db"
    with tether.Release(store, {"complaint": 0.02}, old=OLD, salt=b"missing") as release:
        systems = release.assign(users(1))
        release.observe(users(1), [0.0] * 1000, system=systems)
        release.advance()
        release.assign(users(2))
        release.advance()
    return store


def test_a_step_says_how_many_outcomes_were_missing(path):
    with tether.Release(path) as release:
        history = release.history()
    rows = history.steps[1].new.rows
    assert history.steps[2].why == (
        f"{rows} rows of step 2, {rows} of them without an outcome (counted as 1); limited by "
        f"'complaint'"
    )
    assert "without" not in history.steps[1].why
    assert f"{rows} of the {rows} rows of the new system have no outcome" in history.missing
    assert history.missing.endswith(
        "it would be 100.000%. When they arrive this share is not computed again: it stays until "
        "enough new keys have come, or until you halt and resume the release, which begins another "
        "ramp. If outcomes are late in most steps, begin a release with wait=1, in another store: "
        "a step's rows are then used one step later"
    )
    assert "have no outcome" in " ".join(str(history).split())


def test_the_status_and_the_report_say_so(path, tmp_path):
    shown = one_line(run("status", str(path)))
    assert "of them without an outcome (counted as 1)" in shown
    assert "Missing outcomes: when the share was computed" in shown
    page = tmp_path / "page.html"
    assert run("report", str(path), "-o", str(page)).exit_code == 0
    assert "of them without an outcome (counted as 1)" in page.read_text()


def test_nothing_is_said_where_nothing_is_missing_or_it_makes_no_difference():
    guardrails = {"loss": Guardrail(0.02)}

    def share(old, new):
        return ramp_share(guardrails, old={"loss": old}, new={"loss": new})

    assert missing_outcomes(share(ArmCounts(2000, 20.0), ArmCounts(91, 0.0))) == ""
    assert missing_outcomes(share(ArmCounts(2000, 20.0), ArmCounts(10_000, 0.0, 1))) == ""


def test_missing_outcomes_of_the_old_system_are_named_too():
    old = ArmCounts(1000, 5.0, 30)
    share = ramp_share(
        {"loss": Guardrail(0.02)}, old={"loss": old}, new={"loss": ArmCounts(0, 0.0)}
    )
    assert share.share == 0
    assert "with 1,000 rows, 30 of them without an outcome (counted as 1)" in share.reason
    assert "30 of the 1,000 rows of the old system have no outcome" in missing_outcomes(share)
    assert "wait" not in missing_outcomes(share)  # only rows of the new system wait
    some = ArmCounts(1000, 1.0, 5)
    share = ramp_share(
        {"loss": Guardrail(0.02)}, old={"loss": some}, new={"loss": ArmCounts(0, 0.0)}
    )
    assert share.why("step 1", "no rows").endswith(
        "; 1,000 rows of the old, 5 of them without an outcome (counted as 1)"
    )


def test_a_release_that_waits_already_is_told_to_wait_longer():
    share = ramp_share(
        {"loss": Guardrail(0.02)},
        old={"loss": ArmCounts(2000, 20.0)},
        new={"loss": ArmCounts(90, 0.0, 9)},
    )
    assert "with wait=3, in another store: a step's rows are then used 3 steps later" in (
        missing_outcomes(share, wait=2)
    )


def test_the_service_names_wait_too(path):
    with running(settings(path, release={"guardrails": None, "old": None, "salt": None})) as client:
        (warning,) = client.get("/v1/status").json()["warnings"]
        note = client.get("/v1/dashboard").json()["parts"]["state"]["note"]
    assert "begin a release with wait=1" in warning
    assert "begin a release with wait=1" in note


def test_with_a_confidence_they_are_counted_among_all_rows():
    share = ramp_share(
        {"loss": Guardrail(0.2)},
        old={"loss": ArmCounts(1000, 5.0)},
        new={"loss": ArmCounts(40, 0.0, 7)},
        confidence=0.9,
    )
    assert share.why("step 1", "") == (
        "all rows so far, 40 of the new, 7 of them without an outcome (counted as 1); limited by "
        "'loss'"
    )
