"""What a job says of itself is checked when it is read."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tether
from tether.rounds import CalibrationJob, Controller, export_calibration


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs") / "job"
    with Controller(tether.Gaussian(0.0), store="sqlite://", alpha=0.3, alarm_risk=0.9) as run:
        taken = run.begin().act(100, np.random.default_rng(0))
        run.observe(taken.ids, np.zeros(100))
        export_calibration(run, tether.Gaussian(0.5), folder)
    return folder


def damaged(folder, tmp_path, content):
    (tmp_path / "calibration.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"calibration\.json is not what export_calibration wrote"):
        CalibrationJob.read(tmp_path)


def test_damaged_files_are_named(folder, tmp_path):
    text = (folder / "calibration.json").read_bytes()
    for content in (b"", b"{", b"[]", b"3", b"\xff\xfe", text[:-40], b"\0" * 100):
        damaged(folder, tmp_path, content)
    plain = json.loads(text)
    for name in plain:
        damaged(folder, tmp_path, json.dumps({k: plain[k] for k in plain if k != name}).encode())
    damaged(folder, tmp_path, json.dumps({**plain, "more": 1}).encode())
    damaged(folder, tmp_path, json.dumps({**plain, "settings": 3}).encode())


def test_a_folder_without_a_job_is_named(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError, match=f"no calibration.json in {folder}"):
            CalibrationJob.read(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows_per_block", 0),  # blocks without rows would never end
        ("rows_per_block", -1),
        ("rows_per_block", 10**9),
        ("rows_per_block", 5.0),
        ("rows", "100"),
        ("number", True),
        ("lanes", {0: (1,)}),
        ("lanes", {-1: (1, "0" * 64, 1, 1)}),
        ("lanes", {0: (-5, "0" * 64, 1, 1)}),
        ("counts", {0: 0}),
        ("digests", {"../part-000000.parquet": "00"}),
        ("digests", []),
        ("retired", (None,)),
        ("ratio_error", None),
    ],
)
def test_entries_of_another_kind_are_refused(folder, name, value):
    with pytest.raises(ValueError, match=f"{name} of a job must be"):
        replace(CalibrationJob.read(folder), **{name: value})
