"""What twice the draws would buy, predicted from what half of them would have cost.

Noise of weights from b blocks per context has a variance proportional to 1/b, and to first order
its cost in log beta and in reward is proportional to that. So with f(b) what b blocks allow,

    f(2b) − f(b)  ≈  (f(b) − f(b/2)) / 2,

and f(b/2) is known: the blocks of every context are split into halves at random, and each half is
calibrated on. Two halves of one split have no draws in common, so their difference shows how much f
varies with the draws.

The prediction is about this log. It is for deciding about the draws of the next one: to look at
a calibration and then to draw again for the same rows until beta is large would be a choice by
losses, and void the guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Booleans, Floats, Integers
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.control.families import BudgetedClip
from tether.control.gains import gain
from tether.control.problem import Problem
from tether.control.proposals import Proposals

HALVING_SPLITS = 8
"""How often the draws are split into halves."""


@dataclass(frozen=True)
class DrawsWorth:
    """What twice the draws are predicted to buy.

    Parameters
    ----------
    draws : int
        The number of draws there are, of both policies.
    log_beta : float
        Log of the beta that they allow.
    log_beta_of_half : float
        The mean of what half of them allow, where a half allows any.
    log_beta_gain : float
        The predicted increase of log beta with twice the draws.
    log_beta_error : float
        Its standard error over draws.
    reward_gain : float, optional
        The predicted increase of the expected reward; None if the log has no rewards, or does not
        tell.
    reward_error : float, optional
        Its standard error over draws; that of the rewards themselves is not included.
    no_beta : float
        The share of halves that allow no beta.
    """

    draws: int
    log_beta: float
    log_beta_of_half: float
    log_beta_gain: float
    log_beta_error: float
    reward_gain: float | None
    reward_error: float | None
    no_beta: float

    def __str__(self) -> str:
        text = (
            f"with twice the {self.draws:,} draws, log beta would be {self.log_beta:.3g} "
            f"{self.log_beta_gain:+.2g} ± {self.log_beta_error:.2g}"
        )
        if self.reward_gain is not None:
            text += f", the expected reward {self.reward_gain:+.2g} ± {self.reward_error:.2g}"
        if self.no_beta:
            text += f"; half of them allow no beta in {self.no_beta:.0%} of splits"
        return text


def draws_worth(
    calibration: Calibration, rng: np.random.Generator, *, splits: int = HALVING_SPLITS
) -> DrawsWorth:
    """Predict what twice the draws would buy, from what half of them would have cost.

    Parameters
    ----------
    calibration : Calibration
        A calibration of budgeted clip from `calibrate`, with proposals: at least two blocks of
        draws in some context.
    rng : numpy.random.Generator
        Splits the draws.
    splits : int, default 8
        How often.

    Returns
    -------
    DrawsWorth
        The prediction, with standard errors over draws.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value, weights need no draws, no beta passes, or no
        context has two blocks.
    RuntimeError
        If the calibration was loaded from a file.

    Examples
    --------
    >>> import tether
    >>> rng = np.random.default_rng(0)
    >>> safe = tether.FunctionPolicy(lambda x, rng: rng.normal(size=len(x)), lambda x, a: -a**2 / 2)
    >>> optimized = tether.FunctionPolicy(
    ...     lambda x, rng: rng.normal(x), lambda x, a: -(a - x)**2 / 2)
    >>> contexts = rng.uniform(0, 5, size=200)
    >>> actions = safe.sample(contexts, rng)
    >>> log = tether.make_log(safe, optimized, contexts, actions, actions > 2)
    >>> proposals = tether.make_proposals(safe, optimized, contexts, 8, rng)
    >>> found = tether.calibrate(log, proposals, alpha=0.1, family="budgeted_clip(4)")
    >>> worth = draws_worth(found, rng)
    >>> worth.draws, bool(worth.log_beta_error > 0)
    (3200, True)
    """
    if not isinstance(calibration, Calibration):
        raise TypeError(f"calibration must be a Calibration, got {type(calibration).__name__}")
    problem, generator = calibration._problem, validate.generator("rng", rng)
    if not isinstance(problem, Problem):
        raise TypeError("calibration rests on a scanned log: its draws cannot be divided in memory")
    repeats = validate.integer_at_least("splits", splits, 2)
    proposals, family = problem.given_proposals, problem.family
    if proposals is None or proposals.context is None or not isinstance(family, BudgetedClip):
        raise ValueError(
            f"calibration must be of budgeted clip with proposals in contexts, whose weights need "
            f"draws, got {calibration.family!r}"
        )
    if not np.isfinite(calibration.log_beta):
        raise ValueError("calibration must have a beta that is neither 0 nor infinite")
    settings: dict[str, Any] = {**problem.settings, "family": family}
    halves = [
        [calibrate(problem.given_log, half, **settings) for half in _halves(proposals, each)]
        for each in (_random_sides(proposals, family.max_draws, generator) for _ in range(repeats))
    ]
    log_betas = np.array([[each.log_beta for each in pair] for pair in halves])
    gain_, error = _extrapolated(calibration.log_beta, log_betas)
    rewards = np.array([[_reward(calibration, value) for value in pair] for pair in log_betas])
    reward_gain, reward_error = _extrapolated(_reward(calibration, calibration.log_beta), rewards)
    finite = np.isfinite(log_betas)
    return DrawsWorth(
        draws=len(proposals),
        log_beta=calibration.log_beta,
        log_beta_of_half=float(log_betas[finite].mean()) if finite.any() else -np.inf,
        log_beta_gain=gain_,
        log_beta_error=error,
        reward_gain=None if np.isnan(reward_gain) else reward_gain,
        reward_error=None if np.isnan(reward_gain) else reward_error,
        no_beta=float(np.isneginf(log_betas).mean()),
    )


def _random_sides(proposals: Proposals, block: int, rng: np.random.Generator) -> Integers:
    """For each draw 0 or 1, the half it belongs to, and 2 where a context has a single block.

    Blocks of both policies are whole in each half. Of an odd number of blocks one is left out.
    """
    assert proposals.context is not None
    _, place = np.unique(proposals.context, return_inverse=True)
    group = 2 * place + proposals.from_safe
    shuffled = rng.permutation(len(group))
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    sorted_group = group[order]
    rank = np.arange(len(group)) - np.searchsorted(sorted_group, sorted_group)
    draws = np.bincount(group, minlength=2 * int(place.max()) + 2).reshape(-1, 2).min(axis=1)
    blocks = (draws // block)[sorted_group // 2]
    if blocks.max() < 2:
        raise ValueError(
            f"no context has two blocks of {block} draws of each policy, so there is no half of "
            f"them to compare with"
        )
    number = rank // block
    side = np.where(number < 2 * (blocks // 2), number % 2, -1)
    sides = np.empty(len(group), dtype=np.int64)
    sides[order] = np.where(blocks < 2, 2, side)
    return sides


def _halves(proposals: Proposals, sides: Integers) -> tuple[Proposals, Proposals]:
    first, second = (_some(proposals, (sides == side) | (sides == 2)) for side in (0, 1))
    return first, second


def _some(proposals: Proposals, chosen: Booleans) -> Proposals:
    assert proposals.context is not None
    return Proposals(
        proposals.log_safe[chosen],
        proposals.log_optimized[chosen],
        context=proposals.context[chosen],
        log_mix=None if proposals.log_mix is None else proposals.log_mix[chosen],
        source=np.where(proposals.from_safe[chosen], "safe", "optimized"),
    )


def _reward(calibration: Calibration, log_beta: float) -> float:
    """The expected reward at a beta, by all draws; NaN if the log does not tell."""
    found = gain(replace(calibration, log_beta=float(log_beta))).reward
    mean = None if found is None else found.tethered.mean
    return np.nan if mean is None else mean


def _extrapolated(now: float, halves: Floats) -> tuple[float, float]:
    """Half of what the second half of the draws brought, and its standard error over draws.

    A half varies with variance s², and all draws with about s²/2, as does the mean of two halves.
    As if these had nothing in common, half of their difference has a standard error of s/2.
    """
    finite = np.isfinite(halves)
    if not (np.isfinite(now) and finite.any()):
        return np.nan, np.nan
    pairs = halves[finite.all(axis=1)]
    spread = float(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2) / 2) if len(pairs) else np.inf
    return float(now - halves[finite].mean()) / 2, float(np.sqrt(spread / 4))
