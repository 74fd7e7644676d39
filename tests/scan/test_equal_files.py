"""Files with the same bytes are named, and files of one size with other bytes are not."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tether


def write(path, seed, rows=200):
    rng = np.random.default_rng(seed)
    columns = {"loss": rng.random(rows), "log_safe": np.full(rows, -1.0)}
    columns["log_optimized"] = -1 + 0.1 * rng.normal(size=rows)
    pyarrow.parquet.write_table(pa.table(columns), path, compression="none")


def test_copies_of_files_are_named_and_files_of_one_size_are_not(tmp_path):
    for seed in range(3):
        write(tmp_path / f"{seed}.parquet", seed)
    assert len({path.stat().st_size for path in tmp_path.iterdir()}) == 1
    tether.Log.scan(tmp_path, context=None)
    shutil.copy(tmp_path / "1.parquet", tmp_path / "9.parquet")
    with pytest.warns(tether.AssumptionWarning, match=r"9\.parquet' equals .*1\.parquet'"):
        tether.Log.scan(tmp_path, context=None)


def test_partitions_without_rows_are_no_copies(tmp_path):
    for seed, rows in enumerate((200, 0, 0)):
        write(tmp_path / f"{seed}.parquet", seed, rows)
    assert len(tether.Log.scan(tmp_path, context=None)) == 200
