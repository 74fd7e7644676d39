"""The result of a calibration: what it rests on, computed by hand."""

import copy
import json
import pickle

import numpy as np
import pytest

import tether
from tests.control import direct_formulas
from tests.control.example_logs import calibrated
from tether._core import records


def test_diagnostics_by_hand():
    found, made = calibrated()
    weight = direct_formulas.weights(
        direct_formulas.clip_kernel, made["safe"], made["optimized"], made["safe"], found.log_beta
    )
    last = direct_formulas.weights(
        direct_formulas.clip_kernel,
        made["draw_safe"],
        made["draw_optimized"],
        made["draw_safe"],
        found.log_beta,
    ).max()
    assert found.effective_sample_size == pytest.approx(
        float(weight.sum() ** 2 / (weight**2).sum())
    )
    assert found.max_weight == pytest.approx(float(last / (weight.sum() + last)))
    ratio = np.exp(made["draw_optimized"] - made["draw_safe"])
    psi = np.minimum(found.beta / ratio, 1).mean()
    assert found.acceptance == pytest.approx(psi / min(found.beta, 1))
    top = (made["draw_optimized"] - made["draw_safe"]).max()
    assert found.rows_beyond_draws == (made["optimized"] - made["safe"] > top).sum()
    assert found.warnings == ()


def test_relative_weights_by_hand():
    found, made = calibrated()
    weight = direct_formulas.weights(
        direct_formulas.clip_kernel, made["safe"], made["optimized"], made["safe"], found.log_beta
    )
    weight = np.sort((weight / weight.mean()).astype(float).ravel())
    place = np.linspace(0, 1, 101) * (len(weight) - 1)  # between which two rows a quantile lies
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, len(weight) - 1)
    expected = weight[below] + (place - below) * (weight[above] - weight[below])
    assert len(found.relative_weights) == 101
    assert found.relative_weights == pytest.approx(expected)
    assert found.relative_weights[-1] > 1 > found.relative_weights[0]


def test_relative_weights_at_the_ends():
    safe_only, _ = calibrated(alpha=0.01)
    assert safe_only.relative_weights == pytest.approx(np.ones(101))  # all rows count the same
    far = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50), log_mix=np.full(50, 900.0))
    none = tether.calibrate(far, tether.Proposals([0.0], [0.0], log_mix=[-900.0]), alpha=0.1)
    # The test point is e^1800 times heavier, and the rows still weigh the same as each other.
    assert none.relative_weights == (1.0,) * 101
    assert none.effective_sample_size == 50


def test_results_are_frozen():
    found, _ = calibrated()
    with pytest.raises(AttributeError):
        found.log_beta = 3.0
    with pytest.raises(ValueError, match="read-only"):
        found.curve().risk[0] = 0.0


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
    with pytest.raises(ValueError, match=r"half.json: content is not a complete calibration"):
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
    with pytest.raises(RuntimeError, match="which does not contain the log"):
        _ = bare.stability


def test_infinite_and_missing_betas_are_saved(tmp_path):
    for alpha, beta in ((0.9, np.inf), (0.01, 0.0)):
        found, _ = calibrated(alpha=alpha)
        assert found.beta == beta
        found.save(tmp_path / "found.json", overwrite=True)
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
    with pytest.raises(ValueError, match=r"other.json is not a saved record"):
        tether.Calibration.load(other)


def test_text_that_reads_inf_stays_text(tmp_path):
    log = tether.Log({"inf": np.zeros(30)}, np.zeros(30), np.zeros(30))
    found = tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.1)
    found.save(tmp_path / "found.json")
    assert tether.Calibration.load(tmp_path / "found.json").constraints[0].name == "inf"
    records.write(tmp_path / "half.json", "calibration", {})
    with pytest.raises(ValueError, match="is not a complete calibration: it lacks log_beta"):
        tether.Calibration.load(tmp_path / "half.json")
    with pytest.raises(ValueError, match="points must be an integer of at least 2, got -1"):
        found.curve(points=-1)


def test_a_fresh_calibration_can_be_pickled_and_copied():
    log = tether.Log(np.zeros(60), np.zeros(60), np.linspace(-1, 1, 60))
    for family in ("clip", "budgeted_clip(2)"):
        drawn = np.zeros(4), np.array([-1.0, 0.0, 0.5, 1.0])
        proposals = tether.Proposals(*drawn, source=["safe", "safe", "optimized", "optimized"])
        found = tether.calibrate(log, proposals, alpha=0.2, family=family)
        for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            assert again == found
            assert again.stability == found.stability
