"""Parquet files: which are read, what is refused, and that their rows are those of memory."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.progress_reporter import Counted
from tether._core import progress
from tether._core.rows import Rows
from tether.scan import open_rows
from tether.scan.files import find_files

NAMES = {"x": "a", "table": ("b", "c"), "draws": "lists"}


def columns(rng, rows):
    lists = pa.array(list(rng.random((rows, 3))), type=pa.list_(pa.float64()))
    return {
        **{name: rng.random(rows) for name in "abc"},
        "lists": lists,
        "day": rng.integers(0, 3, rows),
    }


def write(folder, sizes=(40, 0, 25), seed=0, **options):
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    tables = [pa.table(columns(rng, rows)) for rows in sizes]
    for number, table in enumerate(tables):
        parquet.write_table(table, folder / f"{number:03}.parquet", **options)
    return pa.concat_tables(tables)


def in_memory(table):
    lists = np.array(table["lists"].to_pylist()).reshape(table.num_rows, 3)
    b, c = table["b"].to_numpy(), table["c"].to_numpy()
    return Rows({"x": table["a"].to_numpy(), "table": np.column_stack((b, c)), "draws": lists})


def kernel(block):
    return {
        "sum": np.append(block["table"].sum(axis=0), block["draws"].sum()),
        "most": block["x"].max(),
        "logs": np.logaddexp.reduce(block["x"]),
        "all": block["x"],
    }


HOW = {"sum": "sum", "most": "max", "logs": "logsum", "all": "concat"}


def assert_same(rows, other, size=1 << 15):
    found, wanted = rows.reduce(kernel, HOW, size), other.reduce(kernel, HOW)
    for name in HOW:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12)
    assert len(rows) == len(other)


@settings(max_examples=20)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(sum),
    st.integers(1, 40),
    st.integers(1, 12),
)
def test_any_cutting_gives_the_rows_of_memory(tmp_path_factory, sizes, size, group):
    folder = tmp_path_factory.mktemp("files")
    table = write(folder, sizes, row_group_size=group)
    assert_same(open_rows(folder, NAMES), in_memory(table), size)


def test_paths_globs_lists_and_hidden_files(tmp_path):
    folder = tmp_path / "log"
    table = write(folder)
    (folder / "sub").mkdir()
    write(folder / ".hidden", (3,))
    write(folder / "_temporary", (3,))
    (folder / "notes.txt").write_text("not data")
    (folder / ".000.parquet").write_text("not data")
    files = [folder / f"{number:03}.parquet" for number in range(3)]
    for source in (folder, str(folder), f"{folder}/*.parquet", f"{tmp_path}/**/0*.parquet", files):
        assert_same(open_rows(source, NAMES), in_memory(table))
    assert find_files(files[0])[1] == [str(files[0])]
    for nothing in (tmp_path / "nothing", folder / "sub"):
        with pytest.raises(FileNotFoundError, match="source"):
            open_rows(nothing, NAMES)
    (tmp_path / "link").symlink_to(folder)
    for again in (files[1], tmp_path / "link"):
        with pytest.raises(ValueError, match="twice"):
            open_rows([folder, again], NAMES)


def test_conditions_on_columns_and_folders(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    one, two = write(folder / "month=1"), write(folder / "month=2", seed=1)
    chosen = open_rows(folder, NAMES, ds.field("month") == 2)
    assert_same(chosen, in_memory(two))
    assert len(open_rows(folder, NAMES, (ds.field("month") == 1) & (ds.field("day") > 0))) == (
        one.filter(ds.field("day") > 0).num_rows
    )
    with pytest.raises(ValueError, match="where"):
        open_rows(folder, NAMES, ds.field("year") == 1)
    with pytest.raises(TypeError, match="where"):
        open_rows(folder, NAMES, "month = 1")
    empty = open_rows(folder, NAMES, ds.field("day") > 5)
    with pytest.raises(ValueError, match="no rows"):
        empty.reduce(kernel, HOW)


def test_columns_that_are_missing_are_said_all_at_once(tmp_path):
    write(tmp_path)
    with pytest.raises(ValueError, match=r"000\.parquet has no column 'loss', 'score'"):
        open_rows(tmp_path, {"x": "loss", "table": ("b", "score")})
    table = parquet.read_table(tmp_path / "002.parquet")
    parquet.write_table(table.drop_columns(["b"]), tmp_path / "002.parquet")
    with pytest.raises(ValueError, match=r"002\.parquet has no column 'b'"):
        open_rows(tmp_path, NAMES)


def test_numbers_of_every_kind_are_floats_and_other_columns_are_refused(tmp_path):
    for number, values in enumerate(([1, 0], [True, False], pa.array([0.5, 1], pa.float32()))):
        parquet.write_table(pa.table({"a": values}), tmp_path / f"{number}.parquet")
    parquet.write_table(pa.table({"a": pa.array([None], pa.null())}), tmp_path / "3.parquet")
    found = open_rows(tmp_path, {"x": "a"}).reduce(lambda block: {"x": block["x"]}, {"x": "concat"})
    np.testing.assert_array_equal(found["x"], [1, 0, 1, 0, 0.5, 1, np.nan])
    parquet.write_table(pa.table({"a": ["0.5"]}), tmp_path / "4.parquet")
    with pytest.raises(TypeError, match=r"4\.parquet: the column 'a' holds strings"):
        open_rows(tmp_path, {"x": "a"})
    parquet.write_table(pa.table({"a": [[1.0], [1.0, 2.0]]}), tmp_path / "lists.pq")
    with pytest.raises(ValueError, match=r"lists\.pq: the column 'a' .* same length"):
        list(open_rows(tmp_path / "lists.pq", {"x": "a"}).blocks())
    parquet.write_table(pa.table({"a": [{"z": 1}]}), tmp_path / "records.pq")
    with pytest.raises(TypeError, match=r"records\.pq: the column 'a' holds struct"):
        list(open_rows(tmp_path / "records.pq", {"x": "a"}).blocks())


def test_values_are_checked_once_and_an_error_names_file_and_rows(tmp_path):
    write(tmp_path, (40, 0, 25))
    seen = []

    def check(block):
        seen.append(len(block["x"]))
        if block["x"].min() < 0:
            raise ValueError(f"x must not be negative, got {block['x'].min()}")

    rows = open_rows(tmp_path, NAMES, check=check, derive=lambda block: {**block, "y": block["x"]})
    for _ in range(2):
        assert all((block["y"] == block["x"]).all() for block in rows.blocks())
    assert sum(seen) == 65
    table = parquet.read_table(tmp_path / "002.parquet")
    table = table.set_column(0, "a", pa.array(-table["a"].to_numpy()))
    parquet.write_table(table, tmp_path / "002.parquet")
    with pytest.raises(ValueError, match=r"002\.parquet: x must not be negative, .* row 0"):
        open_rows(tmp_path, NAMES, check=check).reduce(kernel, HOW)


def test_files_that_are_written_again_or_removed_are_an_error(tmp_path):
    write(tmp_path)
    rows = open_rows(tmp_path, NAMES)
    rows.reduce(kernel, HOW)
    write(tmp_path, seed=5)
    os.utime(tmp_path / "000.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"000\.parquet: the file has changed"):
        rows.reduce(kernel, HOW)
    rows = open_rows(tmp_path, NAMES)
    (tmp_path / "002.parquet").unlink()
    with pytest.raises(ValueError, match=r"002\.parquet: the file was removed"):
        rows.reduce(kernel, HOW)
    write(tmp_path, (5,) * 40)
    passing = open_rows(tmp_path, NAMES).blocks()  # a pass has begun
    next(passing)
    os.utime(tmp_path / "001.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"001\.parquet: the file has changed"):
        list(passing)


def test_damaged_files_are_named(tmp_path):
    write(tmp_path, (4000, 4000, 4000), write_page_checksum=True, compression="none")
    whole = (tmp_path / "001.parquet").read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[:cut] for cut in (0, 3, len(whole) // 2, len(whole) - 1)]
    for place in (20, *rng.integers(100, 60_000, 5)):
        damaged.append(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
    for content in damaged:
        (tmp_path / "001.parquet").write_bytes(content)
        with pytest.raises(ValueError, match=r"001\.parquet: cannot be read"):
            open_rows(tmp_path, NAMES).reduce(kernel, HOW)


def test_progress_is_reported_in_rows(tmp_path):
    write(tmp_path)
    reporter, rows = Counted(), open_rows(tmp_path, NAMES)
    rows.reduce(kernel, HOW)  # before which nobody knows how many there are
    with progress.reported_to(reporter):
        rows.reduce(kernel, HOW)
    assert list(reporter.steps.values()) == [[65, 65]]
    with pytest.raises(ValueError, match="in memory"):
        _ = rows.columns
