"""A first step that collects the old system's rows does not end while it has too few of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

import tether
from tether.release import Guardrail
from tether.release.least_rows import least_old_rows
from tether.release.old_rows_needed import old_fails_probability, usual_first_rows
from tether.rounds.releases import step
from tether.rounds.releases.served_release import ServedRelease
from tether.rounds.releases.verify_steps import find_wrong_steps
from tether.rounds.store.queries import read_settings

GUARDRAILS = {"harm": 0.1, "delay": (0.4, 2.0)}
LIMITS = {"harm": Guardrail(0.1), "delay": Guardrail(0.4, bound=2.0)}
LEAST, ENOUGH = least_old_rows(LIMITS), usual_first_rows(LIMITS)
HOUR = timedelta(hours=1)


@pytest.fixture
def pass_time(monkeypatch):
    """A clock that is put forward."""
    now = [step.moment()]

    def forward(by):
        now[0] += by

    for module in ("step", "beginning"):
        monkeypatch.setattr(f"tether.rounds.releases.{module}.moment", lambda: now[0])
    return forward


def users(first, count):
    return [f"user {k}" for k in range(first, first + count)]


def play(release, keys):
    systems = release.assign(keys)
    losses = {"harm": [0.0] * len(keys), "delay": [0.0] * len(keys)}
    release.observe(keys, losses, system=systems)
    return systems


def test_a_first_step_that_ends_by_time_waits_for_enough_keys(pass_time):
    assert (LEAST, ENOUGH) == (10, 100)
    release = ServedRelease("sqlite://", GUARDRAILS, step_duration=HOUR)
    assert release.history().stalled == ""
    assert "collecting rows of the old system until 20" in release.state().told(release.settings)
    pass_time(3 * HOUR)
    for first, count in ((0, 0), (0, ENOUGH - 1)):
        play(release, users(first, count))
        assert not release.begin_due_step()
        said = f"step 1 goes on: {count} of at least {ENOUGH} keys of the old system have come"
        assert release.history().stalled.startswith(said)
        assert release.history().warnings == (release.history().stalled,)
        state = release.state()
        assert state.told(release.settings) == f"{said}; the new one has no keys"
        assert state.ends(release.settings) is None
    play(release, users(ENOUGH, 1))
    assert release.begin_due_step()
    assert release.share > 0
    assert release.history().stalled == ""
    pass_time(HOUR)
    assert release.begin_due_step()  # later steps end by time, with no key at all
    with release._store.reading() as connection:
        assert list(find_wrong_steps(connection, read_settings(connection))) == []


def test_assigning_keys_does_not_end_it_either(pass_time):
    with tether.Release("sqlite://", GUARDRAILS, step_duration=HOUR) as release:
        pass_time(2 * HOUR)
        play(release, users(0, ENOUGH))
        assert release.step.number == 1
        release.assign("one more")
        assert release.step.number == 2


def test_a_first_step_that_ended_without_its_keys_is_found(pass_time, monkeypatch):
    with tether.Release("sqlite://", GUARDRAILS, step_duration=HOUR) as release:
        with monkeypatch.context() as patched:
            patched.setattr(step.Step, "rows_lacking", lambda *_: 0)
            pass_time(2 * HOUR)
            release.assign("ann")
            assert release.step.number == 2
        with release._store.reading() as connection:
            (found,) = find_wrong_steps(connection, read_settings(connection))
        assert found == "step 1 ended after 0 keys of the old system, and needs at least 100"
        assert release.history().warnings == (
            "there are no rows of the old system: only those of the first step count, and it had "
            "none. Begin another release, in another store",
        )


@pytest.mark.parametrize(
    "given", [{"old": {"harm": [0.0] * 99, "delay": [0.0] * 99}}, {"confidence": 0.9}]
)
def test_other_first_steps_end_by_time_alone(pass_time, given):
    with tether.Release("sqlite://", GUARDRAILS, step_duration=HOUR, **given) as release:
        pass_time(2 * HOUR)
        release.assign("ann")
        assert release.step.number == 2


def test_with_a_confidence_a_resumption_ends_the_first_step_too():
    """Its rows are not the only ones of the old system."""
    with tether.Release("sqlite://", GUARDRAILS, confidence=0.9, keys_per_step=50) as release:
        play(release, users(0, 5))
        release.halt("a test", actor="ann")
        release.resume("it was nothing", actor="ann")
        release.assign("ann")
        assert release.step.number == 2


def test_a_step_with_too_few_keys_is_refused(tmp_path):
    store = tmp_path / "release.db"
    with pytest.raises(
        ValueError, match=r"keys_per_step must be at least 10 for these guard.*got 9"
    ):
        tether.Release(store, GUARDRAILS, keys_per_step=LEAST - 1)
    with tether.Release(store, GUARDRAILS, keys_per_step=LEAST) as release:
        play(release, users(0, LEAST))
        release.assign("one more")
        assert release.share > 0
    for given in ({"old": {"harm": [0.0], "delay": [0.0]}}, {"confidence": 0.9}):
        tether.Release("sqlite://", GUARDRAILS, keys_per_step=1, **given).close()


@pytest.mark.parametrize("existing", [False, True])
def test_a_refused_release_leaves_no_store_behind(tmp_path, existing):
    store = tmp_path / "release.db"
    log = {"harm": [0.0] * 99, "delay": [0.0] * 99}
    if existing:
        tether.Release(store, GUARDRAILS, keys_per_step=LEAST - 1, old=log, salt=b"x").close()
        # the log is in the store, and need not be given again
        tether.Release(store, GUARDRAILS, keys_per_step=LEAST - 1).close()
        return
    with pytest.raises(ValueError, match="keys_per_step must be at least 10"):
        ServedRelease(store, GUARDRAILS, keys_per_step=LEAST - 1, spool=tmp_path / "spool")
    assert list(tmp_path.iterdir()) == []


def test_a_first_step_that_is_likely_to_end_the_release_says_so(tmp_path):
    """How often, for an old system with half of the tolerated risk, and how many keys help."""
    guardrails = {"complaint": 0.02, "error": (0.2, 2.0)}
    with pytest.warns(tether.PromiseWarning) as warned:
        tether.Release(tmp_path / "a.db", guardrails, promise=True, keys_per_step=1_000).close()
    (told,) = {str(each.message) for each in warned}
    assert told.startswith("keys_per_step = 1,000 may be too few for the first step")
    assert (
        "risk for 'complaint' is 0.01, half of what is tolerated, it does not pass with a "
        "probability of 13%"
    ) in told
    assert "1,600 keys pass in 95 % of releases" in told
    assert old_fails_probability(Guardrail(promise=0.02), 1_600, 0.01) <= 0.05


def test_a_service_says_so_in_its_log(caplog):
    ServedRelease("sqlite://", {"complaint": 0.02}, promise=True, keys_per_step=1_000).close()
    assert "keys_per_step = 1,000 may be too few for the first step" in caplog.text


@pytest.mark.parametrize(
    "given",
    [
        {"keys_per_step": 1_600},
        {"keys_per_step": 200, "old": {"complaint": [0.0] * 2_000}},
        {"step_duration": HOUR},
    ],
)
def test_nothing_is_said_of_a_first_step_that_is_long_enough(tmp_path, given, recwarn):
    tether.Release(tmp_path / "a.db", {"complaint": 0.02}, promise=True, **given).close()
    tether.Release(tmp_path / "a.db").close()
    assert [str(each.message) for each in recwarn] == []
