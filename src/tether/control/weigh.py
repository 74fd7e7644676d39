"""Bringing a log, its draws, a family and a test weight together, or saying why they do not fit."""

from __future__ import annotations

import numpy as np

from tether._core import validate
from tether.control.context_draws import Draws, check_normalizer, gather_draws
from tether.control.families import Clip, Family
from tether.control.log import Log
from tether.control.problem import Weights
from tether.control.proposals import Proposals

TEST_WEIGHTS = ("empirical", "analytic")


def weigh(
    log: Log, proposals: Proposals | None, family: Family, test_weight: str | float
) -> Weights:
    """Bring log, proposals, family and test weight together, or say why they do not fit."""
    if not isinstance(log, Log):
        raise TypeError(f"log must be a tether.Log, got {type(log).__name__}")
    if proposals is not None and not isinstance(proposals, Proposals):
        raise TypeError(f"proposals must be tether.Proposals, got {type(proposals).__name__}")
    drawn = proposals is not None or log.log_safe_all is not None
    test_weight = _resolved(test_weight, log, family, drawn)
    if proposals is not None and (log.log_mix is None) != (proposals.log_mix is None):
        present, lacking = ("log", "proposals") if log.log_mix is not None else ("proposals", "log")
        raise ValueError(
            f"the {present} has log_mix but the {lacking} has none: rows and draws must be weighed "
            f"against the same mixture"
        )
    if family.normalized and log.context is not None and proposals is None and not drawn:
        draws = _no_draws(log)
    else:
        draws = gather_draws(log, proposals)
    if proposals is not None:
        check_normalizer(draws)
    _check_support(draws, family)
    _check_draws(log, draws)
    return Weights(log, draws, family, test_weight, drawn)


def _resolved(test_weight: str | float, log: Log, family: Family, drawn: bool) -> str | float:
    if not isinstance(test_weight, str):
        return validate.number("test_weight", test_weight, above=0, below=np.inf)
    validate.choice("test_weight", test_weight, TEST_WEIGHTS)
    bounded = bool(np.isfinite(family.log_ratio_bound(0.0, np.zeros(1))).all())
    if test_weight == "empirical" and not drawn:
        if not (bounded and isinstance(family, Clip)):
            raise ValueError(
                f"test_weight 'empirical' of family {family.name!r} needs proposals: draws from "
                f"the optimized policy among which to find the largest weight"
            )
        test_weight = "analytic"
    if test_weight == "analytic":
        if not bounded:
            raise ValueError(
                f"test_weight 'analytic' does not exist for family {family.name!r}: its weights "
                f"have no bound; use 'empirical' with proposals, or a number"
            )
        if log.safe_share is None:
            raise ValueError(
                "test_weight 'analytic' needs safe_share in the log: the share of rows that the "
                "safe policy produced, since log_mix is given"
            )
    return test_weight


def _no_draws(log: Log) -> Draws:
    """Stand-ins for a family that needs no normalizer, when nothing else asks for draws."""
    mix = log.log_safe if log.log_mix is None else log.log_mix
    every = np.arange(len(log))
    return Draws(log.log_safe, log.log_optimized, mix, mix, start=every, row=every)


def _check_support(draws: Draws, family: Family) -> None:
    """A family that acts where the safe policy never does has no finite weight there."""
    outside = np.isneginf(draws.log_safe)
    if not outside.any():
        return
    reached = family.log_density(np.array([-np.inf]), np.zeros(1), 0.0, np.zeros(1))
    if reached[0] > -np.inf and (draws.log_optimized[outside] > -np.inf).any():
        where = int(np.argmax(outside & (draws.log_optimized > -np.inf)))
        raise ValueError(
            f"family {family.name!r} needs a safe policy that can do whatever the optimized one "
            f"does, but draw {where} has log_safe −inf; keep the optimized policy to what the "
            f"safe one can do, or use family 'clip'"
        )


def _check_draws(log: Log, draws: Draws) -> None:
    """Refuse draws that have no weight, or none that is finite."""
    if draws.lost.any():
        where = int(np.argmax(draws.lost))
        raise ValueError(
            f"draw {where} has log_mix −inf and a finite log_safe: the safe policy is part of the "
            f"mixture, which can then do whatever the safe policy does"
        )
    if not (np.minimum(draws.log_safe, draws.log_optimized) > -np.inf).any():
        raise ValueError("no draw is possible under both policies: there is nothing to weigh")
    if log.log_mix is not None and log.safe_share is not None:
        short = draws.log_mix < draws.log_safe + np.log(log.safe_share) - 1e-6
        if short.any():
            where = int(np.argmax(short))
            raise ValueError(
                f"draw {where} has log_mix {draws.log_mix[where]:g}, below log_safe + "
                f"log(safe_share) = {draws.log_safe[where] + np.log(log.safe_share):g}"
            )
