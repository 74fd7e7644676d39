"""Rows of DuckDB, Polars, Spark and Ray, and of a function: the same as those of memory."""

import os
import signal
import sys
import time

import numpy as np
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.scan.test_files import HOW, NAMES, assert_same, in_memory, kernel, write
from tether.scan import OnRay, open_rows


def duckdb_frame(folder):
    import duckdb

    return duckdb.sql(f"select * from read_parquet('{folder}/*.parquet')")


def polars_frame(folder):
    return polars.scan_parquet(f"{folder}/*.parquet")


def batches(folder):
    return lambda: iter(parquet.read_table(folder).to_batches(7))


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # kernels are tests' own
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = session.getOrCreate()
    yield session
    session.stop()


def bad(block):
    raise ValueError("x must be finite")


@pytest.mark.parametrize("frame", [duckdb_frame, polars_frame, batches])
def test_frames_give_the_rows_of_memory_and_refuse_missing_columns_and_bad_values(tmp_path, frame):
    table = write(tmp_path, (4000, 0, 2500))
    assert_same(open_rows(frame(tmp_path), NAMES), in_memory(table), 999)
    with pytest.raises(ValueError, match="no column 'loss', 'score'"):
        open_rows(frame(tmp_path), {"x": "loss", "table": ("b", "score")})
    with pytest.raises(TypeError, match="where"):
        open_rows(frame(tmp_path), NAMES, where="month = 1")
    with pytest.raises(ValueError, match=r"the rows of .*x must be finite .*row 0"):
        open_rows(frame(tmp_path), NAMES, check=bad).reduce(kernel, HOW)


@pytest.mark.parametrize("frame", [duckdb_frame, polars_frame])
def test_rows_that_change_between_passes_are_an_error(tmp_path, frame):
    table = write(tmp_path, (40,))
    rows = open_rows(frame(tmp_path), NAMES)
    rows.reduce(kernel, HOW)
    rows.reduce(kernel, HOW)
    order = np.random.default_rng(0).permutation(40)
    swapped = table.set_column(0, "a", pa.array(table["a"].to_numpy()[order]))
    parquet.write_table(swapped, tmp_path / "000.parquet")  # the same values beside others
    with pytest.raises(ValueError, match="not those read before"):
        rows.reduce(kernel, HOW)
    parquet.write_table(table.slice(3), tmp_path / "000.parquet")
    with pytest.raises(ValueError, match=r"not those read before|cannot be read"):
        rows.reduce(kernel, HOW)


@pytest.mark.parametrize("frame", [duckdb_frame, polars_frame])
def test_files_that_an_engine_cannot_read_are_an_error(tmp_path, frame):
    write(tmp_path)
    opened, lazy = open_rows(frame(tmp_path), NAMES), frame(tmp_path)
    (tmp_path / "002.parquet").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"cannot be read|not those read before"):
        opened.reduce(kernel, HOW)
    with pytest.raises(BaseException, match=r"cannot be read|panicked|Panic|unwrap"):
        open_rows(lazy, NAMES).reduce(kernel, HOW)


def test_other_sources_are_refused():
    for source in (3, object(), [], [3], lambda: [1]):
        with pytest.raises(TypeError, match="source"):
            open_rows(source, NAMES)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_gives_the_rows_of_memory(tmp_path, spark):
    table = write(tmp_path, (4000, 0, 2500))
    frame = spark.read.parquet(str(tmp_path))
    rows = open_rows(frame, NAMES)
    found, wanted = rows.reduce(kernel, HOW, 999), in_memory(table).reduce(kernel, HOW)
    np.testing.assert_allclose(np.sort(found["all"]), np.sort(wanted["all"]))
    np.testing.assert_allclose(found["sum"], wanted["sum"])
    assert len(rows) == 6500
    rows.reduce(kernel, HOW)
    with pytest.raises(ValueError, match="x must be finite"):
        open_rows(frame, NAMES, check=bad).reduce(kernel, HOW)
    with pytest.raises(ValueError, match="no column 'loss'"):
        open_rows(frame, {"x": "loss"})


@pytest.fixture(scope="module")
def ray():
    import ray

    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=1 << 27,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}},
    )
    yield ray
    ray.shutdown()


@pytest.mark.nightly
def test_ray_gives_the_rows_of_memory(tmp_path, ray):
    table = write(tmp_path, (4000, 0, 2500, 10, 20, 30, 40))
    rows = open_rows(OnRay(tmp_path), NAMES)
    assert_same(rows, in_memory(table), 999)
    os.utime(tmp_path / "003.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"003\.parquet: the file has changed"):
        rows.reduce(kernel, HOW)

    def check(block):
        if len(block["x"]) == 30:
            raise ValueError("x must be finite")

    with pytest.raises(ValueError, match=r"005\.parquet: x must be finite"):
        open_rows(OnRay(tmp_path), NAMES, check=check).reduce(kernel, HOW)


@pytest.mark.nightly
def test_a_killed_worker_of_ray_is_replaced(tmp_path, ray):
    folder, marks = tmp_path / "log", tmp_path / "marks"
    table = write(folder, (300,) * 6)
    marks.mkdir()

    def killing(block):
        first = float(block["x"][0])
        mark = marks / f"{first}"
        if not mark.exists() and len(list(marks.iterdir())) < 2:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return kernel(block)

    rows = open_rows(OnRay(folder), NAMES)
    found, wanted = rows.reduce(killing, HOW), in_memory(table).reduce(kernel, HOW)
    assert len(list(marks.iterdir())) == 2
    np.testing.assert_allclose(found["all"], wanted["all"])
    np.testing.assert_allclose(found["sum"], wanted["sum"])


@pytest.mark.nightly
def test_object_storage_is_read_like_a_folder(tmp_path, monkeypatch):
    from tests.scan.s3_server import KEY, SECRET, s3_server

    table = write(tmp_path / "bucket", (40, 0, 25))
    write(tmp_path / "bucket" / "_temporary", (3,))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with s3_server(tmp_path) as options:
        for path in ("bucket", "bucket/", "bucket/*.parquet", "bucket/**/0*"):
            rows = open_rows(f"s3://{path}{options}", NAMES)
            assert_same(rows, in_memory(table))
        with pytest.raises(FileNotFoundError, match="s3://bucket/nothing"):
            open_rows(f"s3://bucket/nothing{options}", NAMES)
        write(tmp_path / "bucket", (40, 0, 30), seed=3)
        with pytest.raises(ValueError, match=r"s3://bucket/00.\.parquet: the file has changed"):
            rows.reduce(kernel, HOW)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with pytest.raises(ValueError, match="s3://bucket") as refused:
            open_rows(f"s3://someone:geheim@bucket{options}", NAMES)
        assert "geheim" not in str(refused.value)
