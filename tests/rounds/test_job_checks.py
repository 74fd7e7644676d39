"""A job begins a round only if it is of that round and its files follow from the store."""

import os
import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

import tether
from tests.rounds.job_runs import forged, job_of, opened, refuse, run_of
from tests.rounds.small_runs import MovingGaussian
from tests.rounds.worlds import World, one_round
from tether.rounds import (
    CalibrationJob,
    Controller,
    TamperedError,
    export_calibration,
    job_files,
)
from tether.rounds import calibration_blocks as blocks
from tether.rounds.round_start import RoundStart


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "ROWS_PER_BLOCK", 37)


def test_the_job_of_another_run_round_or_policy_is_refused(tmp_path):
    world = World("marginal")
    with (
        run_of(world, tmp_path / "run.db") as run,
        run_of(world, tmp_path / "other.db") as other,
    ):
        job = job_of(run, world, tmp_path / "job")
        refuse(other, world, job, "its run is")
        refuse(run, world, job, "its policy is", number=4)
        with pytest.raises(ValueError, match="job needs the optimized policy"):
            run.begin(job=job)
        with pytest.raises(TypeError, match="job must be a CalibrationJob"):
            run.begin(world.optimized(3), job=job.folder)
        one_round(run, world, 3, 30, np.random.default_rng(0))
        refuse(run, world, job, "its number is 3, but here it is 4")
    for kind in ({"family": "ramp", "missing": None}, {"aim": True}):
        safe = World("pool" if "aim" in kind else "marginal")
        with opened(safe, "sqlite://", **kind) as run, pytest.raises(ValueError, match="aims"):
            run.begin(safe.optimized(3), job=job)


def test_a_policy_that_cannot_be_told_apart_by_itself_is_told_by_its_scores(tmp_path):
    policy, rng = MovingGaussian(0.6), np.random.default_rng(0)
    with Controller(tether.Gaussian(0.0), alpha=0.3, alarm_risk=0.9, store="sqlite://") as run:
        run.observe(run.begin().act(200, rng).ids, np.zeros(200))
        job = export_calibration(run, policy, tmp_path / "job")
        assert job.policy is None
        with pytest.raises(ValueError, match=r"policy of round 2 in the job.*trained further"):
            run.begin(MovingGaussian(0.62), job=job)
        assert run.begin(MovingGaussian(0.6), job=job).number == 2


def test_a_job_of_other_retired_rounds_is_refused_also_if_it_is_retired_meanwhile(
    tmp_path, monkeypatch
):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        real = RoundStart.save

        def retired_first(*arguments, **named):
            run.retire(2, "its policy is lost")
            real(*arguments, **named)

        with monkeypatch.context() as patched:
            patched.setattr(RoundStart, "save", retired_first)
            refuse(run, world, job, r"its retired is \(\), but here it is \(2,\)")
        refuse(run, world, job, r"its retired is \(\), but here it is \(2,\)")


def test_rows_that_are_changed_between_the_check_and_the_transaction_are_refused(
    tmp_path, monkeypatch
):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        real = RoundStart.save

        def changed_first(*arguments, **named):
            with sqlite3.connect(tmp_path / "run.db") as changed:
                where = f"lane = 0 AND number = {job.lanes[0][0]}"
                changed.execute(f"UPDATE tether_entries SET head = zeroblob(32) WHERE {where}")
            changed.close()
            real(*arguments, **named)

        monkeypatch.setattr(RoundStart, "save", changed_first)
        refuse(run, world, job, "lane 0 has another hash chain")


def test_files_that_changed_are_refused(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        for name in job.digests:
            path = Path(job.folder) / name
            content = path.read_bytes()
            path.write_bytes(content[:-9] + b"x" + content[-8:])
            refuse(run, world, job, f"{name} is missing, or not the file that was exported")
            path.unlink()
            refuse(run, world, job, f"{name} is missing, or not the file that was exported")
            path.write_bytes(content)
        assert run.begin(world.optimized(3), job=job).number == 3


@pytest.mark.parametrize("column", ["loss_0", "log_safe", "log_optimized", "log_mix"])
def test_a_log_that_does_not_follow_from_the_store_is_refused_with_its_digest(tmp_path, column):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        name = job.log_files[-1]
        table = parquet.read_table(Path(job.folder) / name)
        place = table.column_names.index(column)
        parquet.write_table(
            table.set_column(place, column, [table[column].to_numpy() * 0.99]), tmp_path / "forged"
        )
        lower = forged(job, name, (tmp_path / "forged").read_bytes())
        refuse(run, world, lower, f"{column} in {name}.*is not what follows from the store")


def test_forged_scores_of_a_past_policy_and_of_the_new_one_are_refused(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        name = next(each for each in reversed(job.digests) if each.startswith("_scores"))
        scores = job_files.read_scores(job.folder, name, job.digests[name])
        assert {number for _, number in scores} == {2, 3}
        for key, values in scores.items():
            path = tmp_path / f"forged {key[1]}"
            job_files.write_scores(path, scores | {key: values + 0.1})
            higher = forged(job, name, path.read_bytes())
            refuse(run, world, higher, f"policy of round {key[1]}")
        job_files.write_scores(tmp_path / "fewer", {key: scores[key][1:] for key in scores})
        lost = forged(job, name, (tmp_path / "fewer").read_bytes())
        refuse(run, world, lost, "has no scores 'log_optimized' of round 2 at some rows")
        more = {key: np.append(values, values) for key, values in scores.items()}
        job_files.write_scores(tmp_path / "more", more)
        more = forged(job, name, (tmp_path / "more").read_bytes())
        refuse(run, world, more, "of which there should be")
        job_files.write_scores(tmp_path / "other", scores | {("log_optimized", 7): np.zeros(1)})
        other = forged(job, name, (tmp_path / "other").read_bytes())
        refuse(run, world, other, "has scores 'log_optimized' of round 7, which are not needed")


def test_what_a_job_says_of_itself_must_follow_from_the_store(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        entry, head, action, observation = job.lanes[0]
        for changed in (
            {"reference": 2},
            {"rows": job.rows - 1},
            {"ratio_error": job.ratio_error + 1e-6},
            {"safe_share": 0.9},
            {"note": "nothing"},
        ):
            [name] = changed
            refuse(run, world, replace(job, **changed), f"its {name} is")
        others = {**job.counts, 0: 1}
        refuse(run, world, replace(job, counts=others), "log_mix in .* is not what follows from")
        other = replace(job.settings, missing="exclude")
        refuse(run, world, replace(job, settings=other), "its missing is 'exclude'")
        for lane in (
            (entry, "00" * 32, action, observation),
            (entry - 1, head, action, observation),
            (entry + 1, head, action, observation),
            (entry, head, action - 1, observation),
        ):
            refuse(run, world, replace(job, lanes={0: lane}), "lane 0 has another hash chain")
        fewer = {name: each for name, each in job.digests.items() if name != job.log_files[0]}
        refuse(run, world, replace(job, digests=fewer), "has other rows than the store")


def test_a_job_of_rows_that_were_changed_in_the_store_since_is_refused(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        with sqlite3.connect(tmp_path / "run.db") as changed:
            changed.execute("UPDATE tether_observations SET loss = 0 WHERE loss > 0")
        changed.close()
        refuse(run, world, job, "not as they were written", error=TamperedError)


def test_counts_are_compared_also_where_the_mixture_is_the_same(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        twice = {number: 2 * count for number, count in job.counts.items()}
        refuse(run, world, replace(job, counts=twice), "its counts is")


def test_a_job_without_its_draws_or_with_fewer_of_them_is_refused(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db", rows=200) as run:
        job = job_of(run, world, tmp_path / "job")
        name = job_files.PROPOSALS
        without = {each: digest for each, digest in job.digests.items() if each != name}
        refuse(run, world, replace(job, digests=without), f"does not name {name}")
        parquet.write_table(parquet.read_table(tmp_path / "job" / name)[900:1100], tmp_path / "few")
        fewer = forged(job, name, (tmp_path / "few").read_bytes())
        refuse(run, world, fewer, "has 100 draws of the reference .* would be 1,000 of each")


def test_files_that_no_row_accounts_for_are_refused(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        for name in ("_scores-000099.npz", "part-000099.parquet"):
            scores = {("log_optimized", 3): np.zeros(10)}  # of rows that will come
            job_files.write_scores(tmp_path / "more", scores)
            more = forged(job, name, (tmp_path / "more").read_bytes())
            refuse(run, world, more, f"it names {name}")
            (tmp_path / "more").unlink()


def test_the_order_in_which_a_job_names_its_files_changes_nothing(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        run.begin(world.optimized(3), job=replace(job, digests=dict(reversed(job.digests.items()))))
        run.pending()
        scores, rows = run._scores, run._rows
        scores.refresh()
        where = np.flatnonzero(rows.calibration)
        found = scores.read("log_optimized", [3], 0, len(where))[3]
        expected = world.optimized(3).log_prob(len(where), rows.actions[where])
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda scores: np.append(scores[:-1], np.nan), "is nan"),
        (lambda scores: np.append(scores[:-1], np.inf), "is inf"),
        (lambda scores: scores[:, None], "of shape"),
        (lambda scores: scores.astype("U9"), "must be float64"),
    ],
)
def test_scores_that_no_policy_gives_are_refused_also_at_rows_without_a_loss(
    change, message, tmp_path
):
    world, rng = World("marginal"), np.random.default_rng(0)
    with run_of(world, tmp_path / "run.db", missing="exclude") as run:
        run.round.act(30, rng)  # their scores are stored, and used when losses arrive
        job = job_of(run, world, tmp_path / "job")
        name = next(each for each in reversed(job.digests) if each.startswith("_scores"))
        scores = job_files.read_scores(job.folder, name, job.digests[name])
        job_files.write_scores(
            tmp_path / "bad", {key: change(values) for key, values in scores.items()}
        )
        refuse(run, world, forged(job, name, (tmp_path / "bad").read_bytes()), message)


@pytest.mark.parametrize("name", ["part-000000.parquet", "_scores-000000.npz"])
def test_a_file_of_another_kind_with_its_digest_is_refused(tmp_path, name):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        refuse(run, world, forged(job, name, b"nothing"), f"{name} is not a file of a job")


def test_a_log_that_is_exchanged_after_its_check_is_refused(tmp_path, monkeypatch):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        path = tmp_path / "job" / job.log_files[0]
        real = CalibrationJob.log

        def exchanged(self, source=None):
            found = real(self, source)
            table = parquet.read_table(path)
            lower = table.set_column(0, "loss_0", [np.zeros(len(table))])
            parquet.write_table(lower, path)
            return found

        monkeypatch.setattr(CalibrationJob, "log", exchanged)
        refuse(run, world, job, f"{path.name} is missing, or not the file that was exported")


def test_a_job_is_found_from_another_folder_and_after_it_was_moved_or_pickled(
    tmp_path, monkeypatch
):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        monkeypatch.chdir(tmp_path)
        job = job_of(run, world, "job")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        job.check_files()
        os.rename(tmp_path / "job", tmp_path / "moved")
        refuse(run, world, job, "is missing, or not the file that was exported")
        (tmp_path / "link").symlink_to(tmp_path / "moved")
        read = CalibrationJob.read("../link")
        monkeypatch.chdir(tmp_path)
        begun = run.begin(world.optimized(3), job=pickle.loads(pickle.dumps(read)))
        assert begun.number == 3


def test_settings_that_differ_are_named(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        for name, value in (("seed", 3), ("test_weight", "analytic"), ("blend", 0.1)):
            other = replace(job, settings=replace(job.settings, **{name: value}))
            refuse(run, world, other, f"its {name} is {value!r}, but here it is")
        limits = {"loss": replace(job.settings.limits["loss"], alpha=0.6)}
        other = replace(job, settings=replace(job.settings, limits=limits))
        refuse(run, world, other, r"its alpha is 0\.6, but here it is 0\.3")
