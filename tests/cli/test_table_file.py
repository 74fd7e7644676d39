"""Parquet and CSV files, column by column, with bounded memory."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tether.cli import memory_limit, table_file
from tether.cli.table_file import Wanted, read_columns

COLUMNS = {
    "number": np.linspace(-1, 1, 500),
    "count": np.arange(500),
    "flag": np.arange(500) % 2 == 0,
    "name": np.array([f"ward {k % 7} ✓" for k in range(500)]),
    "unused": np.zeros(500),
}
NAMES = ("number", "count", "flag", "name")


@pytest.fixture(params=["parquet", "csv", "csv.gz"])
def path(request, tmp_path):
    return write(tmp_path / f"table.{request.param}", pa.table(COLUMNS))


def write(path, table):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=130)
    elif path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        with pa.CompressedOutputStream(str(path), "gzip") as stream:
            csv.write_csv(table, stream)
    return path


def test_columns_are_read_with_their_types_and_others_are_only_named(path, monkeypatch):
    monkeypatch.setattr(table_file, "ROWS_PER_BATCH", 37)
    found = read_columns(path, Wanted(NAMES, numbers={"number", "count"}))
    assert found.column_names == list(COLUMNS)
    assert set(found.arrays) == set(NAMES)
    for name in NAMES:
        np.testing.assert_array_equal(found[name], COLUMNS[name])
        assert found.missing[name] == 0
    kinds = {name: found[name].dtype.kind for name in NAMES}
    assert kinds == {"number": "f", "count": "f", "flag": "b", "name": "U"}
    assert read_columns(path, Wanted({"count"}))["count"].dtype.kind == "i"


def test_prefixes_choose_columns(tmp_path):
    table = pa.table({f"log_safe_all_{k}": [0.5, 1.5] for k in range(3)} | {"loss": [1, 2]})
    found = read_columns(write(tmp_path / "t.parquet", table), Wanted((), ("log_safe_all_",)))
    assert list(found.arrays) == ["log_safe_all_0", "log_safe_all_1", "log_safe_all_2"]


@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [("1", "2.5", "f"), ("1", "x", "U"), ("1.5", "x", "U"), ("true", "maybe", "U"), ("", "3", "f")],
)
def test_a_csv_column_takes_the_type_of_all_its_values(first, later, kind, tmp_path, monkeypatch):
    """Also where the first block suggests another one: as `pandas` and `pyarrow` read it."""
    monkeypatch.setattr(table_file, "CSV_BLOCK_BYTES", 64)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + f"0,{first}\n" * 40 + f"0,{later}\n")
    for chosen in ({"a", "b"}, {"b"}):
        found = read_columns(path, Wanted(chosen))
        assert found["b"].dtype.kind == kind
    assert len(found["b"]) == 41
    expected = csv.read_csv(path)["b"].to_numpy(zero_copy_only=False)
    if kind == "U":
        assert found["b"].tolist() == expected.tolist()
    else:
        np.testing.assert_array_equal(found["b"], expected.astype(float))


def test_a_number_among_words_is_an_error_that_shows_the_word(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n2\n")
    (tmp_path / "long.csv").write_text("a\n" + "1\n" * 10 + "word\n")
    assert read_columns(path, Wanted({"a"}, numbers={"a"}))["a"].dtype == np.float64
    assert read_columns(tmp_path / "long.csv", Wanted({"a"}))["a"][-1] == "word"


def test_missing_values_are_nan_counted_or_refused(tmp_path):
    table = pa.table(
        {
            "number": pa.array([1.0, None]),
            "count": pa.array([1, None]),
            "name": pa.array(["a", None]),
            "flag": pa.array([True, None]),
            "time": pa.array([np.datetime64("2026-01-01", "s"), None]),
        }
    )
    path = write(tmp_path / "t.parquet", table)
    found = read_columns(path, Wanted({"number", "count", "name", "time"}))
    assert set(found.missing.values()) == {1}
    np.testing.assert_array_equal(found["count"], [1, np.nan])
    assert found["name"].tolist() == ["a", None]
    assert np.isnat(found["time"][1])
    with pytest.raises(ValueError, match="column 'flag' has 1 missing"):
        read_columns(path, Wanted({"flag"}))


@pytest.mark.parametrize("values", [[[1.0]], [{"a": 1}], [b"x"]])
def test_columns_without_values_of_their_own_are_refused(values, tmp_path):
    path = write(tmp_path / "t.parquet", pa.table({"a": values}))
    with pytest.raises(ValueError, match="column 'a' must hold numbers, booleans, text or times"):
        read_columns(path, Wanted({"a"}))


def test_a_dictionary_is_text(tmp_path):
    table = pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode()})
    path = write(tmp_path / "t.parquet", table)
    assert read_columns(path, Wanted({"a"}))["a"].tolist() == ["x", "y", "x"]


def test_ambiguous_columns_are_left_to_the_caller(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,a,b\n1,2,3\n")
    found = read_columns(path, Wanted({"a", "b"}))
    assert found.column_names == ["a", "a", "b"]
    assert list(found.arrays) == ["b"]


def test_a_file_that_lies_about_its_rows_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", pa.table({"a": np.zeros(100)}))
    real = parquet.ParquetFile.iter_batches
    for factor, message in ((0.5, "states 100 rows but has 50"), (2, "more than the 100 rows")):

        def lie(self, factor=factor, **options):
            for batch in real(self, **options):
                rows = int(factor * batch.num_rows)
                yield pa.RecordBatch.from_arrays([pa.array(np.zeros(rows))], names=["a"])

        monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lie)
        with pytest.raises(ValueError, match=message):
            read_columns(path, Wanted({"a"}))


def test_too_many_rows_are_refused_before_they_are_read(path, monkeypatch):
    with pytest.raises(ValueError, match=r"has 500 rows, and --max-rows is 100"):
        read_columns(path, Wanted(NAMES), max_rows=100)
    monkeypatch.setattr(memory_limit, "physical_memory", lambda: 10_000)
    monkeypatch.setattr(np, "empty", None)
    with pytest.raises(ValueError, match=r"rows of \d+ bytes in 4 columns, which would take about"):
        read_columns(path, Wanted(NAMES))


def test_rows_that_are_asked_for_are_read_whatever_the_memory(path, monkeypatch):
    monkeypatch.setattr(memory_limit, "physical_memory", lambda: 10_000)
    assert len(read_columns(path, Wanted(NAMES), max_rows=500)["count"]) == 500


def test_one_long_text_counts_for_every_row(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", pa.table({"a": ["x"] * 999 + ["y" * 10_000]}))
    monkeypatch.setattr(memory_limit, "physical_memory", lambda: 10**8)
    with pytest.raises(ValueError, match="rows of 40,004 bytes in 1 columns"):
        read_columns(path, Wanted({"a"}))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "cannot be read: Empty CSV"),
        ("t.csv", b"a,b\n", "has no rows"),
        (
            "t.csv",
            b"a;b\n1;2\n",
            "has a single column 'a;b': its columns are separated by ';'",
        ),
        ("t.csv", b"a,b\n1\n", "cannot be read: CSV parse error"),
        ("t.csv", b"\xff\xfe\n1\n", "cannot be read"),
        ("t.parquet", b"", "cannot be read"),
        ("t.parquet", b"PAR1PAR1", "cannot be read"),
        ("t.csv.gz", b"no gzip", "cannot be read"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + os.urandom(99).hex().encode())[:-30], "be read"),
        ("t.txt", b"a", r"must end in .parquet, .csv or .csv.gz"),
    ],
)
def test_unreadable_files_are_named(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_columns(tmp_path / name, Wanted({"a", "b"}))
    assert name in str(raised.value)


def test_physical_memory_is_plausible():
    assert 2**26 < memory_limit.physical_memory() < 2**50


MEASURE = """
import sys
from pathlib import Path
from tether.cli.table_file import Wanted, read_columns
path, names = Path(sys.argv[1]), sys.argv[2].split(",")
small = Path(sys.argv[3])
def peak():  # not ru_maxrss, which a child process inherits from its parent
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
read_columns(small, Wanted(names, numbers=names))
before = peak()
table = read_columns(path, Wanted(names, numbers=names))
assert len(table[names[0]]) > 10**6
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_reading_takes_little_more_memory_than_the_columns_that_are_needed(suffix, tmp_path):
    """Four million rows that compress to little; eight columns, of which two are read."""
    rows, names = 4_000_000, ["c1", "c2"]
    for name, count in (("large", rows), ("small", 10)):
        if suffix == "parquet":
            table = pa.table({f"c{k}": np.zeros(count) for k in range(8)})
            parquet.write_table(table, tmp_path / f"{name}.parquet")
        else:
            header = ",".join(f"c{k}" for k in range(8))
            (tmp_path / f"{name}.csv").write_text(f"{header}\n" + "0,0,0,0,0,0,0,0\n" * count)
    command = [sys.executable, "-c", MEASURE, tmp_path / f"large.{suffix}", ",".join(names),
               tmp_path / f"small.{suffix}"]  # fmt: skip
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    needed = rows * 8 * len(names)
    assert 0.9 * needed < int(done.stdout) < needed + 96 * 2**20  # blocks, batches


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_refused_by_name(tmp_path, encoding):
    path = tmp_path / "table.csv"
    path.write_bytes("\ufeffname,number\na,1\n".encode(encoding))
    with pytest.raises(ValueError, match=r"table\.csv cannot be read: it is text in UTF-16; save"):
        read_columns(path, Wanted({"number"}))
