"""Folders, globs, conditions and files that do not fit: the command line reads them in parts."""

import json
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.cli.command_line import run
from tests.scan import tables
from tether.cli import memory_limit
from tether.cli.scanned_paths import is_in_parts, row_condition

CALIBRATE = ("--alpha", "0.15", "--no-context", "--test-weight", "analytic", "--json")
THRESHOLD = ("--score", "score", "--label", "label", "--item", "item", "--alpha", "0.2", "--json")


def one_file(folder, path, **more):
    files = sorted(folder.glob("*.parquet"))
    table = pa.concat_tables([parquet.read_table(file) for file in files])
    for name, values in more.items():
        table = table.append_column(name, pa.array(values))
    parquet.write_table(table, path)
    return table


def answer(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_folder_a_glob_and_one_file_have_the_same_answer(tmp_path):
    log, claims = tmp_path / "log", tmp_path / "claims"
    tables.write_log(log)
    tables.write_claims(claims)
    one_file(log, tmp_path / "log.parquet")
    one_file(claims, tmp_path / "claims.parquet")
    expected = answer("calibrate", tmp_path / "log.parquet", *CALIBRATE)
    for path in (log, log / "*.parquet"):
        found = answer("calibrate", path, *CALIBRATE)
        assert abs(np.log(found["beta"] / expected["beta"])) <= 1e-10
        assert set(found["gain"]) == set(expected["gain"])
    expected = answer("threshold", tmp_path / "claims.parquet", *THRESHOLD)
    for path in (claims, claims / "*.parquet"):
        assert answer("threshold", path, *THRESHOLD)["threshold"] == expected["threshold"]


def test_where_chooses_rows_by_columns_that_are_not_read_otherwise(tmp_path):
    log = tmp_path / "log"
    tables.write_log(log)
    rows = one_file(log, tmp_path / "all.parquet").num_rows
    split = np.where(np.arange(rows) % 3 == 0, "train", "calibration")
    table = one_file(log, tmp_path / "split.parquet", split=split)
    chosen = table.filter(pa.compute.equal(table["split"], "calibration"))
    parquet.write_table(chosen.drop(["split"]), tmp_path / "chosen.parquet")
    expected = answer("calibrate", tmp_path / "chosen.parquet", *CALIBRATE)
    found = answer(
        "calibrate", tmp_path / "split.parquet", *CALIBRATE, "--where", "split = calibration"
    )
    assert abs(np.log(found["beta"] / expected["beta"])) <= 1e-10


def test_other_alphas_and_methods_have_the_same_answers_in_parts(tmp_path):
    log, claims = tmp_path / "log", tmp_path / "claims"
    tables.write_log(log)
    columns = tables.write_claims(claims)
    one_file(log, tmp_path / "log.parquet")
    group = np.where(columns["item"] % 3 == 0, "a", "b")
    one_file(claims, tmp_path / "claims.parquet", topic=group)
    what_if = (*CALIBRATE, "--what-if", 0.12, "--what-if", 0.2)
    expected = answer("calibrate", tmp_path / "log.parquet", *what_if)["what_if"]["entries"]
    found = answer("calibrate", log, *what_if)["what_if"]["entries"]
    assert [each["alpha"] for each in found] == [0.12, 0.2]
    for one, other in zip(found, expected, strict=True):
        assert one["beta"] == pytest.approx(other["beta"], rel=1e-10)
        changed = "gain", "changed", "mean"
        assert one[changed[0]][changed[1]][changed[2]] == pytest.approx(
            other[changed[0]][changed[1]][changed[2]], rel=1e-6
        )
    grouped = (tmp_path / "claims.parquet", "--group", "topic")
    for arguments in ((claims,), (*grouped, "--where", "score >= 0")):
        in_memory = grouped if "--group" in arguments else (tmp_path / "claims.parquet",)
        every = (*THRESHOLD, "--method", "all")
        expected = answer("threshold", *in_memory, *every)["methods"]
        found = answer("threshold", *arguments, *every)["methods"]
        assert list(found) == list(expected)
        for name, one in found.items():
            for entry in ("threshold", "kept", "true_kept"):
                assert one[entry] == expected[name][entry], (name, entry)


def test_columns_in_the_names_of_folders_choose_rows(tmp_path):
    rng = np.random.default_rng(0)
    days = {day: tables.log_columns(rng, 900) for day in ("2026-01-01", "2026-01-02", "2026-02-01")}
    for number, (day, columns) in enumerate(days.items()):
        (tmp_path / "log" / f"day={day}" / f"part={number}").mkdir(parents=True)
        place = tmp_path / "log" / f"day={day}" / f"part={number}" / "0.parquet"
        parquet.write_table(pa.table(columns), place)
    january = {
        name: np.concatenate([days[day][name] for day in list(days)[:2]])
        for name in days["2026-01-01"]
    }
    parquet.write_table(pa.table(january), tmp_path / "january.parquet")
    expected = answer("calibrate", tmp_path / "january.parquet", *CALIBRATE)
    for where in ("day < 2026-02-01", "part <= 1", "day != 2026-02-01"):
        found = answer("calibrate", tmp_path / "log", *CALIBRATE, "--where", where)
        assert found["rows"] == expected["rows"]
        assert abs(np.log(found["beta"] / expected["beta"])) <= 1e-10
    result = run("calibrate", tmp_path / "log", *CALIBRATE, "--where", "month = 1")
    assert result.exit_code == 2
    assert "month" in result.stderr


SCAN_WITHOUT_END = """
import sys, time
from tether.__main__ import main
from tether.scan import parquet

original = parquet.to_arrays

def slowly(batch):
    print("ready", flush=True)
    time.sleep(1)
    return original(batch)

parquet.to_arrays = slowly
main()
"""


def test_ctrl_c_ends_a_scan_with_130_and_writes_nothing(tmp_path):
    tables.write_log(tmp_path / "log", n_files=400, rows=5)
    out = tmp_path / "results" / "found.json"
    out.parent.mkdir()
    arguments = ["calibrate", str(tmp_path / "log"), *CALIBRATE[:-1], "--out", str(out)]
    command = [sys.executable, "-c", SCAN_WITHOUT_END, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert "ready" in process.stdout.readline()  # of one thread or of both
            process.send_signal(signal.SIGINT)
            _, shown = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130, shown
    assert "interrupted" in shown
    assert list(out.parent.iterdir()) == []


def test_a_file_that_does_not_fit_into_memory_is_read_in_parts(tmp_path, monkeypatch):
    log, claims = tmp_path / "log", tmp_path / "claims"
    tables.write_log(log)
    tables.write_claims(claims)
    one_file(log, tmp_path / "log.parquet")
    one_file(claims, tmp_path / "claims.parquet")
    expected = answer("calibrate", tmp_path / "log.parquet", *CALIBRATE)
    selected = answer("threshold", tmp_path / "claims.parquet", *THRESHOLD)
    monkeypatch.setattr(memory_limit, "physical_memory", lambda: 1000)
    found = answer("calibrate", tmp_path / "log.parquet", *CALIBRATE)
    assert abs(np.log(found["beta"] / expected["beta"])) <= 1e-10
    found = answer("threshold", tmp_path / "claims.parquet", *THRESHOLD)
    assert found["threshold"] == selected["threshold"]


def broken(path, kind):
    content = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "corrupt":
        middle = len(content) // 3
        path.write_bytes(content[:middle] + b"\xff" * 400 + content[middle + 400 :])
    elif kind == "without the column":
        table = parquet.read_table(path)
        parquet.write_table(table.rename_columns(["other", *table.column_names[1:]]), path)
    elif kind == "with texts":
        size = parquet.read_metadata(path).num_rows
        tables.replace_column(path, parquet.read_schema(path).names[0], ["text"] * size)
    else:
        values = parquet.read_table(path).column(0).to_numpy().copy()
        values[11] = np.nan
        tables.replace_column(path, parquet.read_schema(path).names[0], values)


@pytest.mark.parametrize(
    "kind", ["truncated", "corrupt", "without the column", "with texts", "with NaN"]
)
@pytest.mark.parametrize("command", ["calibrate", "threshold"])
def test_an_error_in_one_of_many_files_names_the_file(tmp_path, command, kind):
    if command == "calibrate":
        tables.write_log(tmp_path, n_files=30, rows=300)
    else:
        tables.write_claims(tmp_path, n_files=30)
    broken(tmp_path / "0017.parquet", kind)
    options = CALIBRATE if command == "calibrate" else THRESHOLD
    result = run(command, tmp_path, *options)
    assert result.exit_code == 2
    assert "0017.parquet" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_item_in_two_files_is_named(tmp_path):
    tables.write_claims(tmp_path, n_files=3)
    item = parquet.read_table(tmp_path / "0002.parquet")["item"].to_numpy().copy()
    item[-1] = 17
    tables.replace_column(tmp_path / "0002.parquet", "item", item)
    result = run("threshold", tmp_path, *THRESHOLD)
    assert result.exit_code == 2
    assert "item 17 is in several parts" in result.stderr


def test_what_cannot_be_read_in_parts_is_refused(tmp_path):
    tables.write_log(tmp_path / "log")
    (tmp_path / "log.csv").write_text("loss,log_safe,log_optimized\n0,-1,-1\n")
    result = run("calibrate", tmp_path / "log.csv", *CALIBRATE, "--where", "loss = 0")
    assert result.exit_code == 2
    assert "is no Parquet file" in result.stderr
    result = run("calibrate", tmp_path / "nothing*.parquet", *CALIBRATE)
    assert result.exit_code == 2
    assert "no Parquet files" in result.stderr
    result = run("calibrate", tmp_path / "log", *CALIBRATE, "--where", "loss")
    assert result.exit_code == 2
    assert "--where must be COLUMN" in result.stderr


def test_conditions_are_read_as_numbers_truth_values_or_texts(tmp_path):
    table = pa.table({"n": [1, 2, 3], "t": ["a", "2", "c d"], "b": [True, False, True]})

    def rows(*where):
        return table.filter(row_condition(list(where)))["n"].to_pylist()

    assert rows("n >= 2") == [2, 3]
    assert rows("n != 2", "b = true") == [1, 3]
    assert rows("t = 'c d'") == rows("t == c d") == [3]
    assert rows("t = '2'") == [2]
    assert rows("n < 2.5") == rows("n <= 2") == [1, 2]
    assert rows("n > 2") == [3]
    assert row_condition(None) is None
    assert not is_in_parts(None)
    assert is_in_parts(tmp_path)
