"""Runs of random calls agree with a model of dictionaries in every share, and verify says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes, RampModel
from tests.scale import scaled
from tether.release import Guardrail
from tether.rounds.store_verification import find_all

CALLS = ("safe", "policy", "act", "act", "act", "act", "observe", "observe", "observe", "late")
CALLS += ("advance", "advance", "advance", "withdraw", "halt", "resume")
LIMITS = {"harm": (0.3, 1.0), "delay": (0.8, 2.0)}
SAFE_RISK, RISKS = 0.05, (0.0, 0.9, 0.25, 0.02)


def risk_of(policy):
    return RISKS[(policy - 1) % len(RISKS)] if policy else SAFE_RISK


class Pair:
    """A run and the model of it, to which the same calls are made."""

    def __init__(self, *, seed, target, against, confidence, actions_per_step):
        self.rng = np.random.default_rng(seed)
        alphas = {name: alpha for name, (alpha, _) in LIMITS.items()}
        bounds = {name: bound for name, (_, bound) in LIMITS.items()}
        self.run = tether.Controller(
            AlwaysTakes(0),
            store="sqlite://",
            family="ramp",
            **{target: alphas},
            bound=bounds,
            alarm_risk={name: 0.999 * bound for name, bound in bounds.items()},
            max_silence=None,
            against=against,
            confidence=confidence,
            actions_per_step=actions_per_step,
        )
        guardrails = {
            name: Guardrail(**{target: alpha}, bound=bound)
            for name, (alpha, bound) in LIMITS.items()
        }
        self.model = RampModel(
            guardrails,
            against=against,
            confidence=confidence,
            actions_per_step=actions_per_step,
        )
        self.policies = 0
        self.safe()
        self.act(60)
        self.observe()

    def safe(self):
        self.run.begin()
        self.model.begin()

    def policy(self):
        self.policies += 1
        self.run.begin(AlwaysTakes(self.policies))
        self.model.begin(self.policies)

    def advance(self):
        by_itself = self.model.actions_per_step is not None and self.model.confidence is None
        if self.model.last["policy"] is not None and not by_itself:
            self.run.advance()
            self.model.advance()

    def act(self, count=None):
        count = int(self.rng.integers(1, 60)) if count is None else count
        self.model.before_act()
        taken = self.run.round.act(count, self.rng)
        assert set(taken.actions.tolist()) <= self.model.may_answer()
        self.run._refresh()
        flags = dict(zip(self.run._rows.ids.tolist(), self.run._rows.calibration, strict=True))
        for key, action in zip(taken.ids.tolist(), taken.actions.tolist(), strict=True):
            self.model.rows[key] = {
                "round": len(self.model.rounds),
                "by": action,
                "calibration": bool(flags[key]),
                "losses": {},
                "withdrawn": False,
            }

    def observe(self, share=1.0):
        for name, (_, bound) in LIMITS.items():
            keys = [
                key
                for key, row in self.model.rows.items()
                if name not in row["losses"] and not row["withdrawn"] and self.rng.random() < share
            ]
            risks = [risk_of(self.model.rows[key]["by"]) for key in keys]
            losses = (self.rng.random(len(keys)) < risks) * bound
            if keys:
                self.run.observe(keys, {name: losses})
            for key, loss in zip(keys, losses.tolist(), strict=True):
                self.model.rows[key]["losses"][name] = loss

    def late(self):
        self.observe(0.4)

    def withdraw(self):
        keys = [
            key
            for key, row in self.model.rows.items()
            if not row["losses"] and not row["withdrawn"] and self.rng.random() < 0.3
        ]
        if keys:
            self.run.withdraw(keys, "a test")
        for key in keys:
            self.model.rows[key]["withdrawn"] = True

    def halt(self):
        self.run.halt("a test")
        self.model.alarm = True

    def resume(self):
        if self.model.alarm:
            self.run.resume("a test")
            self.model.alarm = False
            self.model.resumed += 1

    def check(self):
        expected = self.model.rounds
        found = self.run.history().rounds
        assert len(found) == len(expected)
        for record, each in zip(found, expected, strict=True):
            assert record.share == pytest.approx(each["share"], rel=1e-12)
            if each["policy"] is not None:
                assert range(record.window_from, record.window + 1) == each["window"]
                by = expected[record.reference - 1]["policy"] if record.reference else 0
                assert by == each["reference"]
        with self.run._store.reading() as connection:
            assert [each for each in find_all(connection, None) if each.ok is False] == []
        self.run.close()


@settings(max_examples=scaled(20), deadline=None)
@given(
    st.lists(st.sampled_from(CALLS), min_size=10, max_size=40),
    st.integers(0, 10**6),
    st.sampled_from(["safe", "last"]),
    st.sampled_from([("alpha", None), ("promise", None), ("alpha", 0.9)]),
    st.sampled_from([None, 50]),
)
def test_random_calls_agree_with_the_model(calls, seed, against, asked, actions_per_step):
    target, confidence = asked
    pair = Pair(
        seed=seed,
        target=target,
        against=against,
        confidence=confidence,
        actions_per_step=actions_per_step,
    )
    for call in calls:
        getattr(pair, call)()
    pair.check()


@pytest.mark.parametrize("against", ["safe", "last"])
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_long_runs_reach_a_share_of_1_and_agree_with_the_model(against, confidence):
    target = "promise" if confidence is None else "alpha"
    pair = Pair(
        seed=1, target=target, against=against, confidence=confidence, actions_per_step=None
    )
    for _ in range(3):
        pair.policy()
        for _ in range(7 if confidence else 4):
            pair.act(200)
            pair.observe()
            pair.advance()
    shares = [each["share"] for each in pair.model.rounds]
    references = {each["reference"] for each in pair.model.rounds if each["policy"]}
    assert 1.0 in shares
    assert (len(references) > 1) == (against == "last")
    pair.check()
