"""Calibrations as plain values and JSON files, and back."""

import json

import numpy as np
import pytest

import tether
from tests.control.example_logs import calibrated
from tether._core import records


def test_from_dict_inverts_to_dict():
    for alpha in (0.1, 0.9, 0.01):
        found, _ = calibrated(alpha=alpha)
        for content in (
            found.to_dict(),
            json.loads(json.dumps(records.encode(found.to_dict()), allow_nan=False)),
        ):
            again = tether.Calibration.from_dict(content)
            assert again == found
            assert again.to_dict() == found.to_dict()
            assert isinstance(again.relative_weights, tuple)
            assert str(again) == str(found)


def test_from_dict_names_what_is_lacking(tmp_path):
    found, _ = calibrated()
    content = found.to_dict()
    del content["relative_weights"], content["constraints"]
    with pytest.raises(ValueError, match=r"it lacks relative_weights, constraints$"):
        tether.Calibration.from_dict(content)
    with pytest.raises(TypeError, match="content must be a mapping, got list"):
        tether.Calibration.from_dict([content])
    records.write(tmp_path / "half.json", "calibration", content)
    with pytest.raises(ValueError, match=r"half.json: this is not a complete calibration"):
        tether.Calibration.load(tmp_path / "half.json")


def test_save_and_load(tmp_path):
    found, _ = calibrated()
    found.save(tmp_path / "found.json")
    again = tether.Calibration.load(tmp_path / "found.json")
    assert again == found
    assert again.to_dict() == found.to_dict()
    assert str(again) == str(found)
    assert again.curve().risk == pytest.approx(found.curve().risk)
    assert json.loads((tmp_path / "found.json").read_text())["kind"] == "calibration"
    bare = tether.Calibration(
        0.0, found.constraints, found.log_beta_by_constraint, "clip", "empirical", 3, False
    )
    with pytest.raises(RuntimeError, match="the log is not here"):
        _ = bare.stability


def test_infinite_and_missing_betas_are_saved(tmp_path):
    for alpha, beta in ((0.9, np.inf), (0.01, 0.0)):
        found, _ = calibrated(alpha=alpha)
        assert found.beta == beta
        found.save(tmp_path / "found.json")
        assert tether.Calibration.load(tmp_path / "found.json").beta == beta


def test_refuses_other_files(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{not json")
    with pytest.raises(ValueError, match=r"other.json is not JSON"):
        tether.Calibration.load(other)
    other.write_text('{"kind": "selection"}')
    with pytest.raises(ValueError, match=r"holds 'selection', expected a saved 'calibration'"):
        tether.Calibration.load(other)
    other.write_text("[1]")
    with pytest.raises(ValueError, match=r"holds None"):
        tether.Calibration.load(other)


def test_text_that_reads_inf_stays_text(tmp_path):
    log = tether.Log({"inf": np.zeros(30)}, np.zeros(30), np.zeros(30))
    found = tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.1)
    found.save(tmp_path / "found.json")
    assert tether.Calibration.load(tmp_path / "found.json").constraints[0].name == "inf"
    (tmp_path / "half.json").write_text('{"kind": "calibration"}')
    with pytest.raises(ValueError, match="is not a complete calibration: it lacks log_beta"):
        tether.Calibration.load(tmp_path / "half.json")
    with pytest.raises(ValueError, match="points must be an integer of at least 2, got -1"):
        found.curve(points=-1)
