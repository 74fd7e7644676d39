"""Every pass over the files of a job reads what was exported, or says which file is another."""

import numpy as np
import pyarrow as pa
import pytest

from tether import Log
from tether.rounds.job_files import write_table
from tether.rounds.job_source import JobSource


def columns(rows, seed):
    rng = np.random.default_rng(seed)
    safe = rng.normal(size=(rows, 3))
    safe -= np.log(np.exp(safe).sum(axis=1, keepdims=True))
    flat, offsets = pa.array(safe.ravel()), pa.array(np.arange(rows + 1, dtype=np.int32) * 3)
    lists = pa.ListArray.from_arrays(offsets, flat)
    return {
        "loss_0": rng.random(rows),
        "log_safe": safe[:, 0],
        "log_optimized": safe[:, 0],
        "log_safe_all": lists,
        "log_optimized_all": lists,
    }


def scanned(source, *, tables):
    named = {f"log_{each}_all": f"log_{each}_all" for each in ("safe", "optimized")}
    return Log.scan(source, loss="loss_0", context=None, **(named if tables else {}))


@pytest.mark.parametrize("tables", [False, True])
def test_rows_are_those_of_a_scan_of_the_folder(tmp_path, tables):
    names = [f"{number}.parquet" for number in range(5)]
    digests = {
        name: write_table(tmp_path / name, columns(1 + 40 * k, k)) for k, name in enumerate(names)
    }
    own, other = (
        scanned(source, tables=tables) for source in (JobSource(str(tmp_path), digests), tmp_path)
    )
    assert len(own) == len(other) == 5 + 40 * 10
    assert own.source.names == list(columns(1, 0))
    assert own.survey == other.survey


def test_a_file_that_is_exchanged_between_two_passes_is_named(tmp_path):
    digests = {"0.parquet": write_table(tmp_path / "0.parquet", columns(50, 0))}
    log = scanned(JobSource(str(tmp_path), digests), tables=False)
    assert len(log) == 50
    (tmp_path / "0.parquet").unlink()
    write_table(tmp_path / "0.parquet", columns(50, 1))
    again = scanned(log.source, tables=False)
    with pytest.raises(ValueError, match=r"0\.parquet is missing, or not the file"):
        len(again)


def test_a_value_that_is_wrong_is_named_with_its_file(tmp_path):
    wrong = {**columns(9, 0), "loss_0": np.full(9, np.nan)}
    digests = {"0.parquet": write_table(tmp_path / "0.parquet", wrong)}
    with pytest.raises(ValueError, match=r"0\.parquet: loss\[0\] is nan"):
        len(scanned(JobSource(str(tmp_path), digests), tables=False))
    with pytest.raises(ValueError, match="names no files"):
        JobSource(str(tmp_path), {})
