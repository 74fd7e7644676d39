"""A run leaves its store as one file that people can read, from which it can be audited."""

import json
import os
import stat
import subprocess
import sys

import numpy as np
import pyarrow.compute as compute
import pyarrow.parquet as parquet
import pytest
import sqlalchemy as sql
from hypothesis import given
from hypothesis import strategies as st

import tether
from tests.rounds.export_audit import recompute_calibrations
from tests.rounds.small_runs import files_in
from tests.rounds.store.exported_runs import make_run
from tests.rounds.worlds import WORLDS, World
from tether.rounds import Controller, StoreError, TamperedError, export_run
from tether.rounds.store.arrow_content import content_type, from_arrow, to_arrow
from tether.rounds.store.codecs import Codec
from tether.rounds.store.database import Store


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


def test_people_read_actions_with_their_losses_in_plain_columns(tmp_path):
    make_run(World("tables"), tmp_path / "run.db", rounds=2, rows=30)
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    columns = ["kind", "id", "round", "context", "action", "loss", "reward", "reason"]
    frame = parquet.read_table(tmp_path / "run.parquet", columns=columns).to_pandas()
    actions = frame[frame["kind"] == "action"]
    assert actions["id"].tolist() == list(range(1, 81))
    assert set(actions["action"]) <= {"a", "b", "c"}
    assert {len(context) for context in actions["context"]} == {2}
    observed = frame[frame["kind"] == "observation"]
    assert set(observed["id"]) <= set(actions["id"])
    assert observed["loss"].notna().sum() == 65
    assert observed["reason"].dropna().tolist() == ["the <power> failed"] * 3
    rounds = [json.loads(text) for text in frame_records(tmp_path / "run.parquet", "round")]
    assert [row["number"] for row in rounds] == [1, 2]


def frame_records(path, kind):
    table = parquet.read_table(path, columns=["kind", "record"])
    return table.filter(compute.equal(table["kind"], kind))["record"].to_pylist()


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


def test_stores_without_a_run_are_refused_and_leave_no_file(tmp_path):
    with pytest.raises(StoreError, match="there is no store"):
        export_run(tmp_path / "none.db", tmp_path / "none.parquet")
    assert not os.listdir(tmp_path)
    Store(tmp_path / "empty.db").close()
    with pytest.raises(StoreError, match="holds no run of tether yet"):
        export_run(tmp_path / "empty.db", tmp_path / "none.parquet")
    assert not (tmp_path / "none.parquet").exists()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tether_actions SET action = x'00' WHERE id = 3",
        "UPDATE tether_columns SET [values] = x'0011' WHERE start = 0",
    ],
)
def test_a_store_that_cannot_be_decoded_is_not_exported(tmp_path, change):
    make_run(World("marginal"), tmp_path / "run.db", rounds=2, rows=40)
    engine = sql.create_engine(f"sqlite:///{tmp_path / 'run.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql(change)
    engine.dispose()
    with pytest.raises(TamperedError):
        export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    assert not (tmp_path / "run.parquet").exists()


def test_a_failure_while_writing_leaves_an_older_file_as_it_was(tmp_path, monkeypatch):
    make_run(World("marginal"), tmp_path / "run.db", rounds=1, rows=20)
    path = tmp_path / "run.parquet"
    path.write_bytes(b"older")

    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", broken)
    with pytest.raises(OSError, match="No space left"):
        export_run(tmp_path / "run.db", path, overwrite=True)
    assert path.read_bytes() == b"older"
    assert files_in(tmp_path) == ["run.db", "run.parquet"]


NUMBER_TYPES = ["<f8", "<f4", "<f2", "<i8", "<u8", "|i1", "|u1", "|b1", np.dtype(np.longdouble).str]


@given(
    data=st.data(), dtype=st.sampled_from(NUMBER_TYPES), shape=st.sampled_from([(), (1,), (2, 3)])
)
def test_numbers_come_back_bit_by_bit(data, dtype, shape):
    codec = Codec("numbers", dtype, shape)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    byte = st.integers(0, 1) if dtype == "|b1" else st.integers(0, 255)
    row = st.lists(byte, min_size=size, max_size=size).map(bytes)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    column = to_arrow("contexts", codec, rows)
    assert column.type == content_type(codec)
    assert from_arrow("contexts", codec, column) == rows


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_text_comes_back_unchanged(texts):
    rows = [text.encode() for text in texts]
    codec = Codec("text")
    assert from_arrow("contexts", codec, to_arrow("contexts", codec, rows)) == rows


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
