"""The result: what it says, keeps and promises."""

import json

import numpy as np
import pytest

import tether
from tests.control import oracle
from tests.control.test_exact import tables
from tether._core import records


def calibrated(rows=600, alpha=0.1, seed=0, **how):
    made = oracle.gaussian(np.random.default_rng(seed), rows, 400)
    return tether.calibrate(*tables(made, False), alpha=alpha, **how), made


def test_curve_is_the_risk():
    found, made = calibrated()
    curve = found.curve(points=100)
    assert len(curve.beta) <= 101
    assert np.all(np.diff(curve.log_beta) > 0)
    assert curve.risk == pytest.approx(oracle.risk(made, curve.log_beta).astype(float))
    assert found.log_beta in curve.log_beta
    with pytest.raises(ValueError, match=r"constraint must be one of \['loss'\], got 'harm'"):
        found.curve("harm")


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_risks_at_many_betas_are_the_risk_at_each(family, mixed, spread):
    rng = np.random.default_rng(9)
    for test_weight in ("empirical", 3.0) if family == "mix" or mixed else ("analytic", 3.0):
        made = oracle.problem(rng, 40, 12, spread=spread, mix=mixed)
        log, proposals = tables(made, mixed)
        found = tether.calibrate(log, proposals, alpha=0.3, family=family, test_weight=test_weight)
        grid = np.sort(rng.normal(size=20) * spread)
        problem, constraint = found._problem, found.constraints[0]
        one = [problem.risk(constraint, point) for point in grid]
        assert problem.solver.risks(problem, constraint, grid) == pytest.approx(one, abs=1e-8)


def test_diagnostics_by_hand():
    found, made = calibrated()
    weight = oracle.clip_weights(made["safe"], made["optimized"], made["safe"], found.log_beta)
    last = oracle.clip_weights(
        made["draw_safe"], made["draw_optimized"], made["draw_safe"], found.log_beta
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
    weight = oracle.clip_weights(made["safe"], made["optimized"], made["safe"], found.log_beta)
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
    assert none.relative_weights == (0.0,) * 101  # the test point is e^1800 times heavier


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


def test_summary_of_each_outcome():
    finite, _ = calibrated()
    assert str(finite).startswith("beta = 0.6") or "beta = 0." in str(finite)
    assert "promise" in str(finite)
    assert "assumed" in str(finite)
    whole, _ = calibrated(alpha=0.9)
    assert "beta = inf: the optimized policy passes as it is" in str(whole)
    none, _ = calibrated(alpha=0.01)
    assert "beta = 0: serve the safe policy only" in str(none)
    assert "no beta passes" in str(none)
    assert "expected loss ≤" not in str(none)
    assert none.promise == none.bound == 1.0
    assert none.risk > 0.01


def test_results_are_frozen():
    found, _ = calibrated()
    with pytest.raises(AttributeError):
        found.log_beta = 3.0
    with pytest.raises(ValueError, match="read-only"):
        found.curve().risk[0] = 0.0


def test_warnings_say_what_is_wrong():
    made = oracle.gaussian(np.random.default_rng(5), 300, 300)
    log, proposals = tables(made, False)
    alone = tether.calibrate(log, alpha=0.15)
    assert alone.test_weight == "analytic"
    assert any("without proposals" in warning for warning in alone.warnings)
    assert alone.beta <= tether.calibrate(log, proposals, alpha=0.15).beta

    few = tether.Proposals(made["draw_safe"][:1], made["draw_optimized"][:1] - 3)
    short = tether.calibrate(log, few, alpha=0.15)
    assert any("weigh more than the test point" in warning for warning in short.warnings)
    assert short.rows_beyond_draws > 0

    small = tether.Log(np.zeros(20), made["safe"][:20], made["optimized"][:20])
    thin = tether.calibrate(small, proposals, alpha=0.15)
    assert any("rests on few rows" in warning for warning in thin.warnings)

    wrong = tether.Log(made["loss"], made["safe"], made["optimized"] + 1.0)
    moved = tether.calibrate(wrong, alpha=0.15)
    assert any("should be at most 1" in warning for warning in moved.warnings)


def test_several_constraints_in_words():
    made = oracle.gaussian(np.random.default_rng(6), 500, 200)
    log = tether.Log(
        {"harm": made["loss"], "delay": 5 * made["loss"]}, made["safe"], made["optimized"]
    )
    found = tether.calibrate(
        log, alpha={"harm": 0.2, "delay": 0.5}, bound={"harm": 1.0, "delay": 5.0}
    )
    assert found.binding.name == "delay"
    assert (found.alpha, found.bound) == (0.5, 5.0)
    assert found.risk == found.risks["delay"] == pytest.approx(0.5)
    assert found.promises["harm"] < found.promises["delay"] == found.promise
    assert "risk of delay" in str(found)
    assert found.curve("harm").risk == pytest.approx(found.curve().risk / 5, rel=1e-6)


def test_import_is_light():
    """Nothing heavy comes along: not even scipy, until it is used."""
    import subprocess
    import sys

    code = "import tether, sys; print([m for m in ('scipy', 'typer', 'rich', 'pandas', 'torch') "
    code += "if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
