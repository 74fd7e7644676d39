"""A run leaves its store as one file that people can read, from which it can be audited."""

import stat
import subprocess
import sys

import numpy as np
import pyarrow.parquet as parquet
import pytest

import tether
from tests.rounds.export_audit import recompute_calibrations
from tests.rounds.small_runs import files_in
from tests.rounds.store.exported_runs import make_run
from tests.rounds.worlds import WORLDS, World
from tether.rounds import Controller, export_run


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
        assert each.calibration.log_beta <= log_beta + 1e-6
        assert each.calibration.log_beta == pytest.approx(log_beta, abs=0.02)  # a step of the grid
        assert risk == pytest.approx(each.calibration.binding.risk, rel=1e-6)
    assert any(np.isfinite(each.calibration.log_beta) for each in calibrated)


def test_a_changed_loss_shows_in_the_recomputed_betas(tmp_path):
    make_run(World("marginal"), tmp_path / "run.db")
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    loss = table["loss"].to_numpy(zero_copy_only=False).copy()
    ids = table["id"].to_numpy(zero_copy_only=False)
    calibration = np.array(table["calibration"].to_pylist()) == True  # noqa: E712
    observed = np.array(table["kind"].to_pylist()) == "observation"
    loss[observed & np.isin(ids, ids[calibration][:20])] = 1.0
    place = table.column_names.index("loss")
    parquet.write_table(table.set_column(place, "loss", [loss]), tmp_path / "bent.parquet")
    honest, bent = (
        recompute_calibrations(tmp_path / "run.parquet"),
        recompute_calibrations(tmp_path / "bent.parquet"),
    )
    assert any(abs(honest[number][0] - bent[number][0]) > 0.01 for number in honest)


def test_the_file_is_private_and_replaces_nothing_unless_asked(tmp_path):
    make_run(World("marginal"), tmp_path / "run.db", rounds=1, rows=20)
    path = tmp_path / "run.parquet"
    export_run(tmp_path / "run.db", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="not replaced unless"):
        export_run(tmp_path / "run.db", path)
    export_run(tmp_path / "run.db", path, overwrite=True)
    with pytest.raises(FileExistsError, match="is a database"):
        export_run(tmp_path / "run.db", tmp_path / "run.db", overwrite=True)
    assert files_in(tmp_path) == ["run.db", "run.parquet"]


MEASURED = """
import sys
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
from tether.rounds import export_run, import_run
from tether.rounds.store.import_run import check_export
before = peak()
export_run(sys.argv[1], sys.argv[2])
middle = peak()
assert not check_export(sys.argv[2]).findings
after = peak()
print(middle - before, after - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_run(tmp_path):
    """Ten times as many large contexts take about the same memory, far less than the data."""
    used = {}
    for rows in (1_000, 10_000):
        store, path = tmp_path / f"{rows}.db", tmp_path / f"{rows}.parquet"
        safe = tether.Categorical.from_probabilities([0.5, 0.5], actions=["a", "b"])
        rng = np.random.default_rng(0)
        with Controller(safe, alpha=0.4, store=store, max_silence=None) as run:
            round_ = run.begin()
            for _ in range(rows // 1_000):
                round_.act(rng.normal(size=(1_000, 1_000)), rng)
        command = [sys.executable, "-c", MEASURED, str(store), str(path)]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        used[rows] = max(map(int, result.stdout.split())) * 1024
    assert used[10_000] < used[1_000] + 30e6
    assert used[10_000] < 10_000 * 8_000  # the contexts alone
