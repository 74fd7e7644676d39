"""Clip without contexts and mix on logs in parts: the answer in memory, bit-equal in any order."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.control.parts.worlds import World, in_pieces, marginal_world, table_columns
from tests.scale import scaled
from tether.control.parts import clip_solver

WORLDS = 80


def same_beta(first, second):
    for name, log_beta in first.log_beta_by_constraint.items():
        other = second.log_beta_by_constraint[name]
        if log_beta != other:
            assert abs(log_beta - other) <= 1e-10 * max(1.0, abs(log_beta)), name


@pytest.mark.parametrize("block", range(3))
def test_beta_is_that_in_memory(block, monkeypatch):
    for seed in range(block * scaled(WORLDS), (block + 1) * scaled(WORLDS)):
        rng = np.random.default_rng(seed)
        world = marginal_world(rng)
        # The second and third sizes are too small to collect: bins are divided instead.
        monkeypatch.setattr(clip_solver, "MAX_COLLECTED", (1 << 20, 3, 0)[block])
        try:
            expected = world.in_memory()
        except ValueError:
            with pytest.raises(ValueError):
                world.in_parts(rng)
            continue
        same_beta(expected, world.in_parts(rng))


@pytest.mark.parametrize("ratio_error", [1.0, 1.3])
def test_a_root_far_from_all_ratios_is_found(ratio_error):
    """The row has a log ratio of −295 and the draw one of 761, and the root is halfway between.

    The condition at −295 is 10^330 times as large as the test point there. β is a quotient of two
    amounts: the row's own, |loss − α|·optimized/mixture, and that of the next action.
    """
    row = {"log_safe": [70.0], "log_optimized": [-225.0], "log_mix": [69.5]}
    draw = {"log_safe": [-28.0], "log_optimized": [733.0], "log_mix": [732.5]}
    log = {"loss": [0.75], **row}
    columns = [{name: np.array(each) for name, each in part.items()} for part in (log, draw)]
    world = World(*columns, {}, {"alpha": 0.9, "ratio_error": ratio_error})
    amounts = np.log(0.15) + (-225.0 - 69.5), np.log(0.1) + (-28.0 - 732.5)
    expected = amounts[0] - amounts[1] - 2 * np.log(ratio_error)
    assert world.in_memory().log_beta == pytest.approx(expected, abs=1e-9)
    assert world.in_parts(np.random.default_rng(0), 1).log_beta == pytest.approx(expected, abs=1e-9)


def test_any_order_of_rows_and_parts_gives_the_same_bits():
    for seed in range(scaled(12)):
        world = marginal_world(np.random.default_rng(seed))
        try:
            first = world.in_parts(np.random.default_rng(1), pieces=2)
        except ValueError:
            continue
        for pieces in (1, 5):
            other = world.in_parts(np.random.default_rng(seed), pieces, shuffle=True)
            assert other.log_beta_by_constraint == first.log_beta_by_constraint
            assert other.risks == first.risks
            assert other.effective_sample_size == first.effective_sample_size
            assert other.promises == first.promises


def gaussian(rng, rows, mixed=False):
    actions, drawn = rng.normal(size=rows), rng.normal(1, 1, size=rows)
    columns = [
        {"log_safe": -(a**2) / 2, "log_optimized": -((a - 1) ** 2) / 2} for a in (actions, drawn)
    ]
    if mixed:
        for each in columns:
            each["log_mix"] = np.logaddexp(
                np.log(0.6) + each["log_safe"], np.log(0.4) + each["log_optimized"]
            )
    return {"loss": (actions > 1.2).astype(float), **columns[0]}, columns[1]


DIAGNOSTICS = (
    *("log_beta", "risk", "promise", "effective_sample_size", "max_weight", "robustness"),
    *("rows_beyond_draws", "acceptance", "relative_weights", "warnings", "blend", "rows"),
)


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("weight", ["empirical", "analytic", 3.0])
@pytest.mark.parametrize("mixed", [False, True])
def test_every_diagnostic_is_that_in_memory(family, weight, mixed):
    if family == "mix" and weight == "analytic":
        pytest.skip("mix has no analytic test weight")
    rng = np.random.default_rng(3)
    log, drawn = gaussian(rng, 700, mixed)
    settings = {"alpha": 0.25, "family": family, "test_weight": weight, "ratio_error": 1.02}
    share, mix = (0.6, "log_mix") if mixed else (None, None)
    memory = tether.calibrate(
        tether.Log.from_frame(log, context=None, safe_share=share),
        tether.Proposals.from_frame(drawn, context=None),
        **settings,
    )
    parts = tether.calibrate(
        tether.Log.scan(in_pieces(log, rng), context=None, log_mix=mix, safe_share=share),
        tether.Proposals.scan(in_pieces(drawn, rng), context=None, log_mix=mix),
        **settings,
    )
    assert memory.exists
    for name in DIAGNOSTICS:
        expected, found = getattr(memory, name), getattr(parts, name)
        if isinstance(expected, tuple) and expected and isinstance(expected[0], str):
            assert found == expected
            continue
        # In memory the weights of mix at the betas without a row are interpolated.
        tolerance = 1e-4 if name == "promise" and family == "mix" else 1e-8
        assert found == pytest.approx(expected, rel=tolerance, abs=1e-12), name
    assert parts.stability == pytest.approx(memory.stability, rel=1e-3 if family == "mix" else 1e-7)
    expected, found = memory.curve(points=30), parts.curve(points=30)
    assert found.log_beta == pytest.approx(expected.log_beta, rel=1e-12)
    assert found.risk == pytest.approx(expected.risk, rel=1e-9)
    loaded = tether.Calibration.from_dict(parts.to_dict())
    assert loaded.promise == parts.promise
    assert "beta =" in str(parts)


def test_beta_takes_two_passes_for_clip_and_one_for_mix():
    rng = np.random.default_rng(0)
    columns, drawn = gaussian(rng, 3000)
    for family, passes in (("clip", 2), ("mix", 1)):
        log = tether.Log.scan(in_pieces(columns, rng), context=None)
        proposals = tether.Proposals.scan(in_pieces(drawn, rng), context=None)
        found = tether.calibrate(log, proposals, alpha=0.25, family=family)
        assert found.exists
        assert log.passes == passes


def test_a_promise_is_reached_as_in_memory():
    rng = np.random.default_rng(1)
    columns, drawn = gaussian(rng, 400)
    memory = tether.calibrate(
        tether.Log.from_frame(columns, context=None),
        tether.Proposals.from_frame(drawn, context=None),
        promise=0.3,
    )
    parts = tether.calibrate(
        tether.Log.scan(in_pieces(columns, rng), context=None),
        tether.Proposals.scan(in_pieces(drawn, rng), context=None),
        promise=0.3,
    )
    assert memory.exists
    assert parts.log_beta == pytest.approx(memory.log_beta, abs=1e-10)
    assert parts.promise <= 0.3


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_confidence_gives_the_same_betas_and_bounds(family):
    rng = np.random.default_rng(2)
    columns, _ = gaussian(rng, 300)
    settings = {"alpha": 0.3, "confidence": 0.9, "family": family}
    settings["test_weight"] = 20.0 if family == "mix" else "analytic"
    memory = tether.calibrate(tether.Log.from_frame(columns, context=None), **settings)
    log = tether.Log.scan(in_pieces(columns, rng), context=None)
    parts = tether.calibrate(log, **settings)
    assert memory.exists
    assert parts.log_beta == memory.log_beta
    assert parts.upper_bounds == memory.upper_bounds
    assert parts.robustness == pytest.approx(memory.robustness, rel=1e-12)


def test_losses_above_their_bound_probabilities_and_an_empty_log_are_refused():
    rng = np.random.default_rng(0)
    columns, _ = gaussian(rng, 50)
    too_large = {**columns, "loss": columns["loss"] * 3}
    with pytest.raises(ValueError, match="a loss of at most bound = 1"):
        tether.calibrate(tether.Log.scan(in_pieces(too_large, rng), context=None), alpha=0.2)
    scores = {**columns, "log_safe": np.linspace(0.1, 0.9, 50)}
    with pytest.raises(ValueError, match="take their logarithm"):
        tether.calibrate(tether.Log.scan(in_pieces(scores, rng), context=None), alpha=0.2)
    with pytest.raises(ValueError, match="no rows"):
        tether.calibrate(tether.Log.scan(lambda kernel: [], context=None), alpha=0.2)
    proposals = tether.Proposals.scan(in_pieces(columns, rng), context=None)
    memory = tether.Log.from_frame(columns, context=None)
    with pytest.raises(TypeError, match=r"tether\.Log\.scan"):
        tether.calibrate(memory, proposals, alpha=0.2)


@pytest.mark.parametrize("kind", ["clip", "mix", "tables"])
def test_the_gain_is_that_in_memory(kind):
    rng = np.random.default_rng(5)
    if kind == "tables":
        columns = table_columns(rng, 300, 3) | {"reward": rng.normal(size=300)}
        memory, settings = tether.Log(**columns), {"alpha": 0.35}
        named = {name: name for name in ("log_safe_all", "log_optimized_all")}
        log = tether.Log.scan(in_pieces(columns, rng), reward="reward", **named)
    else:
        columns, _ = gaussian(rng, 400)
        columns["reward"] = rng.normal(size=400) * 10 - 3
        memory = tether.Log.from_frame(columns, context=None, reward="reward")
        settings = {"alpha": 0.3, "family": kind, "test_weight": 5.0}
        log = tether.Log.scan(in_pieces(columns, rng), context=None, reward="reward")
    expected = tether.gain(tether.calibrate(memory, **settings)).to_frame()
    found = tether.gain(tether.calibrate(log, **settings)).to_frame()
    for name in ("mean", "lower", "upper", "effective_sample_size"):
        assert found[name] == pytest.approx(expected[name], rel=1e-7, abs=1e-11, nan_ok=True)


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_rows_that_the_optimized_policy_never_takes_are_refused_as_in_memory(family):
    rng = np.random.default_rng(0)
    columns = {"loss": np.zeros(9), "log_safe": np.zeros(9), "log_optimized": np.full(9, -np.inf)}
    logs = [
        tether.Log.from_frame(columns, context=None),
        tether.Log.scan(in_pieces(columns, rng), context=None),
    ]
    for log in logs:
        for settings in ({}, {"confidence": 0.9}):
            with pytest.raises(ValueError, match="nothing to weight"):
                tether.calibrate(
                    log, alpha=0.3, family=family, test_weight=2.0, blend=0, **settings
                )


def test_bounds_with_a_ratio_error_are_those_of_memory():
    rng = np.random.default_rng(0)
    log, _ = gaussian(rng, 300)
    settings = {"alpha": 0.25, "confidence": 0.9, "ratio_error": 1.3}
    memory = tether.calibrate(tether.Log.from_frame(log, context=None), **settings)
    parts = tether.calibrate(tether.Log.scan(in_pieces(log, rng), context=None), **settings)
    assert parts.log_beta == memory.log_beta
    assert parts.upper_bounds == pytest.approx(memory.upper_bounds, rel=1e-6)


def acting_world(rng, rows=400):
    """Two rounds: the safe policy acted in half of the rows, mix with beta 0.5 in the others."""
    columns, _ = gaussian(rng, rows)
    shifted = rng.normal(size=rows) + (rng.random(rows) < 1 / 3)
    actions = np.where(np.arange(rows) % 2, shifted, rng.normal(size=rows))
    safe, optimized = -(actions**2) / 2, -((actions - 1) ** 2) / 2
    second = np.log((np.exp(safe) + 0.5 * np.exp(optimized)) / 1.5)
    columns = {"loss": (actions > 1.2).astype(float), "log_safe": safe, "log_optimized": optimized}
    columns["log_mix"] = np.logaddexp(safe, second) - np.log(2)
    columns["logged"] = np.where(np.arange(rows) % 2, second, safe)
    columns["limit"] = np.where(np.arange(rows) % 2, np.log(1.5), 0.0)
    return columns


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("limited", [False, True])
def test_a_confidence_with_a_mixture_needs_and_uses_the_policy_that_acted(family, limited):
    rng = np.random.default_rng(7)
    columns = acting_world(rng)
    settings = {"alpha": 0.4, "confidence": 0.9, "family": family, "test_weight": 20.0}
    limit = columns["limit"] if limited else None
    memory = tether.calibrate(
        tether.Log(
            *(columns[name] for name in ("loss", "log_safe", "log_optimized")),
            log_mix=columns["log_mix"],
            acting=tether.control.Acting(columns["logged"], log_base_limit=limit),
        ),
        **settings,
    )
    log = tether.Log.scan(
        in_pieces(columns, rng),
        context=None,
        log_mix="log_mix",
        log_logged="logged",
        log_base_limit="limit" if limited else None,
    )
    parts = tether.calibrate(log, **settings)
    assert memory.exists
    assert parts.log_beta == memory.log_beta
    assert parts.upper_bounds == pytest.approx(memory.upper_bounds, rel=1e-12)
    without = tether.Log.scan(in_pieces(columns, rng), context=None, log_mix="log_mix")
    with pytest.raises(ValueError, match="name the column with it as log_logged"):
        tether.calibrate(without, **settings)
    with pytest.raises(ValueError, match="log_base_limit needs log_logged"):
        tether.Log.scan(in_pieces(columns, rng), context=None, log_base_limit="limit")


def test_the_stability_of_mix_is_that_of_memory_where_one_row_outweighs_all_others():
    rng = np.random.default_rng(0)
    ratio = np.concatenate((rng.normal(size=40), [800.0]))
    loss = np.append((rng.random(40) < 0.1).astype(float), 0.0)
    columns = {"loss": loss, "log_safe": np.zeros(41), "log_optimized": ratio}
    settings = {"alpha": 0.5, "family": "mix", "test_weight": 2.0}
    expected = tether.calibrate(tether.Log.from_frame(columns, context=None), **settings)
    log = tether.Log.scan(lambda kernel: [kernel.partial(columns)], context=None)
    found = tether.calibrate(log, **settings)
    assert found.stability == pytest.approx(expected.stability, rel=1e-6)


def test_a_row_that_weighs_something_only_without_itself_counts_in_the_stability_of_mix():
    ratio = np.where(np.arange(20) % 3 == 0, -np.inf, 0.0)
    loss = np.where(np.arange(20) < 7, 0.9, 0.1)
    columns = {"loss": loss, "log_safe": np.zeros(20), "log_optimized": ratio}
    settings = {"alpha": 0.42, "family": "mix", "test_weight": 1.0}
    expected = tether.calibrate(tether.Log.from_frame(columns, context=None), **settings)
    log = tether.Log.scan(lambda kernel: [kernel.partial(columns)], context=None)
    found = tether.calibrate(log, **settings)
    assert found.log_beta == expected.log_beta
    assert found.stability == pytest.approx(expected.stability, rel=1e-6)
