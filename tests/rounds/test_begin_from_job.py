"""A round that begins from a job is the one that `begin` makes of the same rows in memory."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest
import sqlalchemy as sql
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.rounds.export_audit import recompute_calibrations
from tests.rounds.job_runs import job_of, opened, refuse, run_of, wrong
from tests.rounds.worlds import WORLDS, World
from tests.scale import scaled
from tether.rounds import (
    CalibrationJob,
    LossesMissingError,
    RoundTakenError,
    backup_run,
    export_calibration,
    export_run,
    import_run,
)
from tether.rounds import calibration_blocks as blocks
from tether.rounds.round_start import RoundStart
from tether.rounds.store import checkpoints, followed_lane, schema, score_pieces
from tether.rounds.store.queries import read_round
from tether.rounds.store.writer import Writer

SMALL_BLOCK = 37
"""Rows per block, so that rounds begin and end in the middle of one."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "ROWS_PER_BLOCK", SMALL_BLOCK)
    monkeypatch.setattr(score_pieces, "MAX_BLOB_BYTES", 800)  # so that there are several pieces
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 20)  # and checkpoints


@pytest.fixture(autouse=True)
def lane(monkeypatch):
    """Rows are written in this lane, as if others were taken by other processes."""
    lane, real = [0], Writer.__init__

    def in_lane(self, connection, *, own_lane, **named):
        real(self, connection, own_lane=lane[0], **named)

    monkeypatch.setattr(Writer, "__init__", in_lane)
    return lane


def stored(run, number):
    """The row of a round, and the scores and draws that were stored with it."""
    pieces = schema.columns
    query = sql.select(pieces).where(pieces.c.round == number)
    query = query.order_by(pieces.c.name, pieces.c.start, pieces.c.policy)
    with run._store.reading() as connection:
        row = read_round(connection, number)
        return row, [tuple(each) for each in connection.execute(query)]


def check_same_round(run, other, number):
    (own, pieces), (in_memory, other_pieces) = stored(run, number), stored(other, number)
    calibrations = [json.loads(each.pop("calibration") or "null") for each in (own, in_memory)]
    for name in ("log_beta", "log_psi", "log_psi_error"):
        if own[name] != in_memory[name]:
            assert own.pop(name) == pytest.approx(in_memory.pop(name), abs=1e-9), name
    assert own | {"begun": 0} == in_memory | {"begun": 0}
    assert pieces == other_pieces, "scores differ"
    assert (calibrations[0] is None) == (calibrations[1] is None)
    if calibrations[0] is not None:
        promises = [each["promise"] for each in calibrations]
        # The stability of mix is a bound in memory where ratios are far apart.
        assert promises[0] == pytest.approx(promises[1], abs=1e-3)


steps = st.fixed_dictionaries(
    {
        "rows": st.integers(6, 50),
        "observed": st.sampled_from([0.0, 0.6, 1.0]),
        "withdrawn": st.integers(0, 3),
        "late": st.sampled_from([0, 7]),
        "retired": st.booleans(),
        "in memory": st.booleans(),
        "lanes": st.tuples(*[st.sampled_from([0, 3])] * 3),
    }
)
runs = st.fixed_dictionaries(
    {
        "world": st.sampled_from(WORLDS[:3]),
        "options": st.fixed_dictionaries(
            {
                "family": st.sampled_from(["clip", "mix"]),
                "against": st.sampled_from(["safe", "last"]),
                "missing": st.sampled_from(["worst_case", "exclude", "wait"]),
                "min_observed_share": st.sampled_from([0.3, 1.0]),
                "calibration_share": st.sampled_from([0.3, 0.9]),
            }
        ),
        "steps": st.lists(steps, min_size=3, max_size=4),
    }
)


def without_new_losses(name):
    """A run of mix against its last policy: from its third round on, the rows are the same ones.

    The last policy is where the condition of the same rows holds by exactly zero.
    """
    step = {"rows": 40, "observed": 1.0, "withdrawn": 0, "late": 0, "retired": False}
    step |= {"in memory": False, "lanes": (0, 0, 0)}
    options = {"family": "mix", "against": "last", "missing": "exclude"}
    options |= {"min_observed_share": 0.3, "calibration_share": 0.9}
    steps = [step, *[step | {"observed": 0.0}] * 3]
    return {"world": World(name), "options": options, "steps": steps}


@settings(
    max_examples=scaled(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(made=runs)
@example(made=without_new_losses("tables"))
@example(made=without_new_losses("pool"))
def test_every_round_from_a_job_is_that_of_begin_whatever_came_before(made, lane, tmp_path_factory):
    folder, world, rng = tmp_path_factory.mktemp("run"), made["world"], np.random.default_rng(1)
    run = opened(world, folder / "run.db", **made["options"])
    for number, step in enumerate(made["steps"], 1):
        past = 2 if made["options"]["against"] == "safe" else 3  # which no beta is measured against
        if step["retired"] and number == 4 and run.history().rounds[past - 1].beta > 0:
            run.retire(past, "its policy is lost")
        lane[0] = step["lanes"][0]
        begun = begin(run, world, number, folder, step, made["options"], rng)
        lane[0] = step["lanes"][1]
        taken = begun.act(world.contexts(step["rows"], rng), rng)
        lane[0] = step["lanes"][2]
        count, gone = int(step["observed"] * step["rows"]), step["withdrawn"]
        if count:
            run.observe(taken.ids[:count], world.losses(taken.contexts, taken.actions)[:count])
        if 0 < gone <= step["rows"] - count:
            run.withdraw(taken.ids[-gone:], "never carried out")
    run.close()
    assert wrong(folder / "run.db") == []


def begin(run, world, number, folder, step, options, rng):
    """Begin a round from a job, and in memory in a copy of the store; compare them."""
    policy, copy = world.optimized(number), folder / f"copy {number}.db"
    if step["in memory"]:
        try:
            return run.begin(policy)
        except LossesMissingError:
            return run.begin()
    backup_run(folder / "run.db", copy)
    with opened(world, copy, **options) as other:
        try:
            job = export_calibration(run, policy, folder / f"job {number}")
        except LossesMissingError:
            with pytest.raises(LossesMissingError):
                other.begin(policy)
            return run.begin()
        except ValueError as error:
            if "no losses" not in str(error):
                raise
            assert other.begin(policy).note.startswith("no losses")
            return run.begin(policy)
        other.begin(policy)
        if step["late"]:  # rows that the calibration does not see
            taken = run.round.act(world.contexts(step["late"], rng), rng)
            run.observe(taken.ids[::2], np.ones(len(taken.ids[::2])))
        begun = run.begin(policy, job=CalibrationJob.read(job.folder))
        check_same_round(run, other, number)
    return begun


@pytest.mark.parametrize("world", WORLDS[:3], ids=lambda world: world.name)
def test_an_audit_that_knows_only_the_file_recomputes_rounds_from_jobs(world, tmp_path):
    run = run_of(world, tmp_path / "run.db", rows=120, missing="exclude", alpha=0.2)
    for number in (3, 4):
        job = export_calibration(run, world.optimized(number), tmp_path / f"job {number}")
        late = run.round.act(world.contexts(9, np.random.default_rng(2)), np.random.default_rng(2))
        run.observe(late.ids, np.zeros(9))
        begun = run.begin(world.optimized(number), job=job)
        taken = begun.act(world.contexts(60, np.random.default_rng(3)), np.random.default_rng(3))
        run.observe(taken.ids, world.losses(taken.contexts, taken.actions))
    run.begin(world.optimized(5))  # in memory, after rounds from jobs
    betas = {each.number: each.beta for each in run.history().rounds}
    run.close()
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    audited = recompute_calibrations(tmp_path / "run.parquet")
    assert set(audited) == {2, 3, 4, 5}
    assert max(betas[number] for number in (3, 4)) > 0, "a round from a job must go somewhere"
    for number, (log_beta, _) in audited.items():
        assert np.log(betas[number]) == pytest.approx(log_beta, abs=1e-6)


def test_on_postgresql_with_several_lanes(postgres_url, lane, tmp_path):
    world = World("tables")
    with opened(world, postgres_url) as run:

        def act(seed):
            rng, lane[0] = np.random.default_rng(seed), seed % 3
            taken = run.round.act(world.contexts(20, rng), rng)
            run.observe(taken.ids[:15], world.losses(taken.contexts, taken.actions)[:15])

        run.begin(world.optimized(1))
        for number in (2, 3):
            for k in range(3):
                act(10 * number + k)
            job = export_calibration(run, world.optimized(number), tmp_path / f"job {number}")
            copy = tmp_path / f"copy {number}.db"
            export_run(postgres_url, tmp_path / f"{number}.parquet")
            import_run(tmp_path / f"{number}.parquet", copy, actor="test")
            act(100)
            run.begin(world.optimized(number), job=job)
            with opened(world, copy) as other:
                other.begin(world.optimized(number))
                check_same_round(run, other, number)
        assert list(job.lanes) == [0, 1, 2]
    assert wrong(postgres_url) == []


def test_a_process_goes_on_in_memory_after_a_round_from_a_job(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        run.pending()  # rows are in memory before
        job = export_calibration(run, world.optimized(3), tmp_path / "job")
        late = run.round.act(20, np.random.default_rng(0))
        run.observe(late.ids, np.zeros(20))
        run.pending()
        one = run.begin(world.optimized(3), job=job)
        taken = one.act(30, np.random.default_rng(1))
        run.observe(taken.ids, np.zeros(30))
        backup_run(tmp_path / "run.db", tmp_path / "copy.db")
        with opened(world, tmp_path / "copy.db") as other:
            assert other.round.beta == one.beta
            own, fresh = (each.begin(world.optimized(4)) for each in (run, other))
            assert own.beta == fresh.beta
            check_same_round(run, other, 4)


def test_checkpoints_of_rows_without_are_made_on_the_way_and_are_right(tmp_path, lane, monkeypatch):
    monkeypatch.setattr(followed_lane, "ROWS_PER_CHUNK", 50)
    world, rng = World("marginal"), np.random.default_rng(4)
    with run_of(world, tmp_path / "run.db", rows=20) as run:
        for number, rows in enumerate([48, 48, 4, 4, 60, 60]):
            lane[0] = number % 2
            taken = run.round.act(rows, rng)
            run.observe(taken.ids, np.zeros(len(taken.ids)))
        before = checkpointed(run)
        job = export_calibration(run, world.optimized(3), tmp_path / "job")
        run.begin(world.optimized(3), job=job)
        after = checkpointed(run)
        assert len(after) > len(before)
        for number in {lane for lane, _, _ in after}:
            places = [each[1:] for each in after if each[0] == number]
            assert places[0][0] == 1
            pairs = pairwise(places)
            assert all(one[1] + 1 == other[0] for one, other in pairs), "they are adjacent"
    assert wrong(tmp_path / "run.db") == []


def checkpointed(run):
    """The lanes, first and last entries of all checkpoints."""
    table = schema.checkpoints
    query = sql.select(table.c.lane, table.c.first, table.c.last).order_by(*table.primary_key)
    with run._store.reading() as connection:
        return [tuple(each) for each in connection.execute(query)]


def test_the_files_are_not_needed_once_the_round_has_begun(tmp_path):
    world = World("marginal")
    for alpha in (0.3, 0.01):  # with and without a beta
        with run_of(world, "sqlite://", rows=200, alpha=alpha) as run:
            job = export_calibration(run, world.optimized(3), tmp_path / f"{alpha}")
            begun = run.begin(world.optimized(3), job=job)
            shutil.rmtree(job.folder)
            assert begun.calibration.exists == (alpha == 0.3)
            assert str(begun.calibration.curve)
            assert run.round.act(5, np.random.default_rng(0)).ids.size == 5


def test_an_alarm_lets_the_safe_policy_serve_as_ever(tmp_path):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = export_calibration(run, world.optimized(3), tmp_path / "job")
        run.halt("a reason")
        begun = run.begin(world.optimized(3), job=job)
        assert begun.note == "alarm 1 stood when the round began: the safe policy serves"
        run.resume("looked into it")
        taken = begun.act(20, np.random.default_rng(0))
        run.observe(taken.ids, np.zeros(20))
        job = export_calibration(run, world.optimized(4), tmp_path / "next")
        assert run.begin(world.optimized(4), job=job).number == 4
    assert wrong(tmp_path / "run.db") == []


def test_a_round_that_another_process_begins_meanwhile_is_taken(tmp_path, monkeypatch):
    world = World("marginal")
    with (
        run_of(world, tmp_path / "run.db") as run,
        opened(world, tmp_path / "run.db") as other,
    ):
        job = job_of(run, world, tmp_path / "job")
        real = RoundStart.save

        def later(*arguments, **named):
            monkeypatch.setattr(RoundStart, "save", real)
            other.begin()
            real(*arguments, **named)

        monkeypatch.setattr(RoundStart, "save", later)
        with pytest.raises(RoundTakenError):
            run.begin(world.optimized(3), job=job)
        assert run.round.number == 3
        assert run.round.calibration is None


def failing_after(real, count):
    """A method that fails in its call of this number, after it has done its work."""
    calls = []

    def call(*arguments, **named):
        calls.append(real(*arguments, **named))
        if len(calls) == count:
            raise OSError("no room")

    return call


def test_a_failure_at_any_write_leaves_no_round_and_the_job_can_be_used_again(
    tmp_path, monkeypatch
):
    world = World("marginal")
    with run_of(world, tmp_path / "run.db") as run:
        job = job_of(run, world, tmp_path / "job")
        for name, count in (("score_pieces", 1), ("score_pieces", 3), ("record", 2)):
            with monkeypatch.context() as patched:
                patched.setattr(Writer, name, failing_after(getattr(Writer, name), count))
                refuse(run, world, job, "no room", error=OSError)
            assert wrong(tmp_path / "run.db") == []
        assert run.begin(world.optimized(3), job=job).number == 3
    assert wrong(tmp_path / "run.db") == []
