"""A run comes back from a file as it was, and continues as it would have."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tether
from tests.rounds.store.exported_runs import all_tables, kept_state, make_run
from tests.rounds.worlds import WORLDS
from tether._core.records import encode
from tether.rounds import (
    Controller,
    export_run,
    import_run,
    read_history,
)


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
    assert encode(histories[0].rounds) == encode(histories[1].rounds)
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
    assert encode(rounds[0]) == encode(rounds[1])
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
