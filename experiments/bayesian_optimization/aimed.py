"""A risk-aware acquisition and ramps: what the arms beyond the paper are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import tether
from tether.release import ArmCounts, Guardrail, ramp_share, replaces_window

LOSS = "violation"


def predicted_violations(
    settings: Mapping[str, Any], candidates: np.ndarray, actions: np.ndarray, inside: np.ndarray
) -> np.ndarray:
    """How likely each candidate is to violate the constraint, learned from `actions`.

    A Gaussian process of "is feasible" with mean 0: what is far from every evaluation is predicted
    to be infeasible, so an aimed policy moves outwards from where it has been.
    """
    model = GaussianProcessRegressor(
        RBF(settings["aim_length"]), alpha=settings["aim_noise"], optimizer=None
    )
    model.fit(candidates[actions], inside[actions].astype(float))
    return np.clip(1 - model.predict(candidates), 0, 1)


def aim(settings: Mapping[str, Any], optimized: Any, predicted: np.ndarray, alpha: float) -> Any:
    """The optimized policy, tilted until its predicted risk is `aim_share` times alpha."""
    target = settings["aim_share"] * alpha
    return tether.aim(optimized, lambda _, actions: predicted[actions], 1, target).policy


@dataclass(frozen=True)
class RampRound:
    """One round of a ramp: what was evaluated, its expected risk, and the mean share."""

    actions: np.ndarray
    risk: float
    share: float


def ramp_round(
    steps: Sequence[int],
    alpha: float,
    safe: Any,
    optimized: Any,
    safe_rows: np.ndarray,
    costly: np.ndarray,
    rng: np.random.Generator,
) -> RampRound:
    """A new policy's ramp within a round: in each step its share follows from its own rows.

    `safe_rows` are rows of the safe policy that no optimized policy has learned from. Everything
    else may be learned from: a policy's share depends on no row that is older than the policy, but
    for these.
    """
    risks = [float(np.exp(each.log_prob_all(1)[0]) @ costly) for each in (safe, optimized)]
    old = {LOSS: ArmCounts(len(safe_rows), float(costly[safe_rows].sum()))}
    window = ArmCounts(0, 0.0)
    actions, expected, shares = [], 0.0, 0.0
    share = ramp_share({LOSS: Guardrail(alpha)}, old=old, new={LOSS: window}).share
    for count in steps:
        is_new = rng.random(count) < share
        drawn = np.where(is_new, optimized.sample(count, rng), safe.sample(count, rng))
        actions.append(drawn)
        expected += count * ((1 - share) * risks[0] + share * risks[1])
        shares += count * share
        if replaces_window(window.rows, int(is_new.sum())):
            window = ArmCounts(int(is_new.sum()), float(costly[drawn[is_new]].sum()))
            share = ramp_share({LOSS: Guardrail(alpha)}, old=old, new={LOSS: window}).share
    return RampRound(np.concatenate(actions), expected / sum(steps), shares / sum(steps))
