"""What a calibration on a log in parts buys is what it buys in memory."""

import numpy as np
import pytest

import tether
from tests.control.parts.worlds import in_pieces, table_columns
from tests.control.test_missing_actions import world as world_with_a_rare_action

TABLES = {"log_safe_all": "log_safe_all", "log_optimized_all": "log_optimized_all"}


@pytest.mark.parametrize("rows", [1, 2, 60])
@pytest.mark.parametrize("family", ["clip", "mix"])
def test_one_row_may_have_all_the_weight_of_a_policy(rows, family):
    rng = np.random.default_rng(0)
    columns = {
        "loss": rng.random(rows),
        "log_safe": np.zeros(rows),
        "log_optimized": np.append(np.full(rows - 1, -1.0), 80.0),
        "reward": rng.normal(size=rows),
    }
    settings = {"alpha": 0.9, "test_weight": 1.0, "family": family}
    memory = tether.calibrate(tether.Log(**columns), **settings)
    log = tether.Log.scan(in_pieces(columns, rng), context=None, reward="reward")
    found = tether.calibrate(log, **settings)
    assert str(tether.gain(found)) == str(tether.gain(memory))
    assert found.summary() == memory.summary()


def test_tables_tell_how_many_decisions_change_without_rewards():
    rng = np.random.default_rng(1)
    columns = table_columns(rng, 300, 3)
    memory = tether.calibrate(tether.Log(**columns), alpha=0.4)
    found = tether.calibrate(tether.Log.scan(in_pieces(columns, rng), **TABLES), alpha=0.4)
    assert found.saved_gain.changed.mean == pytest.approx(memory.saved_gain.changed.mean, rel=1e-9)
    assert "decisions that change" in found.summary()
    assert found.summary() == memory.summary()
    assert found.to_dict().keys() == memory.to_dict().keys()


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("mixture", [False, True])
@pytest.mark.parametrize(("rows", "near"), [(400, 1e-4), (400, 1.0), (20, 1e-4)])
def test_a_policy_that_changes_hardly_anything_is_called_the_safe_one(family, mixture, rows, near):
    rng = np.random.default_rng(2)
    safe = rng.normal(size=rows) - 5
    columns = {
        "loss": rng.random(rows) * 0.2,
        "log_safe": safe,
        "log_optimized": safe + rng.normal(size=rows) * near,
    }
    columns["loss"][columns["log_optimized"] > safe] += 0.5
    stated = {}
    if mixture:
        columns["log_mix"] = np.logaddexp(
            np.log(0.6) + safe, np.log(0.4) + columns["log_optimized"]
        )
        stated = {"safe_share": 0.6}
    settings = {"family": family, "test_weight": 1.5}
    in_memory = tether.Log(**columns, **stated)
    risk = tether.calibrate(in_memory, alpha=0.95, **settings).curve().risk
    settings["alpha"] = float(risk[0] + risk.max()) / 2
    memory = tether.calibrate(in_memory, **settings)
    named = {"log_mix": "log_mix"} if mixture else {}
    log = tether.Log.scan(in_pieces(columns, rng), context=None, **named, **stated)
    found = tether.calibrate(log, **settings)
    assert np.isfinite(memory.log_beta)
    hardly = any("in practice the safe policy" in each for each in memory.warnings)
    assert hardly == (near < 1 and rows > 30)
    assert found.warnings == memory.warnings


def test_a_soft_pick_of_a_shortlist_is_said():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(200, 4))
    optimized = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    taken = rng.integers(0, 4, 200)
    rows = np.arange(200)
    columns = {
        "loss": np.zeros(200),
        "log_safe": np.full(200, -np.log(4)),
        "log_optimized": optimized[rows, taken],
        "log_safe_all": np.full((200, 4), -np.log(4)),
        "log_optimized_all": optimized,
    }
    memory = tether.calibrate(tether.Log(**columns), alpha=0.2)
    found = tether.calibrate(tether.Log.scan(in_pieces(columns, rng), **TABLES), alpha=0.2)
    assert np.isposinf(memory.log_beta)
    assert any("soft pick" in each for each in memory.warnings)
    assert found.warnings == memory.warnings


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("seed", range(6))
def test_actions_that_are_in_no_row_are_told_as_in_memory(family, seed):
    rng = np.random.default_rng(seed)
    made, _ = world_with_a_rare_action(rng, 500, draws=False)
    columns = {
        "loss": made.loss["loss"],
        "log_safe": made.log_safe,
        "log_optimized": made.log_optimized,
        "reward": made.reward,
    }
    settings = {"alpha": 0.3, "family": family, "test_weight": 30.0}
    memory = tether.gain(tether.calibrate(made, **settings))
    log = tether.Log.scan(in_pieces(columns, rng), context=None, reward="reward")
    found = tether.gain(tether.calibrate(log, **settings))
    assert str(found) == str(memory)
    for stated, expected in (
        (found.reward.tethered, memory.reward.tethered),
        (found.reward.optimized, memory.reward.optimized),
        (found.reward.difference, memory.reward.difference),
        (found.changed, memory.changed),
    ):
        assert stated.unknown == expected.unknown
        assert stated.mean == pytest.approx(expected.mean)
