"""A calibration from exported rows finds what `begin` finds in memory."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as parquet
import pytest

import tether
from tests.rounds.small_runs import MovingGaussian
from tests.rounds.worlds import WORLDS, World, one_round
from tether.rounds import (
    CalibrationJob,
    Controller,
    LossesMissingError,
    export_calibration,
    job_files,
)
from tether.rounds import calibration_blocks as blocks


def run_of(world, store, rounds=3, rows=60, **options):
    """A run with past rounds, losses that are missing and actions that were withdrawn."""
    rng = np.random.default_rng(5)
    settings = {"alpha": 0.3, "alarm_risk": 0.95, "missing": "worst_case"} | options
    run = Controller(world.safe(), store=store, **settings)
    for number in range(1, 1 + rounds):
        one_round(run, world, number, rows, rng)
    taken = run.round.act(world.contexts(30, rng), rng)
    run.observe(taken.ids[:18], world.losses(taken.contexts, taken.actions)[:18])
    run.withdraw(taken.ids[18:24], "never carried out")
    return run


def check_same(found, begun):
    assert found.exists == begun.exists
    assert found.log_beta == pytest.approx(begun.log_beta, abs=1e-10)
    assert found.risk == pytest.approx(begun.risk, rel=1e-9)
    assert found.promise == pytest.approx(begun.promise, rel=1e-6)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "ROWS_PER_BLOCK", 97)


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("world", WORLDS[:3], ids=lambda world: world.name)
def test_beta_from_files_is_that_of_begin(world, family, tmp_path):
    with run_of(world, tmp_path / "run.db", family=family) as run:
        job = export_calibration(run, world.optimized(4), tmp_path / "job")
        assert len(job.counts) > 1, "several policies must have produced the rows"
        found = job.calibrate()
        begun = run.begin(world.optimized(4)).calibration
    assert np.isfinite(begun.log_beta)
    check_same(found, begun)


@pytest.mark.parametrize(
    "options",
    [
        {"against": "last"},
        {"missing": "exclude"},
        {"alpha": None, "promise": 0.35},
        {"test_weight": "analytic"},
        {"ratio_error": 1.1},
    ],
    ids=str,
)
def test_every_setting_of_the_run_is_followed(options, tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db", **options) as run:
        export_calibration(run, world.optimized(4), tmp_path / "job")
        found = CalibrationJob.read(tmp_path / "job").calibrate()
        begun = run.begin(world.optimized(4)).calibration
    check_same(found, begun)


def test_several_losses_keep_their_names(tmp_path):
    rng = np.random.default_rng(3)
    limits = {"alpha": {"log_safe": 0.2, "cost": 0.3}, "alarm_risk": {"log_safe": 0.9, "cost": 0.9}}
    with Controller(tether.Gaussian(0.0), store="sqlite://", **limits) as run:
        for shift in (0.3, 0.6):
            taken = run.begin(tether.Gaussian(shift)).act(200, rng)
            high = np.clip(taken.actions - 0.5, 0, 1)
            run.observe(taken.ids, {"log_safe": high, "cost": np.sqrt(high)})
        found = export_calibration(run, tether.Gaussian(0.9), tmp_path / "job").calibrate()
        begun = run.begin(tether.Gaussian(0.9)).calibration
    assert [each.name for each in found.constraints] == ["log_safe", "cost"]
    check_same(found, begun)


def test_rows_of_retired_rounds_are_left_out(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        run.retire(2, "its policy is lost")
        job = export_calibration(run, world.optimized(4), tmp_path / "job")
        found, begun = job.calibrate(), run.begin(world.optimized(4)).calibration
    assert set(job.counts) == {0, 3}
    assert job.retired == (2,)
    check_same(found, begun)


def test_the_files_hold_one_moment_of_a_run_that_goes_on(tmp_path, monkeypatch):
    world, rng = World("marginal"), np.random.default_rng(8)
    with run_of(world, tmp_path / "run.db") as run:
        quiet = export_calibration(run, world.optimized(4), tmp_path / "quiet")
        real = blocks.read_blocks

        def busy(*arguments):
            for rows in real(*arguments):
                yield rows
                pending = run.pending()
                run.observe(pending.ids[:1], [1.0])
                run.round.act(3, rng)

        monkeypatch.setattr("tether.rounds.calibration_logs.read_blocks", busy)
        monkeypatch.setattr("tether.rounds.calibration_plan.read_blocks", busy)
        job = export_calibration(run, world.optimized(4), tmp_path / "busy")
        assert len(run.history().rounds) == 3
    assert job.rows == quiet.rows
    assert job.digests == quiet.digests


def test_files_that_changed_are_refused(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db", rounds=2) as run:
        job = export_calibration(run, world.optimized(3), tmp_path / "job")
        with pytest.raises(FileExistsError, match="empty or new"):
            export_calibration(run, world.optimized(3), tmp_path / "job")
    path = tmp_path / "job" / "part-000000.parquet"
    table = parquet.read_table(path)
    lower = table.set_column(0, "loss_0", [np.zeros(len(table))])
    parquet.write_table(lower, path)
    with pytest.raises(ValueError, match="not the file that was exported"):
        job.calibrate()
    parquet.write_table(table, path)
    with pytest.raises(ValueError, match="rows, but"):
        replace(job, digests={}).calibrate(path)


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(tmp_path):
    world = World("in contexts")
    with (
        run_of(world, "sqlite://", rounds=1, missing="wait") as run,
        pytest.raises(LossesMissingError, match="requires 100%"),
    ):
        export_calibration(run, world.optimized(3), tmp_path / "job")
    with (
        run_of(world, "sqlite://", rounds=1) as run,
        pytest.raises(ValueError, match="cannot be listed"),
    ):
        export_calibration(run, world.optimized(3), tmp_path / "job")
    with Controller(tether.Gaussian(0.0), store="sqlite://", alpha=0.1) as run:
        with pytest.raises(ValueError, match="no losses"):
            export_calibration(run, tether.Gaussian(0.5), tmp_path / "job")
        run.halt("a reason")
        with pytest.raises(ValueError, match="alarm 1 stands"):
            export_calibration(run, tether.Gaussian(0.5), tmp_path / "job")
    with (
        run_of(World("marginal"), "sqlite://", confidence=0.9, alpha=0.6) as run,
        pytest.raises(ValueError, match="confidence needs to know"),
    ):
        export_calibration(run, tether.Gaussian(0.5), tmp_path / "job")
    with (
        run_of(World("marginal"), "sqlite://", rounds=1, family="budgeted_clip(4)") as run,
        pytest.raises(ValueError, match=r"family 'budgeted_clip.* without tables of"),
    ):
        export_calibration(run, tether.Gaussian(0.5), tmp_path / "job")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("writer", ["write_scores", "write_table"])
def test_an_export_that_fails_midway_leaves_nothing(tmp_path, monkeypatch, writer):
    world, real, calls = World("marginal"), getattr(job_files, writer), []

    def fail(*arguments):
        calls.append(real(*arguments))
        if len(calls) == 2:
            raise OSError("no room")
        return calls[-1]

    monkeypatch.setattr(f"tether.rounds.calibration_export.{writer}", fail)
    with run_of(world, "sqlite://", rounds=2) as run:
        with pytest.raises(OSError, match="no room"):
            export_calibration(run, world.optimized(3), tmp_path / "job")
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "job").mkdir()
        job = export_calibration(run, world.optimized(3), tmp_path / "job")  # it can be repeated
    assert [each.name for each in tmp_path.iterdir()] == ["job"]
    assert {each.name for each in (tmp_path / "job").iterdir()} == {
        *job.digests,
        "calibration.json",
    }


def test_past_policies_score_no_row_that_they_have_scored_before(tmp_path):
    scored = []

    class Counted(MovingGaussian):
        def log_prob(self, contexts, actions):
            scored.append((self.mean, len(actions)))
            return super().log_prob(contexts, actions)

    rng, past = np.random.default_rng(0), Counted(0.4)
    with Controller(tether.Gaussian(0.0), store="sqlite://", alpha=0.3, alarm_risk=0.9) as run:
        for policy in (None, past, tether.Gaussian(0.5)):
            taken = run.begin(policy).act(300, rng)
            run.observe(taken.ids, np.zeros(300))
        seen = run._scores.length("log_optimized", 2)
        scored.clear()
        job = export_calibration(run, tether.Gaussian(0.6), tmp_path / "job")
    at_rows = sum(count for _, count in scored if count < 200)  # draws are of 1,000 or more
    assert job.rows > seen > 200
    assert at_rows == job.rows - seen


def test_a_changed_row_of_the_store_is_found_before_anything_is_written(tmp_path):
    import sqlite3

    world = World("marginal")
    with run_of(world, tmp_path / "run.db", rounds=2) as run:
        with sqlite3.connect(tmp_path / "run.db") as changed:
            changed.execute("UPDATE tether_observations SET loss = 0 WHERE loss > 0")
        changed.close()
        with pytest.raises(tether.rounds.TamperedError):
            export_calibration(run, world.optimized(3), tmp_path / "job")
    assert [each.name for each in tmp_path.iterdir() if each.name[:3] != "run"] == []


def test_the_job_says_what_it_was_made_from(tmp_path):
    world = World("tables")
    with run_of(world, tmp_path / "run.db", rounds=2) as run:
        job = export_calibration(run, world.optimized(3), tmp_path / "job")
    said = json.loads((tmp_path / "job" / "calibration.json").read_text())
    assert said["rows"] == job.rows == sum(job.counts.values())
    again = CalibrationJob.read(tmp_path / "job")
    assert (again.counts, again.seen, again.lanes) == (job.counts, job.seen, job.lanes)
    assert again.settings == job.settings
