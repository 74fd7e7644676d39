"""Worlds in which plans are compared with calibrations: large logs, from which rows are drawn.

A world is a large log and the ratios of as many draws of the optimized policy. A log of n rows is n
rows of it with replacement, and its proposals are n of the draws, so that the large log is the
truth, whatever made it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_softmax

import tether

LARGE = 40_000
"""The rows of a world."""
LOG_SAFE = np.log(0.25)
"""What the safe policy says of every action; only ratios matter, and tables of four actions."""


@dataclass(frozen=True)
class PlanWorld:
    """A large log, ratios of draws of the optimized policy, and what is asked for."""

    name: str
    loss: np.ndarray
    log_ratio: np.ndarray
    drawn: np.ndarray
    asked: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    """Further columns and facts of the log; arrays have one entry per row."""
    log_safe: np.ndarray | None = None
    """What the safe policy says of each row; by default the same of all."""

    def log(self, at: np.ndarray | slice) -> tether.Log:
        """The log of these rows."""
        more = {
            name: value[at] if isinstance(value, np.ndarray) else value
            for name, value in self.more.items()
        }
        ratio = self.log_ratio[at]
        safe = np.full(len(ratio), LOG_SAFE) if self.log_safe is None else self.log_safe[at]
        return tether.Log(self.loss[at], safe, ratio + safe, **more)

    def calibrate(self, rows: int, rng: np.random.Generator) -> tether.Calibration:
        """The calibration of a log of so many rows."""
        log = self.log(rng.integers(len(self.loss), size=rows))
        proposals = None
        if log.max_ratio is None and not log.contextual:
            top = self.drawn[rng.integers(len(self.drawn), size=rows)]
            proposals = tether.Proposals(np.full(rows, LOG_SAFE), top + LOG_SAFE)
        return tether.calibrate(log, proposals, **self.asked)

    def plan(self, **more: Any) -> tether.planning.Plan:
        """The plan that is made from the large log."""
        return tether.plan(self.log(slice(None)), **self.asked, **more)


def gaussian(name: str, shift: float, limit: float, seed: int = 0, **asked: Any) -> PlanWorld:
    """N(0, 1) and N(shift, 1), and a loss of 1 for every action above a limit."""
    rng = np.random.default_rng(seed)
    safe, drawn = rng.normal(size=LARGE), rng.normal(shift, size=LARGE)

    def ratio(action: np.ndarray) -> np.ndarray:
        return shift * action - shift**2 / 2

    return PlanWorld(name, (safe > limit).astype(float), ratio(safe), ratio(drawn), asked)


def graded(name: str, scale: float, seed: int = 1, **asked: Any) -> PlanWorld:
    """Eight actions, and losses of any size that are seldom near the bound."""
    rng = np.random.default_rng(seed)
    safe, optimized = np.full(8, 1 / 8), np.array([1, 1, 2, 3, 4, 6, 7, 8]) / 32
    harm = np.linspace(0.2, 1.8, 8) * scale
    action, drawn = rng.choice(8, size=LARGE, p=safe), rng.choice(8, size=LARGE, p=optimized)
    ratio = np.log(optimized / safe)
    loss = np.minimum(rng.gamma(2.0, harm[action] / 2), 1.0)
    return PlanWorld(name, loss, ratio[action], ratio[drawn], asked)


def table(name: str, harm: np.ndarray, seed: int = 2, **asked: Any) -> PlanWorld:
    """Five actions with losses of 0 or 1, by the probabilities `harm`."""
    rng = np.random.default_rng(seed)
    safe, optimized = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), np.array([0.1, 0.2, 0.2, 0.2, 0.3])
    action, drawn = rng.choice(5, size=LARGE, p=safe), rng.choice(5, size=LARGE, p=optimized)
    ratio = np.log(optimized / safe)
    loss = (rng.random(LARGE) < harm[action]).astype(float)
    return PlanWorld(name, loss, ratio[action], ratio[drawn], asked)


def never_takes(name: str, seed: int = 5, **asked: Any) -> PlanWorld:
    """Ten equal actions, three of which the optimized policy never takes."""
    rng = np.random.default_rng(seed)
    harm = np.array([0, 0, 0, 0.02, 0.02, 0.05, 0.05, 0.1, 0.1, 0.2])
    optimized = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3]) / 12
    action, drawn = rng.integers(10, size=LARGE), rng.choice(10, size=LARGE, p=optimized)
    loss = (rng.random(LARGE) < harm[action]).astype(float)
    with np.errstate(divide="ignore"):
        ratio = np.log(10 * optimized)
    return PlanWorld(name, loss, ratio[action], ratio[drawn], asked)


def propensities(name: str, seed: int = 3, **asked: Any) -> PlanWorld:
    """A rule that takes one action for certain, which the safe policy takes in a quarter."""
    rng = np.random.default_rng(seed)
    wanted = rng.random(LARGE) < 0.25
    loss = (rng.random(LARGE) < np.where(wanted, 0.06, 0.02)).astype(float)
    ratio = np.where(wanted, np.log(4.0), -np.inf)
    more = {"context": np.arange(LARGE), "max_ratio": 4.0}
    return PlanWorld(name, loss, ratio, ratio[wanted], asked, more)


def contexts(name: str, seed: int = 4, **asked: Any) -> PlanWorld:
    """Two kinds of contexts with tables of four actions; the policies differ in one of them."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=LARGE)
    safe = np.full((2, 4), 0.25)
    optimized = np.array([[0.25, 0.25, 0.3, 0.2], [0.05, 0.15, 0.2, 0.6]])
    harm = np.array([[0.02, 0.03, 0.04, 0.03], [0.02, 0.05, 0.1, 0.2]])
    action = rng.integers(4, size=LARGE)
    loss = (rng.random(LARGE) < harm[kind, action]).astype(float)
    ratio = np.log(optimized / safe)
    more = {"log_safe_all": np.log(safe)[kind], "log_optimized_all": np.log(optimized)[kind]}
    return PlanWorld(name, loss, ratio[kind, action], ratio[kind, action], asked, more)


def uneven_contexts(
    name: str, wide: float, apart: float, where: str, seed: int = 6, **asked: Any
) -> PlanWorld:
    """Tables of six actions, all different, with policies that are far apart in a few contexts.

    `wide` is the spread of the safe policy's log-probabilities, `apart` the mean strength by which
    the optimized one follows its own scores, and harm is large where they are "apart" or "alike".
    """
    rng = np.random.default_rng(seed)
    score, strength = rng.normal(size=(LARGE, 6)), rng.gamma(1.0, apart, size=(LARGE, 1))
    log_safe = log_softmax(wide * rng.normal(size=(LARGE, 6)), axis=1)
    log_optimized = log_softmax(log_safe + strength * score, axis=1)
    harm = 0.02 + 0.05 * strength * np.maximum(score, 0)
    if where == "alike":
        harm = 0.1 * np.exp(-strength + 0.5 * score)
    below = np.cumsum(np.exp(log_safe), axis=1)
    action = np.minimum((rng.random((LARGE, 1)) > below).sum(axis=1), 5)
    row = np.arange(LARGE), action
    loss = (rng.random(LARGE) < harm[row]).astype(float)
    ratio = (log_optimized - log_safe)[row]
    more = {"log_safe_all": log_safe, "log_optimized_all": log_optimized}
    return PlanWorld(name, loss, ratio, ratio, asked, more, log_safe[row])


def all_worlds() -> list[Callable[[], PlanWorld]]:
    """Promises close to the safe risk and far from it, rare and common losses, near and far."""
    rare, common = np.array([0, 0.01, 0.02, 0.03, 0.1]), np.array([0.1, 0.2, 0.3, 0.4, 0.6])
    return [
        lambda: gaussian("Gaussian, 1 apart", 1.0, 1.5, promise=0.1, family="clip"),
        lambda: gaussian("Gaussian, 1 apart", 1.0, 1.5, promise=0.1, family="mix"),
        lambda: gaussian("Gaussian, 1 apart", 1.0, 1.5, promise=0.2, family="clip"),
        lambda: gaussian("Gaussian, 1 apart", 1.0, 1.5, promise=0.2, family="mix"),
        lambda: gaussian("Gaussian, 1 apart", 1.0, 1.5, alpha=0.1, family="clip"),
        lambda: gaussian("Gaussian, 0.3 apart", 0.3, 1.5, promise=0.08, family="clip"),
        lambda: gaussian("Gaussian, 0.3 apart", 0.3, 1.5, promise=0.08, family="mix"),
        lambda: gaussian("Gaussian, 2 apart", 2.0, 2.0, promise=0.05, family="clip"),
        lambda: gaussian("Gaussian, 2 apart", 2.0, 2.0, promise=0.05, family="mix"),
        lambda: gaussian("Gaussian, rare loss", 1.0, 2.5, promise=0.012, family="clip"),
        lambda: gaussian("Gaussian, rare loss", 1.0, 2.5, promise=0.012, family="mix"),
        lambda: gaussian("Gaussian, rare loss", 1.0, 2.5, alpha=0.012, family="mix"),
        lambda: table("five actions, rare", rare, promise=0.03, family="clip"),
        lambda: table("five actions, rare", rare, promise=0.03, family="mix"),
        lambda: table("five actions, common", common, promise=0.3, family="clip"),
        lambda: table("five actions, common", common, promise=0.5, family="mix"),
        lambda: graded("graded losses", 0.1, promise=0.13, family="clip"),
        lambda: graded("graded losses", 0.1, promise=0.13, family="mix"),
        lambda: graded("graded losses", 0.1, alpha=0.11, family="clip"),
        lambda: propensities("one action of four", promise=0.04, family="mix"),
        lambda: propensities("one action of four", promise=0.035, family="mix"),
        lambda: never_takes("three never taken", promise=0.08, family="clip"),
        lambda: never_takes("three never taken", promise=0.08, family="mix"),
        lambda: contexts("two kinds of contexts", promise=0.1, family="mix"),
        *contextual_worlds(),
        *confident_worlds(),
    ]


def contextual_worlds() -> list[Callable[[], PlanWorld]]:
    """Clip in contexts with tables of all actions."""
    apart, alike = "contexts, harm apart", "contexts, harm alike"
    return [
        lambda: contexts("two kinds of contexts", promise=0.1, family="clip"),
        lambda: contexts("two kinds of contexts", promise=0.08, family="clip"),
        lambda: uneven_contexts(apart, 0.5, 0.7, "apart", promise=0.06, family="clip"),
        lambda: uneven_contexts(alike, 0.5, 0.7, "alike", promise=0.1, family="clip"),
        lambda: uneven_contexts("contexts, wide", 1.5, 1.0, "apart", promise=0.08, family="clip"),
        lambda: uneven_contexts("contexts, wide", 1.5, 1.0, "apart", alpha=0.06, family="clip"),
    ]


def confident_worlds() -> list[Callable[[], PlanWorld]]:
    """The same with a confidence."""
    rare, common = np.array([0, 0.01, 0.02, 0.03, 0.1]), np.array([0.1, 0.2, 0.3, 0.4, 0.6])
    sure = {"confidence": 0.95}
    return [
        lambda: gaussian("Gaussian, 1 apart", 1.0, 1.5, alpha=0.1, family="clip", **sure),
        lambda: gaussian("Gaussian, 1 apart", 1.0, 1.5, promise=0.2, family="mix", **sure),
        lambda: gaussian("Gaussian, rare loss", 1.0, 2.5, alpha=0.02, family="clip", **sure),
        lambda: table("five actions, rare", rare, promise=0.03, confidence=0.8, family="clip"),
        lambda: table("five actions, common", common, alpha=0.3, family="mix", **sure),
        lambda: graded("graded losses", 0.1, promise=0.13, family="clip", **sure),
        lambda: graded("graded losses", 0.3, alpha=0.4, confidence=0.99, family="clip"),
        lambda: propensities("one action of four", promise=0.05, family="mix", **sure),
        lambda: never_takes("three never taken", promise=0.08, family="clip", **sure),
        lambda: contexts("two kinds of contexts", promise=0.1, family="clip", **sure),
    ]
