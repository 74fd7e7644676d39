"""Gains: on logs that look exactly like a finite world, every estimate is the truth."""

import json

import numpy as np
import pytest
from benchmarks import gain_coverage
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.example_logs import drawn_world
from tests.control.finite_worlds import FiniteWorld
from tether._core import records

FAMILIES = ("clip", "mix", "budgeted_clip(4)")


def check_means(world, found, policies, mixed):
    quantities = ((found.reward, world.reward), (found.losses["loss"], world.loss))
    for means, values in quantities:
        for name, policy in policies.items():
            estimate, effective = getattr(means, name), world.effective_rows(policy, mixed)
            assert estimate.effective_sample_size == pytest.approx(effective)
            if effective < 30:
                assert estimate.mean is None
                assert "too few" in estimate.unknown
            else:
                assert estimate.mean == pytest.approx(world.mean(policy, values))
                assert estimate.lower <= estimate.mean <= estimate.upper
        if means.difference.known:
            gained = world.mean(policies["tethered"] - policies["safe"], values)
            assert means.difference.mean == pytest.approx(gained, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    family=st.sampled_from(FAMILIES),
    level=st.floats(0.05, 1.2),
    mixed=st.booleans(),
)
def test_with_tables_every_estimate_is_exact(seed, family, level, mixed):
    world = FiniteWorld.draw(seed, mixed=mixed)
    calibration = tether.calibrate(world.log(mixed=mixed), alpha=world.alpha(level), family=family)
    found = tether.gain(calibration)
    tethered = world.tethered(calibration.log_beta, family)
    policies = {"safe": world.safe, "tethered": tethered, "optimized": world.optimized}
    check_means(world, found, policies, mixed)
    assert found.changed.mean == pytest.approx(world.changed(tethered), abs=1e-9)
    if family == "mix":
        beta = calibration.beta
        assert found.traffic == pytest.approx(1.0 if np.isinf(beta) else beta / (1 + beta))
    else:
        assert found.traffic is None


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    level=st.floats(0.05, 1.2),
    contexts=st.booleans(),
    mixed=st.booleans(),
)
def test_without_tables_the_share_that_changes_comes_from_the_weights(seed, level, contexts, mixed):
    """Mix in contexts; clip without contexts, of which the normalizing constant cancels."""
    world = FiniteWorld.draw(seed, contexts=3 if contexts else 1, mixed=mixed)
    log = world.log(tables=False, mixed=mixed, contextual=contexts)
    family = "mix" if contexts else "clip"
    calibration = tether.calibrate(log, alpha=world.alpha(level), family=family, test_weight=20.0)
    found = tether.gain(calibration)
    tethered = world.tethered(calibration.log_beta, family)
    policies = {"safe": world.safe, "tethered": tethered, "optimized": world.optimized}
    check_means(world, found, policies, mixed)
    assert found.changed.mean == pytest.approx(world.changed(tethered), abs=1e-9)


def test_where_no_beta_passes_nothing_changes():
    world = FiniteWorld.draw(0)
    found = tether.gain(tether.calibrate(world.log(), alpha=1e-3))
    assert (found.changed.mean, found.changed.upper) == (0, 0)
    assert found.reward.difference.mean == 0
    assert found.reward.tethered == found.reward.safe


def test_the_optimized_policy_is_the_one_that_was_given_not_its_blend():
    safe = np.log(np.full((300, 2), 0.5))
    with np.errstate(divide="ignore"):
        optimized = np.log(np.tile([1.0, 0.0], (300, 1)))
    action, row = np.arange(300) % 2, np.arange(300)
    log = tether.Log(
        0.3 * (action == 0), safe[row, action], optimized[row, action],
        log_safe_all=safe, log_optimized_all=optimized, reward=action + 1.0,
    )  # fmt: skip
    calibration = tether.calibrate(log, alpha=0.9)
    assert calibration.blend > 0
    found = tether.gain(calibration)
    assert found.reward.optimized.mean == 1.0
    assert found.reward.tethered.mean == pytest.approx(1 + 0.5 * calibration.blend)
    assert found.changed.mean == pytest.approx(0.5 - 0.5 * calibration.blend)


def test_what_the_safe_policy_never_does_is_not_estimated():
    """A third of the optimized policy's actions cannot be in the log, and it says so.

    Nothing tells clip's part of them: a log cannot tell what is never done from what is rare.
    """
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=1000)
    log = tether.Log(action == 1, np.full(1000, np.log(0.5)), np.full(1000, np.log(1 / 3)),
                     reward=action)  # fmt: skip
    found = tether.gain(tether.calibrate(log, alpha=0.7))
    assert found.reward.optimized.mean is None
    assert "67%" in found.reward.optimized.unknown
    assert "may be in no row of the log" in found.reward.tethered.unknown
    near = tether.gain(tether.calibrate(log, alpha=0.539))
    assert 0 < near.log_beta < np.log(4)
    assert near.reward.tethered.mean == pytest.approx(action.mean())


def test_shared_draws_and_estimated_scores_are_mentioned():
    rng = np.random.default_rng(1)
    log, proposals, *_ = drawn_world(rng, rows=80)
    own = tether.gain(tether.calibrate(log, proposals, alpha=0.3))
    assert ["come from draws" in note for note in own.notes] == [True]
    action, drawn = rng.normal(size=200), rng.normal(size=16) + np.repeat([0, 1], 8)
    log = tether.Log(action > 2, -(action**2) / 2, -((action - 1) ** 2) / 2, context=[0] * 200)
    proposals = tether.Proposals(
        -(drawn**2) / 2, -((drawn - 1) ** 2) / 2,
        context=[0] * 16, source=np.repeat(["safe", "optimized"], 8),
    )  # fmt: skip
    shared = tether.gain(tether.calibrate(log, proposals, alpha=0.3))
    assert any("share draws" in note for note in shared.notes)
    plain = FiniteWorld.draw(1).log()
    assert tether.gain(tether.calibrate(plain, alpha=0.6)).notes == ()
    plain.approximate = "scores are estimates"
    notes = tether.gain(tether.calibrate(plain, alpha=0.6)).notes
    assert any("log-probabilities are estimates" in note for note in notes)


def test_as_text_json_and_frame():
    world = FiniteWorld.draw(4)
    found = tether.gain(tether.calibrate(world.log(), alpha=0.6, family="mix"), confidence=0.9)
    text = str(found)
    for part in ("reward, safe", "reward, tethered", "reward, optimized", "reward, difference",
                 "loss, tethered", "decisions that change", "traffic to optimized",
                 "approximate 0.9 intervals", "not promises"):  # fmt: skip
        assert part in text
    content = json.loads(json.dumps(records.encode(found.to_dict()), allow_nan=False))
    assert content["reward"]["tethered"]["mean"] == found.reward.tethered.mean
    frame = found.to_frame()
    assert {len(column) for column in frame.values()} == {9}
    place = list(zip(frame["quantity"], frame["policy"], strict=True)).index(("loss", "tethered"))
    assert frame["upper"][place] == found.losses["loss"].tethered.upper
    wider = tether.gain(tether.calibrate(world.log(), alpha=0.6, family="mix"), confidence=0.99)
    assert wider.reward.safe.upper > found.reward.safe.upper


def test_several_losses_have_their_names_and_rewards_may_be_missing():
    log = FiniteWorld.draw(5).log()
    named = tether.Log({"reward": log.loss["loss"], "delay": 3 * log.loss["loss"]},
                       log.log_safe, log.log_optimized)  # fmt: skip
    found = tether.gain(
        tether.calibrate(
            named, alpha={"reward": 0.6, "delay": 1.9}, bound={"reward": 1, "delay": 3}
        )
    )
    assert found.reward is None
    assert set(found.to_frame()["quantity"]) == {
        "loss[reward]", "loss[delay]", "decisions that change"
    }  # fmt: skip
    delay, other = found.losses["delay"], found.losses["reward"]
    assert delay.tethered.upper == pytest.approx(3 * other.tethered.upper)


def test_bad_arguments_are_named(tmp_path):
    calibration = tether.calibrate(FiniteWorld.draw(0).log(), alpha=0.6)
    with pytest.raises(TypeError, match="calibration must be a Calibration, got float"):
        tether.gain(0.5)
    with pytest.raises(ValueError, match=r"confidence must be above 0 and below 1, got 95"):
        tether.gain(calibration, confidence=95)
    calibration.save(tmp_path / "found.json")
    with pytest.raises(RuntimeError, match="does not contain the log"):
        tether.gain(tether.Calibration.load(tmp_path / "found.json"), confidence=0.9)


@pytest.mark.parametrize(
    ("world", "repeats"), [("normal, mix", 200), ("eight actions, clip from draws", 60)]
)
def test_intervals_at_the_beta_that_was_found_cover_about_as_often_as_they_say(world, repeats):
    """The worst of both worlds covers 0.9 of the logs (`python -m benchmarks.gain_coverage`)."""
    found = gain_coverage.coverage(world, 200, repeats)
    assert min(each.count for each in found.values()) > 0.9 * repeats
    for quantity, each in found.items():
        assert each.share > 0.83, quantity
