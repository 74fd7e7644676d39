"""A run leaves its store as one table, comes back whole, and can be audited from it."""

import json

import numpy as np
import pyarrow.parquet as parquet
import pytest

import tether
from tests.rounds.export_audit import recompute_calibrations
from tests.rounds.worlds import WORLDS, World, one_round
from tether.rounds import Controller, StoreError, read_history
from tether.rounds.store.export import export_run, import_run


def make_run(world, store, rounds=5, **options):
    rng = np.random.default_rng(1)
    settings = {"alpha": 0.25, "alarm_risk": 0.9} | options
    with Controller(world.safe(), store=store, **settings) as run:
        made = [one_round(run, world, number, 200, rng)[0] for number in range(1, 1 + rounds)]
        taken = run.round.act(world.contexts(20, rng), rng)
        run.observe(taken.ids[:5], np.zeros(5))
        run.withdraw(taken.ids[5:8], "the <power> failed")
    return made


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_an_exported_run_is_imported_unchanged(world, family, tmp_path):
    make_run(world, tmp_path / "run.db", family=family, normalizer_draws=32)
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    import_run(tmp_path / "run.parquet", tmp_path / "again.db")
    export_run(tmp_path / "again.db", tmp_path / "again.parquet")
    first = parquet.read_table(tmp_path / "run.parquet")
    second = parquet.read_table(tmp_path / "again.parquet")
    assert first.schema.metadata[b"tether"] == second.schema.metadata[b"tether"]
    assert first.equals(second)
    before, after = read_history(tmp_path / "run.db"), read_history(tmp_path / "again.db")
    assert before.rounds == after.rounds
    names = {f"round {number}": world.optimized(number) for number in range(1, 8)}
    options = {"alpha": 0.25, "alarm_risk": 0.9, "policies": names, "family": family}
    options |= {"normalizer_draws": 32, "missing": "wait"}
    betas = []
    for name in ("run", "again"):
        with Controller(world.safe(), store=tmp_path / f"{name}.db", **options) as run:
            pending = run.pending()
            run.observe(pending.ids, np.zeros(len(pending)))
            betas.append(run.begin(world.optimized(6)).calibration.log_beta)
    assert betas[0] == betas[1]


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("world", WORLDS[:3], ids=lambda world: world.name)
def test_every_beta_is_recomputed_from_the_export(world, family, tmp_path):
    made = make_run(world, tmp_path / "run.db", family=family)
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    found = recompute_calibrations(tmp_path / "run.parquet")
    calibrated = [each for each in made if each.calibration is not None]
    assert len(found) == len(calibrated) == 4
    for each in calibrated:
        log_beta, risk = found[each.number]
        assert log_beta == pytest.approx(each.calibration.log_beta, abs=1e-6)
        assert risk == pytest.approx(each.calibration.risk, rel=1e-6)
    assert any(np.isfinite(each.calibration.log_beta) for each in calibrated)


def test_a_changed_loss_shows_in_the_recomputed_betas(tmp_path):
    world = World("marginal")
    make_run(world, tmp_path / "run.db")
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    loss = table["loss"].to_numpy(zero_copy_only=False).copy()
    calibration = np.array(table["calibration"].to_pylist()) == True  # noqa: E712
    loss[np.flatnonzero(calibration)[:20]] = 1.0
    place = table.column_names.index("loss")
    parquet.write_table(table.set_column(place, "loss", [loss]), tmp_path / "bent.parquet")
    honest, bent = (
        recompute_calibrations(tmp_path / "run.parquet"),
        recompute_calibrations(tmp_path / "bent.parquet"),
    )
    assert any(abs(honest[number][0] - bent[number][0]) > 0.01 for number in honest)


def test_files_and_stores_that_cannot_be_used_are_refused(tmp_path):
    make_run(World("marginal"), tmp_path / "run.db", rounds=2)
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    with pytest.raises(StoreError, match="holds a run already"):
        import_run(tmp_path / "run.parquet", tmp_path / "run.db")
    with pytest.raises(StoreError, match="there is no store"):
        export_run(tmp_path / "none.db", tmp_path / "none.parquet")
    assert not (tmp_path / "none.db").exists()
    table = parquet.read_table(tmp_path / "run.parquet")
    parquet.write_table(table.replace_schema_metadata({}), tmp_path / "bare.parquet")
    with pytest.raises(ValueError, match="was not written by tether export"):
        import_run(tmp_path / "bare.parquet", tmp_path / "new.db")
    about = json.loads(table.schema.metadata[b"tether"]) | {"version": 99}
    parquet.write_table(
        table.replace_schema_metadata({"tether": json.dumps(about)}), tmp_path / "late.parquet"
    )
    with pytest.raises(ValueError, match="has version 99, but this tether supports"):
        import_run(tmp_path / "late.parquet", tmp_path / "new.db")


def test_a_run_without_rows_is_exported_and_imported(tmp_path):
    Controller(tether.Gaussian(0.0), alpha=0.1, store=tmp_path / "run.db").close()
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    import_run(tmp_path / "run.parquet", tmp_path / "again.db")
    assert read_history(tmp_path / "again.db").rounds == ()


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
            export_run(store, tmp_path / "run.parquet")
            import_run(tmp_path / "run.parquet", tmp_path / "again.db")
    assert len(read_history(tmp_path / "again.db").rounds) == 4


@pytest.mark.parametrize("version", [1, 2])
def test_an_export_of_an_older_version_is_imported(tmp_path, version):
    world = World("marginal")
    make_run(world, tmp_path / "run.db", rounds=3)
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    run = json.loads(table.schema.metadata[b"tether"])
    del run["settings"]["shortlist"]
    old_names = {"last_observation": "last_report", "min_observed_share": "enough"}
    old_names |= {"alarm_risk": "watched", "false_alarm_probability": "delta"}
    old_names |= {"log_beta_by_constraint": "allowed", "rows_beyond_draws": "beyond"}
    old_names |= {"promise": "guarantee", "promises": "guarantees"}

    def older(entries):
        return {old_names.get(name, name): value for name, value in entries.items()}

    rounds = [older(row) for row in run["rounds"]]
    for row in rounds:
        if row["calibration"] is not None:
            row["calibration"] = json.dumps(older(json.loads(row["calibration"])))
    alarms = [older(row) for row in run["alarms"]]
    old = {"version": version, "terms": older(run["settings"]), "rounds": rounds, "alarms": alarms}
    if version == 2:
        old["failures"] = run["failures"]
    names = ["report" if name == "observation" else name for name in table.column_names]
    table = table.rename_columns(names).replace_schema_metadata({"tether": json.dumps(old)})
    parquet.write_table(table, tmp_path / "old.parquet")
    import_run(tmp_path / "old.parquet", tmp_path / "again.db")
    before, after = read_history(tmp_path / "run.db"), read_history(tmp_path / "again.db")
    assert before.rounds == after.rounds
    export_run(tmp_path / "again.db", tmp_path / "again.parquet")
    again = parquet.read_table(tmp_path / "again.parquet")
    assert again.equals(parquet.read_table(tmp_path / "run.parquet"))
