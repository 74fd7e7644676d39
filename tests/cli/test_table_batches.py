"""Rows of a file, a batch at a time."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tether.cli import table_batches, table_file
from tether.cli.table_batches import read_batches


def read(path):
    return list(read_batches(path, texts=("key", "system"), numbers=("a", "b")))


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(table_batches, "MAX_BATCH_ROWS", 30)
    monkeypatch.setattr(table_file, "CSV_BLOCK_BYTES", 400)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz"])
def test_batches_have_the_rows_of_the_file_in_order(tmp_path, small_batches, suffix):
    keys, values = [f"key {k}" for k in range(100)], np.arange(100) / 7
    table = pa.table({"a": values, "unused": values, "key": keys})
    path = tmp_path / f"table.{suffix}"
    if suffix == "parquet":
        parquet.write_table(table, path)
    elif suffix == "csv":
        csv.write_csv(table, path)
    else:
        with pa.CompressedOutputStream(str(path), "gzip") as stream:
            csv.write_csv(table, stream)
    batches = read(path)
    assert len(batches) > 2
    assert [each.first for each in batches] == np.cumsum([1] + [b.rows for b in batches])[
        :-1
    ].tolist()
    assert [key for each in batches for key in each.texts["key"]] == keys
    assert np.concatenate([each.numbers["a"] for each in batches]) == pytest.approx(values)
    assert all(list(each.texts) == ["key"] and list(each.numbers) == ["a"] for each in batches)


def test_keys_of_a_csv_file_stay_as_they_are(tmp_path):
    (tmp_path / "x.csv").write_text(
        "key,system,a,b\n007,,,true\n1e3,new,0.5,false\nNA,old,1,true\n"
    )
    (batch,) = read(tmp_path / "x.csv")
    assert batch.texts == {"key": ["007", "1e3", "NA"], "system": ["", "new", "old"]}
    assert np.array_equal(batch.numbers["a"], [np.nan, 0.5, 1], equal_nan=True)
    assert batch.numbers["b"].tolist() == [1, 0, 1]


def test_types_of_a_parquet_file(tmp_path):
    columns = {
        "key": pa.array([7, 2**60, 9]),
        "system": pa.array(["old", None, "new"]).dictionary_encode(),
        "a": pa.array([1, None, 0], pa.int8()),
        "b": pa.array([True, None, False]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet")
    (batch,) = read(tmp_path / "x.parquet")
    assert batch.texts == {"key": ["7", str(2**60), "9"], "system": ["old", "", "new"]}
    for name in ("a", "b"):
        assert np.array_equal(batch.numbers[name], [1, np.nan, 0], equal_nan=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": [1.0]}, "column 'key' must hold text or integers, got double"),
        ({"key": ["x"], "a": ["y"]}, "column 'a' must hold numbers, got string"),
        ({"key": pa.array([], pa.string())}, "has no rows"),
    ],
)
def test_wrong_columns(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"key,key\n1,2\n", "has 2 columns 'key'"),
        ("x.csv", b"key;a\n1;2\n", "separate them by commas"),
        ("x.csv", b"key,a\n1,x\n", "column 'a' must hold numbers, got 'x'"),
        ("x.csv", b"", "cannot be read"),
        ("x.parquet", b"PAR1", "cannot be read"),
        ("x.txt", b"key\n1\n", "must end in .parquet, .csv, .csv.gz or .jsonl"),
    ],
)
def test_wrong_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        read(tmp_path / "x.csv")


def test_a_word_in_a_column_of_losses_is_named_with_its_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("key,a\nx,1\ny,bad\n")
    with pytest.raises(ValueError, match="column 'a' must hold numbers, got 'bad': a loss is"):
        read(path)
