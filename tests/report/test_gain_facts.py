"""What a round buys, in the report."""

import dataclasses
from types import SimpleNamespace

import numpy as np

import tether
from tether.report.gain_facts import gain_facts
from tether.rounds.history import Estimate


def record_of(found, reward=None):
    return SimpleNamespace(calibration=found, reward=reward)


def estimate(mean):
    """An estimate of the history, whatever else it states."""
    values = {each.name: mean for each in dataclasses.fields(Estimate)}
    return Estimate(**{**values, "lower": mean - 1, "upper": mean + 1})


def calibrated(**settings):
    rng = np.random.default_rng(0)
    actions = rng.normal(size=400)
    log = tether.Log(actions > 1.5, -(actions**2) / 2, -((actions - 1) ** 2) / 2, reward=actions)
    return tether.calibrate(log, alpha=0.2, **settings)


def test_a_round_without_rewards_and_calibration_has_no_facts():
    assert gain_facts(SimpleNamespace(safe_reward=None), record_of(None)) == []


def test_rewards_are_shown_beside_the_safe_policy():
    history = SimpleNamespace(safe_reward=estimate(2.0))
    facts = dict(gain_facts(history, record_of(None, estimate(3.0))))
    assert facts["Mean reward"].startswith("3")
    assert facts["Mean reward"].endswith("safe policy 2")


def test_a_calibration_with_rewards_states_its_gain():
    found = calibrated()
    facts = dict(gain_facts(SimpleNamespace(safe_reward=None), record_of(found)))
    gain = tether.gain(found)
    assert facts["Reward gained, estimated"].startswith(f"{gain.reward.difference.mean:.2f}")
    assert set(facts) == {"Reward gained, estimated", "Decisions that change"}
    unknown = dataclasses.replace(
        gain.changed, mean=None, lower=None, upper=None, unknown="too few rows"
    )
    found.__dict__["saved_gain"] = dataclasses.replace(gain, changed=unknown)
    facts = dict(gain_facts(SimpleNamespace(safe_reward=None), record_of(found)))
    assert facts["Decisions that change"] == "unknown: too few rows"


def test_mix_states_its_share_of_the_traffic():
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=300)
    log = tether.Log(
        actions == 2,
        np.full(300, np.log(1 / 3)),
        np.log(np.array([0.2, 0.2, 0.6]))[actions],
        max_ratio=2.0,
    )
    found = tether.calibrate(log, alpha=0.45, family="mix")
    facts = dict(gain_facts(SimpleNamespace(safe_reward=None), record_of(found)))
    assert facts["Traffic to optimized"].endswith("%")
