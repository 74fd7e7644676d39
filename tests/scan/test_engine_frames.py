"""Frames of DuckDB and Polars give the answers of memory, and say what is wrong with their rows."""

import narwhals as nw
import numpy as np
import pyarrow as pa
import pytest

import tether
from tests.scan import tables
from tether._core.kernels import merge_all
from tether.control.constraint import Constraint
from tether.control.parts.bin_sums import bin_terms
from tether.control.parts.ratio_bins import Bins
from tether.control.parts.term_kernels import BinRows
from tether.scan import engine_frames, engine_two_losses
from tether.scan.engine_frames import FrameSource, whole_items

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
@pytest.mark.parametrize("two_losses", [False, True])
@pytest.mark.parametrize(
    ("alpha", "bound", "ratio_error"), [(0.15, 1.0, 1.0), (1e-4, 1.0, 1.0), (0.3, 900.0, 1.5)]
)
def test_the_group_by_of_an_engine_is_the_table_of_the_kernel(
    tmp_path, engine, alpha, bound, ratio_error, two_losses, monkeypatch
):
    rng = np.random.default_rng(1)
    columns = tables.log_columns(rng, 3000)
    columns["loss"] = np.where(rng.random(3000) < 0.1, bound, 1.0) * rng.random(3000)
    if two_losses:
        columns["loss"] = np.where(rng.random(3000) < 0.1, bound, 0.0)
    tables._write(tmp_path, [columns])
    log = tether.Log.scan(ENGINES[engine](tmp_path), context=None)
    job = BinRows((Constraint("loss", alpha, bound, ratio_error),), 0.0, Bins())
    (grouped,) = log.reduce(job)
    survey = log.survey
    monkeypatch.setattr(engine_frames, "grouped_summary", lambda frame, kernel: None)
    other = tether.Log.scan(ENGINES[engine](tmp_path), context=None)
    (streamed,) = other.reduce(job)
    assert survey == other.survey
    assert grouped.largest == streamed.largest

    def sums(table):
        """Signed sums by bin."""
        scale = np.where(table.negative, -1.0, 1.0) * 256.0**table.power
        both = [
            (table.digits[:, k] * 2.0**26 + table.digits[:, k + 1]) * 2.0**-46 * scale
            for k in (0, 2)
        ]
        bins, place = np.unique(table.bin * 2 + table.negative, return_inverse=True)
        return [bins, *(np.bincount(place, each) for each in (*both, table.count))]

    for one, two in zip(sums(grouped.tables[0]), sums(streamed.tables[0]), strict=True):
        assert one == pytest.approx(two, rel=1e-11, abs=1e-13 * alpha)


def test_a_bin_with_more_rows_than_expected_is_grouped_again_with_fewer_digits(monkeypatch):
    asked = []

    def grouped(rows, bound, digits, original=engine_two_losses._grouped):
        asked.append(digits)
        return original(rows, bound, digits)

    monkeypatch.setattr(engine_two_losses, "_grouped", grouped)
    monkeypatch.setattr(engine_two_losses, "SUM_DIGITS", 50)
    rng = np.random.default_rng(2)
    rows = {"loss": rng.integers(0, 2, 3000).astype(float), "ratio": 1e-3 * rng.random(3000)}
    constraint = Constraint("loss", 0.1, 1.0)
    table = engine_two_losses.two_losses_table(
        nw.from_native(polars.LazyFrame(rows)), constraint, 3000
    )
    assert len(asked) == 2
    assert asked[1] < asked[0]
    expected = bin_terms(Bins(), rows["ratio"], constraint.signed(rows["loss"]), None)
    assert np.array_equal(table.key, expected.key)
    assert np.array_equal(table.count, expected.count)
    assert table.digits[:, 0] == pytest.approx(expected.digits[:, 0])
    assert table.digits[:, 2] == pytest.approx(expected.digits[:, 2], rel=1e-9)


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
