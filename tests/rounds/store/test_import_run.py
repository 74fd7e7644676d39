"""A run comes back from a file as it was, and continues as it would have."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import files_in
from tests.rounds.store.exported_runs import all_tables, kept_state, make_run
from tests.rounds.worlds import WORLDS, World
from tether.rounds import (
    Controller,
    StoreError,
    export_run,
    import_run,
    read_history,
)
from tether.rounds.store import schema
from tether.rounds.store.chain import digest_bytes
from tether.rounds.store.database import Store
from tether.rounds.store.import_run import check_export


def moved(tmp_path, source="run.db", target="again.db"):
    export_run(tmp_path / source, tmp_path / "run.parquet", overwrite=True)
    import_run(tmp_path / "run.parquet", tmp_path / target, actor="Grace")
    return tmp_path / target


def without_the_import(tables):
    """Tables without the last entry of the control lane, which is that of the import."""
    tables = {name: list(rows) for name, rows in tables.items()}
    record = tables["tether_audit"].pop()
    assert record[1:3] == ("import", "Grace")
    control = [row for row in tables["tether_entries"] if row[0] == -1]
    tables["tether_entries"].remove(control[-1])
    lane = next(row for row in tables["tether_lanes"] if row[0] == -1)
    place = tables["tether_lanes"].index(lane)
    tables["tether_lanes"][place] = (*lane[:3], control[-2][1], control[-2][-1])
    return tables


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_an_imported_run_is_the_same_and_continues_the_same(world, family, tmp_path):
    make_run(world, tmp_path / "run.db", rounds=4, rows=100, family=family, normalizer_draws=32)
    moved(tmp_path)
    before = all_tables(tmp_path / "run.db")
    assert without_the_import(all_tables(tmp_path / "again.db")) == before
    kept = [kept_state(tmp_path / name) for name in ("run.db", "again.db")]
    assert [json.loads(each.pop("silence"))[0][:2] for each in kept] == [["loss", 420]] * 2
    assert kept[0] == kept[1]
    histories = [read_history(tmp_path / name) for name in ("run.db", "again.db")]
    assert histories[0].rounds == histories[1].rounds
    names = {f"round {number}": world.optimized(number) for number in range(1, 8)}
    options = {"alpha": 0.25, "alarm_risk": 0.9, "policies": names, "family": family}
    options |= {"normalizer_draws": 32, "missing": "wait"}
    betas = []
    for name in ("run", "again"):
        with Controller(world.safe(), store=tmp_path / f"{name}.db", **options) as run:
            pending = run.pending()
            run.observe(pending.ids, np.zeros(len(pending)))
            betas.append(run.begin(world.optimized(5)).calibration.log_beta)
    assert betas[0] == betas[1]


@pytest.mark.slow
def test_a_restored_run_raises_the_same_alarms_at_the_same_rows(tmp_path):
    """A run that moves to another store each time, and one that stays, are the same."""
    stays, moves = tmp_path / "stays.db", tmp_path / "moves.db"
    rngs = [np.random.default_rng(3), np.random.default_rng(3)]
    policies = {f"round {number}": tether.Gaussian(0.3) for number in range(1, 9)}
    options = {"alpha": 0.1, "false_alarm_probability": 0.01, "policies": policies}
    options |= {"context_score": lambda contexts: contexts[:, 0], "missing": "exclude", "draws": 4}

    def stage(number, store, rng):
        with Controller(tether.Gaussian(0.0), store=store, **options) as run:
            if number in (0, 1, 4):
                run.begin(None if number == 0 else tether.Gaussian(0.3))
            if number == 3:
                run.resume("the sensor was replaced", actor="Ada")
            for batch in range(6):
                contexts = rng.normal(size=(60, 1)) + 3 * (number == 5 and batch > 2)
                taken = run.round.act(contexts, rng)
                harm = 0.9 if number == 2 and batch > 1 else 0.05
                losses = (rng.random(60) < harm).astype(float)
                if batch % 3:
                    run.observe(taken.ids[::-1], losses, losses - 0.5)
            run.withdraw(run.pending().ids[:3], "they were never carried out", actor="Ada")

    for number in range(6):
        for store, rng in zip((stays, moves), rngs, strict=True):
            stage(number, store, rng)
        export_run(moves, tmp_path / f"{number}.parquet")
        moves = tmp_path / f"moved {number}.db"
        import_run(tmp_path / f"{number}.parquet", moves, actor="Grace")
        assert_same_state(stays, moves)
    histories = [read_history(store) for store in (stays, moves)]
    assert [alarm.monitor for alarm in histories[0].alarms] == ["risk", "shift"]
    for first, second in zip(*(each.alarms for each in histories), strict=True):
        assert (first.monitor, first.round, first.message) == (
            second.monitor,
            second.round,
            second.message,
        )
    rounds = [[replace(row, begun="") for row in each.rounds] for each in histories]
    assert rounds[0] == rounds[1]
    assert_same_state(stays, moves)


def assert_same_state(one, other):
    first, second = kept_state(one), kept_state(other)
    assert first.pop("silence").split(",")[0] == second.pop("silence").split(",")[0]
    shifts = [each.pop("shift") for each in (first, second)]
    assert first == second
    numbers = [_numbers(text) for text in shifts]
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-9)


def _numbers(text):
    found = []

    def collect(value):
        if isinstance(value, dict):
            value = [value[name] for name in sorted(value)]
        if isinstance(value, list):
            for each in value:
                collect(each)
        elif isinstance(value, int | float):
            found.append(float(value))
        else:
            found.append(0.0 if value is None else float(len(str(value))))

    collect(json.loads(text))
    return found


def test_a_run_on_postgresql_moves_to_sqlite_and_back(postgres_url, server, tmp_path):
    world = World("tables")
    make_run(world, postgres_url, rounds=3, rows=60)
    export_run(postgres_url, tmp_path / "run.parquet")
    import_run(tmp_path / "run.parquet", tmp_path / "again.db", actor="Grace")
    assert without_the_import(all_tables(tmp_path / "again.db")) == all_tables(postgres_url)
    export_run(tmp_path / "again.db", tmp_path / "again.parquet")
    other = server.database()
    try:
        import_run(tmp_path / "again.parquet", other, actor="Grace")
        assert without_the_import(all_tables(other)) == all_tables(tmp_path / "again.db")
        with pytest.raises(StoreError, match="holds a run already"):
            import_run(tmp_path / "again.parquet", other)
    finally:
        server.drop(other)


def test_several_lanes_and_a_policy_come_back(tmp_path):
    """Rows of several writers, as PostgreSQL has them, and the content of a policy."""
    make_run(World("marginal"), tmp_path / "run.db", rounds=2, rows=20)
    store = Store(tmp_path / "run.db")
    content = bytes(range(256)) * 40_000  # more than one part
    with store.writing(exclusive=True) as writer:
        for lane in (3, 1, 2**16):
            writer._own_lane = lane
            ids = writer.actions(
                {
                    "calibration": [True, False],
                    "context": [None, None],
                    "action": [np.float64(0.5).tobytes()] * 2,
                    "log_safe": [-0.5, -float("inf")],
                    "log_optimized": [None, -0.25],
                    "log_prob": [-0.5, None],
                },
                number=2,
                served=0,
                key=f"key {lane}",
                failure="it was unavailable",
            )
            columns = {
                "action": ids[:1],
                "which": [0],
                "loss": [1.0],
                "reward": [None],
                "reason": [None],
            }
            writer.observations(columns)
        row = {"content": content, "digest": digest_bytes(content).hex()}
        writer.record(schema.policies, row)
    store.close()
    again = moved(tmp_path)
    assert without_the_import(all_tables(again)) == all_tables(tmp_path / "run.db")
    records = read_history(again).rounds
    assert records == read_history(tmp_path / "run.db").rounds


def test_the_import_is_in_the_audit_trail_and_in_the_chain(tmp_path):
    make_run(World("marginal"), tmp_path / "run.db", rounds=1, rows=20)
    store = moved(tmp_path)
    record = read_history(store).audit[-1]
    assert (record.act, record.actor) == ("import", "Grace")
    assert record.reason.startswith("run.parquet, heads ")
    export_run(store, tmp_path / "again.parquet")
    assert check_export(tmp_path / "again.parquet").findings == ()


def test_a_store_with_a_run_is_not_filled_and_stays_as_it_is(tmp_path):
    make_run(World("marginal"), tmp_path / "run.db", rounds=1, rows=20)
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    before = all_tables(tmp_path / "run.db")
    with pytest.raises(StoreError, match="holds a run already"):
        import_run(tmp_path / "run.parquet", tmp_path / "run.db")
    assert all_tables(tmp_path / "run.db") == before


def test_what_is_no_file_or_no_actor_is_refused_before_a_store_is_made(tmp_path):
    make_run(World("marginal"), tmp_path / "run.db", rounds=1, rows=20)
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        import_run(tmp_path / "none.parquet", tmp_path / "new.db")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        check_export(tmp_path)
    with pytest.raises(ValueError, match="actor must be a name"):
        import_run(tmp_path / "run.parquet", tmp_path / "new.db", actor=" ")
    assert not (tmp_path / "new.db").exists()


def test_a_run_without_rows_is_exported_and_imported(tmp_path):
    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "run.db").close()
    assert read_history(moved(tmp_path)).rounds == ()


def test_text_such_as_inf_stays_text(tmp_path):
    rng, names = np.random.default_rng(0), ["inf", "nan", "-inf"]
    safe = tether.Categorical.from_probabilities([0.5, 0.3, 0.2], actions=names)
    bold = tether.Categorical.from_probabilities([0.2, 0.3, 0.5], actions=names)
    for store in (tmp_path / "run.db", tmp_path / "again.db"):
        options = {"alpha": 0.4, "name": "nan", "policies": {"inf": bold}}
        with Controller(safe, store=store, **options) as run:
            for _ in range(2):
                round_ = run.begin(bold, name="inf")
                taken = round_.act(np.array(["inf", "x"] * 50), rng)
                run.observe(taken.ids, (taken.actions == "nan") * 0.5)
            assert run.history().rounds[-1].policy == "inf"
            assert run.history().safe == "nan"
        if store.name == "run.db":
            moved(tmp_path)
    assert len(read_history(tmp_path / "again.db").rounds) == 4


def test_nothing_is_left_behind(tmp_path):
    make_run(World("marginal"), tmp_path / "run.db", rounds=1, rows=20)
    moved(tmp_path)
    assert check_export(tmp_path / "run.parquet").findings == ()
    assert files_in(tmp_path) == ["again.db", "run.db", "run.parquet"]
