"""Files that are found: on this machine, and in object storage with the protocol of Amazon S3."""

from __future__ import annotations

import os
import pickle
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import fs, parquet

import tether
from tests.cli.command_line import one_line, run
from tests.scan.s3_server import KEY, SECRET, s3_server
from tether.scan import open_source
from tether.scan.data_files import find_files


def columns(rows, seed=0):
    actions = np.random.default_rng(seed).normal(size=rows)
    return {
        "loss": (actions > 1.2).astype(float),
        "log_safe": -(actions**2) / 2,
        "log_optimized": -((actions - 1) ** 2) / 2,
    }


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    root = tmp_path_factory.mktemp("storage")
    with pytest.MonkeyPatch.context() as environment, s3_server(root) as options:
        environment.setenv("AWS_ACCESS_KEY_ID", KEY)
        environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield root, options


@pytest.fixture
def log(storage):
    """A folder of three files in object storage, as a path here and as an address."""
    root, options = storage
    shutil.rmtree(root / "company", ignore_errors=True)
    folder = root / "company" / "log"
    for day in (1, 2, 3):
        (folder / f"day={day}").mkdir(parents=True)
        table = pa.table(columns(400, seed=day))
        parquet.write_table(table, folder / f"day={day}" / "part.parquet", row_group_size=150)
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part.parquet").write_bytes(b"not yet")
    (folder / "notes.txt").write_text("no data")
    return folder, "s3://company/log", options


def test_a_log_in_object_storage_gives_the_answer_of_the_same_files_here(log):
    folder, address, options = log
    here = tether.calibrate(tether.Log.scan(folder, context=None), alpha=0.25)
    assert np.isfinite(here.log_beta)
    for source in (
        f"{address}{options}",
        f"{address}/{options}",
        f"{address}/day=*/part.parquet{options}",
        f"s3://company/l*g/day=[123]/part.parquet{options}",
        [f"{address}/day={day}/part.parquet{options}" for day in (3, 1, 2)],
        f"s3://{KEY}:{SECRET}@company/log{options}",
    ):
        found = tether.calibrate(tether.Log.scan(source, context=None), alpha=0.25)
        assert (found.log_beta, found.promise) == (here.log_beta, here.promise)


def test_conditions_read_the_folders_of_an_address(log):
    folder, address, options = log
    where = pc.field("day") >= 2
    here = tether.Log.scan(folder, where=where, context=None)
    there = tether.Log.scan(f"{address}{options}", where=where, context=None)
    assert len(here) == len(there) == 800
    assert tether.calibrate(there, alpha=0.3).log_beta == tether.calibrate(here, alpha=0.3).log_beta


def test_globs_of_addresses_find_what_globs_of_paths_find(log):
    folder, address, options = log
    deep = folder / "day=4" / "hour=1"
    deep.mkdir(parents=True)
    shutil.copy(folder / "day=1" / "part.parquet", deep / "late [1].parquet")
    for pattern in ("*/part.parquet", "day=?/*", "day=4/**", "**/late*", "day=[12]/part.parquet"):
        here = {os.path.relpath(file.path, folder) for file in find_files(f"{folder}/{pattern}")}
        if "?" in pattern:  # which begins the options of an address
            pattern = pattern.replace("?", "*")
        there = find_files(f"{address}/{pattern}{options}")
        assert {file.name.removeprefix(f"{address}/") for file in there} == here


@pytest.mark.parametrize(
    "pattern", ["*", "**", "**/*.parquet", "*/*.parquet", "*/", "**/", ".*", "**/.*", "[.]*"]
)
def test_globs_of_addresses_find_hidden_files_as_globs_of_paths_do(log, pattern):
    folder, address, options = log
    for name in ("top.parquet", ".part.parquet", ".trash/part.parquet", "day=1/.old/part.parquet"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "day=1" / "part.parquet", folder / name)

    def names(root, query=""):
        try:
            found = find_files(f"{root}/{pattern}{query}")
        except FileNotFoundError:
            return set()
        return {file.name.removeprefix(f"{root}/") for file in found}

    assert names(address, options) == names(folder)


@pytest.mark.parametrize("name", ["late [1].parquet", "run[1]/part.parquet", "100%.parquet"])
def test_signs_in_a_name_are_read_as_they_are_if_there_is_such_a_file(log, name):
    folder, address, options = log
    for each in (name, name.replace("[1]", "1")):
        (folder / each).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "day=1" / "part.parquet", folder / each)
    for path in (f"{folder}/{name}", f"{address}/{name}{options}", f"file://{folder}/{name}"):
        (found,) = find_files(path)
        assert found.path.endswith(f"/log/{name}")


def test_signs_of_a_glob_that_are_written_as_numbers_stand_for_themselves(log):
    folder, address, options = log
    for name in ("a[1] b?.parquet", "a1 bc.parquet"):
        shutil.copy(folder / "day=1" / "part.parquet", folder / name)
    (found,) = find_files(f"{address}/*%5B1%5D%20b%3F.parquet{options}")
    assert found.name == f"{address}/a[1] b?.parquet"


def test_the_port_of_a_server_is_part_of_its_address(monkeypatch, tmp_path):
    asked = []
    parquet.write_table(pa.table(columns(5)), tmp_path / "p.parquet")

    def from_uri(uri):
        asked.append(uri)
        return fs.LocalFileSystem(), str(tmp_path)

    monkeypatch.setattr("tether.scan.data_files.fs.FileSystem", SimpleNamespace(from_uri=from_uri))
    find_files("hdfs://namenode:8020/log@home")
    find_files("hdfs://me@namenode:8020/log")
    assert asked == ["hdfs://namenode:8020/log%40home", "hdfs://me@namenode:8020/log"]


def test_spaces_and_signs_in_names_of_folders_are_read_as_they_are(storage):
    root, options = storage
    folder = root / "company" / "my log@home" / "a b=c"
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns(5)), folder / "p.parquet")
    for path in ("my log@home", "my%20log@home/a b=c", "my log@home/*/p.parquet"):
        (found,) = find_files(f"s3://company/{path}{options}")
        assert found.name == "s3://company/my log@home/a b=c/p.parquet"
        assert found.open().metadata.num_rows == 5


def test_errors_name_the_file_and_show_no_secret(log):
    folder, _, options = log
    secret = f"s3://{KEY}:{SECRET}@company/log{options}"
    with pytest.raises(FileNotFoundError, match="no Parquet files at 's3://company/nothing'"):
        find_files(f"s3://{KEY}:{SECRET}@company/nothing{options}")
    table = pa.table(columns(400, seed=2) | {"loss": np.full(400, np.nan)})
    parquet.write_table(table, folder / "day=2" / "part.parquet")
    with pytest.raises(ValueError, match=r"^s3://company/log/day=2/part\.parquet: ") as told:
        tether.calibrate(tether.Log.scan(secret, context=None), alpha=0.25)
    assert SECRET not in str(told.value)
    (folder / "day=2" / "part.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match=r"^s3://company/log/day=2/part\.parquet: cannot be read"):
        tether.calibrate(tether.Log.scan(secret, context=None), alpha=0.25)
    assert SECRET not in repr(open_source(secret))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://other:wrong-secret@company/log{options}", "ACCESS_DENIED"),
        ("s3://reader:a-secret@company/log{options}&colour=red", "colour"),
        ("swift://reader:a-secret@company/log", "Unrecognized filesystem type"),
    ],
)
def test_an_address_that_cannot_be_read_is_an_error_without_its_secret(storage, address, message):
    with pytest.raises(ValueError, match=message) as told:
        find_files(address.format(options=storage[1]))
    assert "secret" not in str(told.value)
    assert "//company/log' cannot be read" in str(told.value)
    assert told.value.__cause__ is None  # which may show all of the address
    assert told.value.__suppress_context__


def test_a_file_that_is_written_again_between_passes_is_an_error(log):
    folder, address, options = log
    scanned = tether.Log.scan(f"{address}{options}", context=None)
    found = tether.calibrate(scanned, alpha=0.25)
    parquet.write_table(pa.table(columns(401, seed=2)), folder / "day=2" / "part.parquet")
    with pytest.raises(ValueError, match=r"day=2/part\.parquet: the file has changed"):
        found.stability  # noqa: B018


def test_a_file_of_the_same_size_and_second_is_another_one(log):
    folder, address, options = log
    file = folder / "day=2" / "part.parquet"
    content, plain = columns(400, seed=2), {"compression": "none", "use_dictionary": False}
    parquet.write_table(pa.table(content), file, **plain)
    size, second = file.stat().st_size, 1_700_000_000 * 10**9
    os.utime(file, ns=(second, second))
    scanned = tether.Log.scan(f"{address}{options}", context=None)
    found = tether.calibrate(scanned, alpha=0.25)
    content["loss"] = np.roll(content["loss"], 1)
    parquet.write_table(pa.table(content), file, **plain)
    assert file.stat().st_size == size
    os.utime(file, ns=(second, second + 1))
    with pytest.raises(ValueError, match=r"day=2/part\.parquet: the file has changed"):
        found.stability  # noqa: B018


def test_a_server_that_is_gone_has_not_removed_the_files(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    (tmp_path / "company").mkdir()
    parquet.write_table(pa.table(columns(5)), tmp_path / "company" / "p.parquet")
    with s3_server(tmp_path) as options:
        (file,) = find_files(f"s3://company/p.parquet{options}")
        assert file.state()
        (tmp_path / "company" / "p.parquet").unlink()
        assert file.state() is None
    with pytest.raises(ValueError, match=r"^s3://company/p\.parquet: cannot be read: .*connect"):
        file.state()


def test_copies_in_object_storage_are_told(log):
    folder, address, options = log
    shutil.copy(folder / "day=1" / "part.parquet", folder / "day=2" / "again.parquet")
    with pytest.warns(tether.AssumptionWarning, match="again.parquet' equals 's3://company"):
        open_source(f"{address}{options}")


def test_a_file_that_is_named_in_two_ways_is_refused(log):
    _, address, options = log
    with pytest.raises(ValueError, match=r"day=1/part\.parquet' is named twice"):
        find_files([f"{address}{options}", f"{address}/day=1/part.parquet{options}"])


def test_files_in_object_storage_can_be_sent_to_other_processes(log):
    _, address, options = log
    source = open_source(f"{address}{options}")
    assert pickle.loads(pickle.dumps(source)).rows == 1200


def test_an_address_of_this_machine_is_a_path(log):
    folder, *_ = log
    found = find_files(f"file://{folder}")
    assert [file.name for file in found] == [file.name for file in find_files(folder)]
    assert all(file.is_local for file in found)


def test_the_command_line_takes_addresses(log, tmp_path):
    folder, address, options = log
    call = ("--alpha", "0.25", "--no-context")
    here = run("calibrate", folder, *call, "--where", "day <= 2", "--json")
    there = run("calibrate", f"{address}{options}", *call, "--where", "day <= 2", "--json")
    assert here.exit_code == there.exit_code == 0, there.output
    assert there.output == here.output
    lost = run("calibrate", f"s3://company/nothing{options}", *call)
    assert lost.exit_code == 2
    assert "there are no Parquet files at 's3://company/nothing'" in one_line(lost)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("nothing", (), "there are no Parquet files at 's3://company/nothing'"),
        ("log", ("--loss", "harm"), "has no column 'harm'"),
        ("log", ("--where", "hour = 3"), "there is no column 'hour'"),
        ("log", ("--log-safe", "loss"), "log_safe must hold log-probabilities"),
    ],
)
def test_errors_of_the_command_line_show_no_secret(log, path, options, message):
    address = f"s3://{KEY}:{SECRET}@company/{path}{log[2]}"
    done = run("calibrate", address, "--alpha", "0.25", "--no-context", *options)
    assert done.exit_code == 2, done.output
    assert message in one_line(done)
    assert SECRET not in done.output


def test_filtering_reads_files_of_this_machine(log, tmp_path):
    _, address, options = log
    found = tether.gcrc(tether.Claims(np.arange(40) / 40, [0, 1] * 20, range(0, 41, 2)), alpha=0.9)
    found.save(tmp_path / "found.json")
    threshold = ("--threshold", tmp_path / "found.json", "--score", "log_safe")
    done = run("filter", f"{address}{options}", *threshold, "--out", tmp_path / "kept.parquet")
    assert done.exit_code == 2
    assert "is in object storage, and tether filter reads files of this machine" in one_line(done)
