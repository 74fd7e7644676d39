"""The log of a campaign, policies with known probabilities, and estimates with their errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tether
from experiments import data

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Impressions:
    """What was shown where, whether it was clicked, and the probability of showing it."""

    position: Rows
    item: Rows
    click: Floats
    propensity: Floats

    def __len__(self) -> int:
        return len(self.click)

    def take(self, rows: Rows) -> Impressions:
        """Some of the rows."""
        return Impressions(*(each[rows] for each in vars(self).values()))

    def halves(self, rng: np.random.Generator) -> tuple[Impressions, Impressions]:
        """Two random halves."""
        first, second = np.array_split(rng.permutation(len(self)), 2)
        return self.take(first), self.take(second)


@cache
def load(logged_by: str, campaign: str, *, stand_in: bool = False) -> Impressions:
    """The log of the `random` or the `bts` policy; positions and items count from 0."""
    frame = data.load(f"open_bandit_{logged_by}_{campaign}", stand_in=stand_in)
    return Impressions(
        frame["position"].to_numpy(dtype=np.int64) - 1,
        frame["item_id"].to_numpy(dtype=np.int64),
        frame["click"].to_numpy(dtype=float),
        frame["propensity"].to_numpy(dtype=float),
    )


def uniform(items: int, positions: int = 3) -> tether.Categorical:
    """The safe policy: every item alike, in every position."""
    return tether.Categorical.from_probabilities(np.full((positions, items), 1 / items))


def learned(name: str, shown: Impressions, items: int, positions: int = 3) -> tether.Categorical:
    """A policy for each position, from how often Thompson sampling showed each item there.

    `frozen` shows items as often as it did, `neglected` in inverse proportion; one is added to each
    count, so that no probability is zero.
    """
    count = np.ones((positions, items))
    np.add.at(count, (shown.position, shown.item), 1)
    weight = {"frozen": count, "neglected": 1 / count}[name]
    return tether.Categorical.from_probabilities(weight / weight.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Estimate:
    """A click rate by importance weighting: its standard error, and how many rows it rests on."""

    rate: float
    error: float
    effective: float


def click_rate(policy: Any, rows: Impressions) -> Estimate:
    """The click rate that the policy would have had, from another policy's rows."""
    weight = np.exp(policy.log_prob(rows.position, rows.item)) / rows.propensity
    clicked = weight * rows.click
    error = clicked.std(ddof=1) / np.sqrt(len(rows))
    return Estimate(clicked.mean(), error, weight.sum() ** 2 / (weight**2).sum())


def distance(policy: Any, other: Any, positions: int = 3) -> float:
    """Total variation between two policies, averaged over positions."""
    every = np.arange(positions)
    first, second = (np.exp(each.log_prob_all(every)) for each in (policy, other))
    return float(np.abs(first - second).sum(axis=1).mean() / 2)
