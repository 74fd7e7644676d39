"""What other alphas would buy: the same as calibrating at each of them."""

import json

import numpy as np
import pytest

import tether
from tests.control.finite_worlds import FiniteWorld
from tether._core import records

ALPHAS = [0.9, 0.55, 1e-3]


def test_every_entry_is_the_calibration_at_its_alpha_and_its_gain():
    log = FiniteWorld.draw(3).log()
    grid = tether.gain_over_alphas(log, alphas=iter(ALPHAS), family="mix", interval=0.9)
    frame = grid.to_frame()
    for place, alpha in enumerate(ALPHAS):
        found = tether.calibrate(log, alpha=alpha, family="mix")
        bought = tether.gain(found, confidence=0.9)
        entry = grid.entries[place]
        assert (entry.alpha, entry.beta, entry.promises) == (alpha, found.beta, found.promises)
        assert entry.useful == found.useful
        assert entry.gain == bought
        expected = {
            "alpha": alpha,
            "beta": found.beta,
            "promise": found.promise,
            "changed": bought.changed.mean,
            "reward": bought.reward.tethered.mean,
            "gained_lower": bought.reward.difference.lower,
            "loss_upper": bought.losses["loss"].tethered.upper,
            "traffic": bought.traffic,
        }
        for name, value in expected.items():
            assert frame[name][place] == value, name


def test_several_losses_and_logs_without_rewards():
    log = FiniteWorld.draw(3).log()
    named = tether.Log(
        {"harm": log.loss["loss"], "delay": log.loss["loss"]}, log.log_safe, log.log_optimized
    )
    frame = tether.gain_over_alphas(
        named, alphas=[{"harm": 0.7, "delay": 0.8}, {"harm": 0.9, "delay": 0.8}]
    ).to_frame()
    assert frame["alpha[harm]"].tolist() == [0.7, 0.9]
    assert {"loss[harm]", "loss[delay]", "promise[harm]", "promise[delay]"} < set(frame)
    assert "reward" not in frame
    assert np.isnan(frame["traffic"]).all()


def test_text_and_json_warn_against_choosing_afterwards():
    grid = tether.gain_over_alphas(FiniteWorld.draw(3).log(), alphas=ALPHAS, family="mix")
    text = str(grid)
    header, *rows = text.splitlines()[1:]
    assert header.split()[:3] == ["alpha", "beta", "promise"]
    assert any(row.startswith("  0.55 ") for row in rows)
    assert any(row.split()[:5] == ["0.001", "0", "no", "useful", "promise"] for row in rows)
    assert "reward" in text
    assert "traffic" in text
    assert "choosing from this table spends the promise" in text
    content = json.loads(json.dumps(records.encode(grid.to_dict()), allow_nan=False))
    assert [entry["alpha"] for entry in content["entries"]] == ALPHAS
    assert "spends the promise" in content["warning"]


def test_bad_alphas_are_named():
    log = FiniteWorld.draw(3).log()
    with pytest.raises(ValueError, match="alphas is empty"):
        tether.gain_over_alphas(log, alphas=[])
    with pytest.raises(TypeError, match="not some of both"):
        tether.gain_over_alphas(log, alphas=[0.5, {"loss": 0.5}])
    with pytest.raises(ValueError, match="alpha must be above 0 and below 1, got 2"):
        tether.gain_over_alphas(log, alphas=[2])


def test_promises_can_be_asked_for_instead():
    log = FiniteWorld.draw(3).log()
    promises = [0.5, 0.6, 0.7]
    grid = tether.gain_over_alphas(log, promises=promises)
    for asked, entry in zip(promises, grid.entries, strict=True):
        found = tether.calibrate(log, promise=asked)
        assert (entry.beta, entry.alpha) == (found.beta, found.alpha)
        assert entry.promises == found.promises
        assert entry.asked_promise == asked
    assert grid.to_frame()["asked_promise"].tolist() == promises
    assert [entry["asked_promise"] for entry in grid.to_dict()["entries"]] == promises
    header = str(grid).splitlines()[1]
    assert header.split()[:3] == ["asked", "promise", "beta"]
    assert grid.plot().axes[0].get_xlabel() == "asked promise"
    with pytest.raises(TypeError, match="give either alphas or promises"):
        tether.gain_over_alphas(log)
    with pytest.raises(ValueError, match="promises is empty"):
        tether.gain_over_alphas(log, promises=[])


def test_a_confidence_is_stated():
    log = FiniteWorld.draw(3).log()
    grid = tether.gain_over_alphas(log, alphas=[0.9], family="mix", confidence=0.8)
    assert "what 1 alpha would buy with confidence 0.8" in str(grid)
    assert grid.to_frame()["confidence"].tolist() == [0.8]
    assert "confidence" not in tether.gain_over_alphas(log, alphas=[0.9]).to_frame()
