"""Parquet files as the rows of a log: the answer in memory, and errors that name the file."""

from __future__ import annotations

import os
import pickle
import threading
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

import tether
from tests.scan.tables import replace_column, write_log
from tether.scan import open_source
from tether.scan.data_files import find_files


def columns(rng, rows):
    actions = rng.normal(size=rows)
    return {
        "loss": (actions > 1.2).astype(float),
        "log_safe": -(actions**2) / 2,
        "log_optimized": -((actions - 1) ** 2) / 2,
        "unused": np.full(rows, "text"),
    }


def write(folder, parts, row_group_size=97):
    for number, part in enumerate(parts):
        path = folder / f"part-{number:04d}.parquet"
        parquet.write_table(pa.table(part), path, row_group_size=row_group_size)


def cut(whole, sizes):
    ends = np.cumsum([0, *sizes])
    return [
        {name: values[start:end] for name, values in whole.items()} for start, end in pairwise(ends)
    ]


@pytest.fixture
def world(tmp_path):
    whole = columns(np.random.default_rng(0), 1000)
    write(tmp_path, cut(whole, [400, 0, 1, 599]))
    return tmp_path, whole


def test_a_folder_a_glob_a_list_and_one_file_are_read(world):
    folder, whole = world
    memory = tether.calibrate(tether.Log.from_frame(whole, context=None), alpha=0.25)
    files = sorted(str(file) for file in folder.iterdir())
    for source in (folder, str(folder), str(folder / "part-*.parquet"), files):
        found = tether.calibrate(tether.Log.scan(source, context=None), alpha=0.25)
        assert found.log_beta == pytest.approx(memory.log_beta, abs=1e-12)
        assert found.rows == 1000
    one = tether.Log.scan(files[3], context=None)
    assert len(one) == 599


def test_files_in_another_order_or_cut_otherwise_give_the_same_bits(world, tmp_path_factory):
    folder, whole = world
    first = tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.25)
    order = np.random.default_rng(1).permutation(1000)
    shuffled = {name: values[order] for name, values in whole.items()}
    for sizes in ([1000], [1] * 20 + [980], [250] * 4):
        other = tmp_path_factory.mktemp("files")
        write(other, cut(shuffled, sizes))
        found = tether.calibrate(tether.Log.scan(other, context=None), alpha=0.25)
        assert found.log_beta == first.log_beta
        assert found.promise == first.promise
        assert found.provenance.log_digest == first.provenance.log_digest


def test_only_rows_that_where_keeps_are_read(world):
    folder, whole = world
    kept = whole["log_safe"] > -0.5
    chosen = {name: values[kept] for name, values in whole.items()}
    memory = tether.calibrate(tether.Log.from_frame(chosen, context=None), alpha=0.25)
    log = tether.Log.scan(folder, context=None, where=pc.field("log_safe") > -0.5)
    found = tether.calibrate(log, alpha=0.25)
    assert found.rows == kept.sum()
    assert found.log_beta == pytest.approx(memory.log_beta, abs=1e-12)


def test_a_nan_in_one_of_many_files_is_an_error_that_names_file_and_row(tmp_path):
    rng = np.random.default_rng(0)
    parts = [columns(rng, 3) for _ in range(1000)]
    parts[823]["log_optimized"][2] = np.nan
    write(tmp_path, parts)
    with pytest.raises(ValueError, match=r"part-0823\.parquet: log_optimized\[2\] is nan"):
        tether.calibrate(tether.Log.scan(tmp_path, context=None), alpha=0.2)
    parts = [columns(rng, 500)]
    parts[0]["loss"][432] = -1.0
    write(tmp_path, parts)
    with pytest.raises(ValueError, match=r"loss\[44\] is -1.*counted from row 388 of the file"):
        tether.calibrate(tether.Log.scan(tmp_path, context=None), alpha=0.2)


def test_missing_values_are_refused_like_nan(tmp_path):
    part = columns(np.random.default_rng(0), 30)
    part["loss"] = pa.array([0] * 20 + [None] + [1] * 9, pa.int32())
    write(tmp_path, [part])
    with pytest.raises(ValueError, match=r"part-0000\.parquet: loss\[20\] is nan"):
        tether.calibrate(tether.Log.scan(tmp_path, context=None), alpha=0.2)


@pytest.mark.parametrize("damage", ["truncated", "corrupt", "not a parquet file"])
def test_a_damaged_file_is_named(world, damage):
    folder, _ = world
    path = folder / "part-0003.parquet"
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    elif damage == "corrupt":
        content[2000:2400] = b"\xff" * 400
    else:
        content = bytearray(b"loss,log_safe\n")
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"part-0003\.parquet.*truncated or corrupt"):
        tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.2)


def test_a_column_that_is_missing_or_changes_its_type_is_named_with_its_file(world):
    folder, whole = world
    extra = {name: values[:10] for name, values in whole.items() if name != "log_optimized"}
    parquet.write_table(pa.table(extra), folder / "part-0009.parquet")
    with pytest.raises(ValueError, match=r"part-0009\.parquet: there is no column 'log_optimized'"):
        tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.2)
    extra["log_optimized"] = np.full(10, "-1.5")
    parquet.write_table(pa.table(extra), folder / "part-0009.parquet")
    with pytest.raises(TypeError, match=r"'log_optimized' holds (strings|numbers), but in .*part-"):
        tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.2)


def test_columns_of_lists_are_tables(tmp_path):
    table = pa.table(
        {
            "loss": [0.0, 1.0],
            "log_safe": np.log([0.5, 0.5]),
            "log_optimized": np.log([0.9, 0.9]),
            "log_safe_all": [np.log([0.5, 0.5]).tolist()] * 2,
            "log_optimized_all": [np.log([0.9, 0.1]).tolist()] * 2,
        }
    )
    parquet.write_table(table, tmp_path / "one.parquet")
    log = tether.Log.scan(tmp_path)
    assert log.has_tables
    assert tether.calibrate(log, alpha=0.9).actions == 2
    ragged = table.set_column(3, "log_safe_all", pa.array([[0.0], [-1.0, -1.0]]))
    parquet.write_table(ragged, tmp_path / "one.parquet")
    with pytest.raises(ValueError, match="lists of the same length"):
        tether.calibrate(tether.Log.scan(tmp_path), alpha=0.9)


def test_a_file_whose_tables_have_another_number_of_actions_is_named(tmp_path):
    for name, actions in (("one", 2), ("two", 3)):
        score = -float(np.log(actions))
        columns = {"loss": [0.0, 1.0], "log_safe": [score] * 2, "log_optimized": [score] * 2}
        columns |= {f"{each}_all": [[score] * actions] * 2 for each in tuple(columns)[1:]}
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    message = r"(one|two)\.parquet: the rows .* number of actions in their tables: [23] and [23]"
    with pytest.raises(ValueError, match=message):
        tether.calibrate(tether.Log.scan(tmp_path), alpha=0.9)


def test_no_files_files_named_twice_and_hidden_files(world):
    folder, _ = world
    with pytest.raises(FileNotFoundError, match="no Parquet files"):
        tether.Log.scan(folder / "none-*.parquet", context=None)
    with pytest.raises(ValueError, match="named twice"):
        find_files([folder, folder / "part-0000.parquet"])
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-0.parquet").write_bytes(b"")
    (folder / "notes.txt").write_text("not data")
    assert len(find_files(folder)) == 4


def test_a_source_must_be_readable(world):
    folder, _ = world
    with pytest.raises(TypeError, match="source must be"):
        open_source(3.5)
    with pytest.raises(TypeError, match="where filters Parquet files only"):
        open_source(lambda kernel: [], where=pc.field("loss") > 0)
    assert "4 file(s)" in repr(open_source(folder))


def test_a_calibration_on_files_can_be_pickled(tmp_path):
    write_log(tmp_path)
    found = tether.calibrate(tether.Log.scan(tmp_path, context=None), alpha=0.3)
    copied = pickle.loads(pickle.dumps(found))
    assert copied.promise == found.promise


def test_a_file_that_is_written_again_between_passes_is_an_error(tmp_path):
    columns = write_log(tmp_path)
    found = tether.calibrate(tether.Log.scan(tmp_path, context=None), alpha=0.3)
    replace_column(tmp_path / "0001.parquet", "loss", 1 - columns["loss"][:2000])
    with pytest.raises(ValueError, match=r"0001\.parquet: the file has changed"):
        _ = found.promise
    (tmp_path / "0001.parquet").unlink()
    with pytest.raises(ValueError, match=r"0001\.parquet: the file was removed"):
        _ = found.promise


def test_a_column_that_is_missing_in_the_first_file_is_an_error_that_names_it(tmp_path):
    write_log(tmp_path)
    with pytest.raises(ValueError, match=r"first .*0000\.parquet\) has no column 'harm'"):
        tether.Log.scan(tmp_path, context=None, loss="harm")


def test_a_condition_that_does_not_fit_is_named_in_the_error(tmp_path):
    write_log(tmp_path)
    with pytest.raises(TypeError, match=r"where must be a pyarrow\.compute expression"):
        tether.Log.scan(tmp_path, context=None, where="loss < 1")
    for condition in (pc.field("day") < 3, pc.field("loss") == "a"):
        log = tether.Log.scan(tmp_path, context=None, where=condition)
        shown = r"0000\.parquet: where, \(.*\), does not fit the columns \['loss', "
        with pytest.raises(ValueError, match=shown) as refused:
            tether.calibrate(log, alpha=0.3)
        assert "truncated" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_condition_that_no_row_meets_is_named_in_the_error(tmp_path):
    write_log(tmp_path)
    log = tether.Log.scan(tmp_path, context=None, where=pc.field("loss") > 5)
    with pytest.raises(ValueError, match=r"no rows.*0000\.parquet, where \(loss > 5\)"):
        tether.calibrate(log, alpha=0.3)


def test_a_loss_that_is_named_twice_is_refused(tmp_path):
    write_log(tmp_path)
    with pytest.raises(ValueError, match="loss names a column twice"):
        tether.Log.scan(tmp_path, context=None, loss=["loss", "loss"])


def test_a_file_that_is_named_twice_in_two_spellings_is_refused(tmp_path, monkeypatch):
    write_log(tmp_path / "log", n_files=2)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="named twice"):
        find_files(["log", "./log/0001.parquet"])
    os.symlink(tmp_path / "log" / "0001.parquet", tmp_path / "log" / "copy.parquet")
    with pytest.raises(ValueError, match="named twice"):
        find_files("log")


class _Threads(frozenset):
    """The threads in which parts were read."""

    columns = ("loss",)

    def partial(self, columns):
        return _Threads({threading.get_ident()})

    def merge(self, other):
        return _Threads(self | other)


def test_a_condition_is_applied_by_one_scanner_at_a_time(tmp_path):
    # Two scanners of Arrow in two threads wait for each other for ever, once in some ten passes.
    write_log(tmp_path, n_files=6)
    source = open_source(tmp_path, where=pc.field("loss") < 2)
    assert source.reduce(_Threads()) == {threading.get_ident()}


@pytest.mark.parametrize("where", [None, pc.field("log_safe") < 1e9])
def test_pages_that_do_not_fit_their_checksums_are_an_error_that_names_the_file(tmp_path, where):
    whole = columns(np.random.default_rng(0), 400)
    for number, part in enumerate(cut(whole, [200, 200])):
        table = pa.table(part)
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(
            table, path, compression="none", use_dictionary=False, write_page_checksum=True
        )
    value = part["log_safe"][7]
    damaged = path.read_bytes().replace(value.tobytes(), np.nextafter(value, 0.0).tobytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    log = tether.Log.scan(tmp_path, context=None, where=where)
    with pytest.raises(ValueError, match=r"1\.parquet: .*(?i:checksum|crc)"):
        tether.calibrate(log, alpha=0.2)


def test_columns_whose_names_begin_with_that_of_another_one_are_not_read(tmp_path):
    whole = columns(np.random.default_rng(1), 300)
    del whole["unused"]
    expected = tether.calibrate(tether.Log(**whole), alpha=0.3)
    notes = {"loss.note": [None, "late"] * 150, "log_safe": [{"model": "a"}] * 300}
    dotted = {"policy.safe": whole["log_safe"], "policy": [{"safe": "a"}] * 300}
    table = {"loss": whole["loss"], "log_optimized": whole["log_optimized"], **notes, **dotted}
    parquet.write_table(pa.table(table), tmp_path / "log.parquet")
    log = tether.Log.scan(tmp_path, context=None, log_safe="policy.safe")
    assert abs(tether.calibrate(log, alpha=0.3).log_beta - expected.log_beta) < 1e-10
