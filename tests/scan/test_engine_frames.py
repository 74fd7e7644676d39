"""Frames of DuckDB and Polars give the answers of memory, and say what is wrong with their rows."""

import numpy as np
import pyarrow as pa
import pytest

import tether
from tests.scan import tables
from tether._core.kernels import merge_all
from tether.control.constraint import Constraint
from tether.control.parts.ratio_bins import Bins
from tether.control.parts.term_kernels import BinRows
from tether.scan import engine_frames
from tether.scan.engine_frames import FrameSource, regrouped, whole_items

duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
polars = pytest.importorskip("polars", reason="needs polars")
ENGINES = {
    "duckdb": lambda folder: duckdb.read_parquet(f"{folder}/*.parquet"),
    "polars": lambda folder: polars.scan_parquet(f"{folder}/*.parquet"),
}
CLAIMS = {"scores": "score", "supported": "label", "items": "item"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_log_has_the_beta_of_memory(tmp_path, engine, family):
    columns = tables.write_log(tmp_path)
    options = {"alpha": 0.15, "test_weight": "analytic" if family == "clip" else 20.0}
    expected = tether.calibrate(
        tether.Log.from_frame(columns, context=None), family=family, **options
    )
    log = tether.Log.scan(ENGINES[engine](tmp_path), context=None)
    found = tether.calibrate(log, family=family, **options)
    assert abs(np.log(found.beta / expected.beta)) <= 1e-10
    assert found.promise == pytest.approx(expected.promise, rel=1e-7)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_batches_of_an_engine_merge_to_the_bits_of_one_part(tmp_path, engine, monkeypatch):
    columns = tables.write_log(tmp_path)
    monkeypatch.setattr(engine_frames, "ROWS_PER_ENGINE_BATCH", 701)
    monkeypatch.setattr(engine_frames, "MOST_BYTES_AT_ONCE", 701 * 3 * 8)
    monkeypatch.setattr(engine_frames, "FEWEST_ROWS_ALONE", 100)
    job = BinRows((Constraint("loss", 0.15, 1.0),), 0.0, Bins())
    log = tether.Log.scan(ENGINES[engine](tmp_path), context=None)
    (found,) = log.reduce(job)
    whole = tether.Log.scan(lambda kernel: [kernel.partial(columns)], context=None)
    (expected,) = whole.reduce(job)
    assert log.survey == whole.survey
    assert found.largest == expected.largest
    for name in ("key", "count", "digits"):
        assert np.array_equal(getattr(found.tables[0], name), getattr(expected.tables[0], name))


@pytest.mark.parametrize("engine", ENGINES)
def test_claims_have_the_threshold_of_memory_though_rows_are_in_any_order(tmp_path, engine):
    columns = tables.write_claims(tmp_path)
    memory = tether.Claims.from_table(columns["score"], columns["label"], columns["item"])
    expected = tether.gcrc(memory, alpha=0.2)
    shuffled = tmp_path / "shuffled"
    order = np.random.default_rng(5).permutation(len(columns["item"]))
    tables._write(
        shuffled, [{k: v[part] for k, v in columns.items()} for part in np.array_split(order, 3)]
    )
    found = tether.gcrc(tether.Claims.scan(ENGINES[engine](shuffled), **CLAIMS), alpha=0.2)
    assert (found.threshold, found.kept) == (expected.threshold, expected.kept)
    assert found.promise == pytest.approx(expected.promise, rel=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_wrong_rows_are_errors_that_say_what_is_wrong(tmp_path, engine):
    tables.write_log(tmp_path)
    log = tether.Log.scan(ENGINES[engine](tmp_path), context=None)
    with pytest.raises(ValueError, match=f"{engine}: .*bound = 0.5"):
        tether.calibrate(log, alpha=0.15, bound=0.5, test_weight="analytic")
    with pytest.raises(ValueError, match="loses"):
        tether.calibrate(
            tether.Log.scan(ENGINES[engine](tmp_path), context=None, loss="loses"), alpha=0.15
        )
    loss = np.zeros(2000)
    loss[7] = np.nan
    tables.replace_column(tmp_path / "0002.parquet", "loss", loss)
    log = tether.Log.scan(ENGINES[engine](tmp_path), context=None)
    with pytest.raises(ValueError, match=f"{engine}: loss.*nan"):
        tether.calibrate(log, alpha=0.15, test_weight="analytic")
    (tmp_path / "0003.parquet").write_bytes((tmp_path / "0003.parquet").read_bytes()[:500])
    shown = r"0003\.parquet" if engine == "duckdb" else "polars cannot read the rows"
    with pytest.raises(ValueError, match=shown):
        tether.calibrate(
            tether.Log.scan(ENGINES[engine](tmp_path), context=None),
            alpha=0.15,
            test_weight="analytic",
        )


def test_duckdb_tells_the_file_of_a_wrong_row_and_can_be_asked_again(tmp_path):
    tables.write_log(tmp_path)
    loss = np.zeros(2000)
    loss[7] = np.nan
    tables.replace_column(tmp_path / "0002.parquet", "loss", loss)
    connection = duckdb.connect()
    relation = connection.read_parquet(f"{tmp_path}/*.parquet")
    for frame in (relation, relation.filter("log_safe < 100")):
        with pytest.raises(ValueError, match=r"loss\[.*; it is in .*0002\.parquet"):
            tether.calibrate(tether.Log.scan(frame, context=None), alpha=0.15)
    columns = "loss, log_safe, log_optimized + 1 AS log_optimized"
    derived = connection.sql(f"SELECT {columns} FROM '{tmp_path}/*.parquet'")
    with pytest.raises(ValueError, match=r"loss\[.*counted from row \d+\)"):
        tether.calibrate(tether.Log.scan(derived, context=None), alpha=0.15)
    # An error that is kept, as a notebook does, holds no open result.
    good = connection.read_parquet(f"{tmp_path}/0001.parquet")
    with pytest.raises(ValueError, match="bound") as kept:
        tether.calibrate(tether.Log.scan(good, context=None), alpha=0.1, bound=0.5)
    assert connection.sql("SELECT 1").fetchall() == [(1,)], kept


def test_a_column_of_polars_tells_the_file_of_a_wrong_row(tmp_path):
    tables.write_log(tmp_path)
    loss = np.zeros(2000)
    loss[7] = np.nan
    tables.replace_column(tmp_path / "0002.parquet", "loss", loss)
    shown = r"polars: loss\[\d+\] is nan.*\(1 such value"
    plain = polars.scan_parquet(tmp_path)
    for frame in (plain, plain.with_columns(unit=polars.lit("m"))):
        with pytest.raises(ValueError, match=f"{shown}.*scan the folder.*include_file_paths"):
            tether.calibrate(tether.Log.scan(frame, context=None), alpha=0.15)
    named = polars.scan_parquet(tmp_path, include_file_paths="from where")
    for frame in (named, named.filter(polars.col("log_safe") < 100), named.sort("log_safe")):
        with pytest.raises(ValueError, match=rf"{shown}.*'from where' says .*0002\.parquet"):
            tether.calibrate(tether.Log.scan(frame, context=None), alpha=0.15)


def test_polars_takes_a_file_of_zero_bytes_for_one_without_rows_and_a_folder_refuses_it(tmp_path):
    """As the documentation says; Polars gives no sign of it."""
    tables.write_log(tmp_path)
    before = len(tether.Log.scan(polars.scan_parquet(tmp_path), context=None))
    (tmp_path / "9999.parquet").touch()
    assert len(tether.Log.scan(polars.scan_parquet(tmp_path), context=None)) == before
    with pytest.raises(ValueError, match=r"9999\.parquet: cannot be read"):
        len(tether.Log.scan(tmp_path, context=None))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_page_that_cannot_be_decoded_is_an_error_of_the_engine(tmp_path, engine):
    tables.write_log(tmp_path)
    path = tmp_path / "0003.parquet"
    content = bytearray(path.read_bytes())
    content[20 : len(content) // 2] = bytes(len(content) // 2 - 20)
    path.write_bytes(bytes(content))
    log = tether.Log.scan(ENGINES[engine](tmp_path), context=None)
    with pytest.raises(ValueError, match=f"{engine} cannot read the rows: .*(parquet|the folder)"):
        tether.calibrate(log, alpha=0.15, test_weight="analytic")


@pytest.mark.parametrize("change", ["values", "rows"])
def test_a_frame_that_gives_other_rows_in_a_later_pass_is_an_error(tmp_path, change):
    tables.write_log(tmp_path)
    log = tether.Log.scan(ENGINES["duckdb"](tmp_path), context=None)
    assert len(log) == 6000
    if change == "values":
        tables.replace_column(tmp_path / "0002.parquet", "loss", np.zeros(2000))
    else:
        (tmp_path / "0002.parquet").unlink()
    message = "other values of 'loss'" if change == "values" else "6,000 rows and then 4,000"
    with pytest.raises(ValueError, match=f"duckdb: .*other rows than in an .*: {message}"):
        tether.calibrate(log, alpha=0.15, test_weight="analytic")


def test_batches_are_cut_between_items():
    item = pa.array([1, 1, 2, 2, 2, 2, 3, 3, 4])
    whole = pa.RecordBatch.from_arrays([item], ["item"])
    for sizes in ([3, 3, 3], [1] * 9, [9], [2, 7], [8, 1], [4, 1, 4]):
        starts = np.cumsum([0, *sizes])[:-1]
        batches = (whole.slice(a, n) for a, n in zip(starts, sizes, strict=True))
        parts = [set(part.column("item").to_pylist()) for part in whole_items(batches, "item")]
        assert sorted(set.union(*parts)) == [1, 2, 3, 4]
        assert sum(len(part) for part in parts) == 4


def test_a_frame_shows_its_engine():
    source = FrameSource(polars.LazyFrame({"a": [1.0]}))
    assert repr(source) == "FrameSource(polars, columns ['a'])"
    assert merge_all([]) is None


def test_large_batches_are_sliced_and_small_ones_joined_in_order(monkeypatch):
    monkeypatch.setattr(engine_frames, "MOST_BYTES_AT_ONCE", 10 * 8)
    monkeypatch.setattr(engine_frames, "FEWEST_ROWS_ALONE", 4)
    sizes, rows = [1, 0, 2, 25, 4, 3, 3, 2, 1], np.arange(41)
    ends = np.cumsum(sizes)
    batches = [
        pa.record_batch({"row": rows[end - size : end]})
        for size, end in zip(sizes, ends, strict=True)
    ]
    found = list(regrouped(iter(batches)))
    assert [batch.num_rows for batch in found] == [3, 10, 10, 5, 4, 6, 3]
    assert np.concatenate([batch.column("row") for batch in found]).tolist() == rows.tolist()
    whole = batches[3].column("row").buffers()[1].address
    sliced = [batch.column("row").buffers()[1].address for batch in found[1:4]]
    assert sliced == [whole] * 3  # without a copy
    assert list(regrouped(iter([]))) == []
