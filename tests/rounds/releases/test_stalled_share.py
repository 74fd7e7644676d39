"""Keys that come back add no rows, and a release says so where its share stays."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest

import tether
from tests.cli.command_line import one_line, run
from tests.rounds.releases.returning_keys import USERS, opened, play, wait_in_vain
from tether.release import is_new, positions
from tether.release.calibration_window import window_name
from tether.rounds.releases import step
from tether.rounds.releases.stalled_share import stalled_share
from tether.rounds.releases.verify_steps import find_wrong_steps
from tether.rounds.store.queries import read_settings

OLD = np.arange(2000) < 20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "release.db"


def test_a_fixed_population_gets_no_rows_after_a_resumption(path):
    with opened(path) as release:
        play(release, USERS)
        first = release.history().steps[0].share
        assert release.history().stalled == ""
        release.halt("a test", actor="ann")
        assert release.history().stalled == ""
        release.resume("it was nothing", actor="ann")
        for _ in range(3):
            play(release, USERS)
        assert release.share == first
        said = "since the ramp began again with step 3 no key was new to the new system"
        assert release.history().stalled.startswith(said)
        assert said in one_line(run("status", str(path)))
        play(release, [f"another {k}" for k in range(400)])
        assert release.share > first
        assert release.history().stalled == ""


def test_nothing_is_said_right_after_a_resumption(path):
    with opened(path) as release:
        play(release, USERS)
        release.halt("a test", actor="ann")
        release.resume("it was nothing", actor="ann")
        release.advance()
        assert release.history().steps[-1].ramp == 3
        assert release.history().stalled == ""


def test_nothing_is_said_while_hardly_any_row_is_expected(path, monkeypatch):
    """At a share of 1 % a few keys of the old system are no sign that nobody new comes."""
    with tether.Release(path, {"harm": 0.02}, old={"harm": OLD}, salt=b"a") as release:
        play(release, USERS)
        release.halt("a test", actor="ann")
        release.resume("it was nothing", actor="ann")
        release.advance()
        olds = iter(
            key for k in range(5_000) if not _is_new(release, key := f"another {k}", share=0.02)
        )
        share, begun = release.share, datetime.fromisoformat(release.step.begun)
        assert 0 < share < 0.02
        monkeypatch.setattr(step, "moment", lambda: begun)
        for _ in range(4):
            release.assign(next(olds))
            assert release.history().stalled == ""
        while release.history().steps[-1].old.rows * share / (1 - share) < 3:
            assert release.history().stalled == ""
            release.assign([next(olds) for _ in range(20)])
        assert release.history().stalled.startswith("since the ramp began again with step 3")


def _is_new(release, key, share):
    (position,) = positions([key], salt=release.settings.salt_bytes)
    return is_new(np.array([position]), share)[0]


def test_a_step_that_waits_in_vain_for_its_keys_says_so(path, monkeypatch):
    with opened(path, keys_per_step=len(USERS)) as release:
        wait_in_vain(release)
        before = datetime.fromisoformat(release.history().steps[-1].begun)
        monkeypatch.setattr(step, "moment", lambda: before + timedelta(days=1))
        assert release.history().stalled.startswith("since the ramp began again with step 3")


def test_a_step_with_few_new_keys_leaves_the_share_as_it_is(path):
    with opened(path) as release:
        play(release, USERS, loss=0.3)
        share, window = release.share, release.history().steps[0].new.rows
        assert release.history().stalled == ""
        play(release, [])
        assert 0 < release.share == share < 1
        assert release.history().stalled.startswith(
            f"in step 2, 0 keys were new to the new system, fewer than a quarter of the {window} "
        )
        few = window // 8 + 1
        news = iter(f"another {k}" for k in range(10_000))
        for step in (3, 4):  # each has fewer than a quarter, and both together have as many
            found = 0
            while found < few:
                key = next(news)
                system = release.assign(key)
                release.observe(key, 0.0, system=system)
                found += system == "new"
            release.advance()
            assert (release.history().stalled == "") == (step == 4)
        assert release.step.window_from == 2
        assert release.share > share
        assert verify(release) == []


def steps_with(*rows, window, share=0.5):
    """Steps with so many rows of the new system; the last one has its share from a window."""
    return [
        SimpleNamespace(
            number=number,
            ramp=1,
            share=share,
            calibration=SimpleNamespace(confidence=None),
            window_from=window[0],
            window=window[1],
            window_steps=window_name("step", *window),
            new=SimpleNamespace(rows=count),
            old=SimpleNamespace(rows=0),
        )
        for number, count in enumerate(rows, start=1)
    ]


def test_windows_of_several_steps_and_the_steps_since_are_counted_together():
    assert stalled_share(steps_with(9, 50, 50, 10, 10, 0, window=(2, 3)), wait=0) == (
        "in steps 4 to 5, 20 keys were new to the new system, fewer than a quarter of the 100 of "
        "steps 2 to 3: the share stays until more such keys have come, and keys that it has "
        "answered before are no rows"
    )
    assert stalled_share(steps_with(9, 50, 50, 10, 15, 0, window=(2, 3)), wait=0) == ""
    assert stalled_share(steps_with(9, 50, 50, 10, 90, 0, window=(2, 3)), wait=1).startswith(
        "in step 4, 10 keys were new"  # those of step 5 are used one step later
    )


def verify(release):
    with release._store.reading() as connection:
        return list(find_wrong_steps(connection, read_settings(connection)))


@pytest.mark.parametrize(("late", "steps"), [(0.05, 3), (0.1, 4)])
def test_a_good_release_recovers_from_one_late_step(path, late, steps):
    """A share that missing outcomes made small grows again as new keys come."""
    rng = np.random.default_rng(1)
    with tether.Release(path, {"harm": 0.02}, old={"harm": OLD}, salt=b"x") as release:
        days = 0

        def day(arrived):
            nonlocal days
            keys = [f"{days} {k}" for k in range(1000)]
            losses, systems = (rng.random(1000) < 0.005).astype(float), release.assign(keys)
            release.observe(keys[:arrived], losses[:arrived], system=systems[:arrived])
            days += 1
            release.advance()
            release.observe(keys, losses, system=systems)  # the others come later

        while release.share < 1:
            day(1000)
        day(int(1000 * (1 - late)))
        fallen = release.share
        assert fallen < 0.5
        for _ in range(steps):
            day(1000)
        assert release.share == 1
        assert verify(release) == []


def test_with_a_confidence_or_all_keys_nothing_stays(path):
    with opened(path, confidence=0.9) as release:
        play(release, USERS)
        play(release, [])
        assert release.history().stalled == ""
