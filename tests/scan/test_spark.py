"""Spark: kernels in its Python workers, on a local session."""

import os
import shutil
import sys

import numpy as np
import pytest

import tether
from tests.scan import tables

pytest.importorskip("pyspark", reason="needs pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_a_log_and_claims_have_the_answers_of_memory(spark, tmp_path):
    rows = tables.write_log(tmp_path / "log")
    expected = tether.calibrate(
        tether.Log.from_frame(rows, context=None), alpha=0.15, test_weight="analytic"
    )
    log = tether.Log.scan(spark.read.parquet(str(tmp_path / "log")), context=None)
    found = tether.calibrate(log, alpha=0.15, test_weight="analytic")
    assert abs(np.log(found.beta / expected.beta)) <= 1e-10
    columns = tables.write_claims(tmp_path / "claims")
    memory = tether.Claims.from_table(columns["score"], columns["label"], columns["item"])
    frame = spark.read.parquet(str(tmp_path / "claims"))
    scanned = tether.Claims.scan(frame, scores="score", supported="label", items="item")
    selected = tether.gcrc(scanned, alpha=0.2)
    assert selected.threshold == tether.gcrc(memory, alpha=0.2).threshold


def test_an_error_in_a_worker_is_that_of_the_kernel(spark, tmp_path):
    tables.write_log(tmp_path, rows=100)
    loss = np.zeros(100)
    loss[3] = np.nan
    tables.replace_column(tmp_path / "0002.parquet", "loss", loss)
    log = tether.Log.scan(spark.read.parquet(str(tmp_path)), context=None)
    with pytest.raises(ValueError, match=r"pyspark: loss.*nan"):
        tether.calibrate(log, alpha=0.15, test_weight="analytic")
