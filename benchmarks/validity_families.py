"""Every family and test weight in every world of `benchmarks.worlds`.

The last procedures of a world are wrong on purpose: one normalizing constant for all contexts, and
the largest beta whose plain importance-weighted average loss looks safe.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import tether
from benchmarks.validity_table import Case, Served
from benchmarks.worlds import World, all_worlds

PROCEDURES = (
    ("clip", "empirical"),
    ("clip", "analytic"),
    ("clip", "number"),
    ("mix", "empirical"),
    ("mix", "number"),
    ("budgeted_clip(3)", "empirical"),
    ("budgeted_clip(3)", "analytic"),
    ("clip", "global ψ (wrong)"),
    ("clip", "looks safe (wrong)"),
)
REPEATS, PROMISED = 500, 60


def cases() -> list[Case]:
    """Every procedure in every world that it says anything about."""
    return [
        family_case(world, family, how)
        for world in all_worlds()
        for family, how in PROCEDURES
        if applies(world, how)
    ]


def family_case(world: World, family: str, how: str) -> Case:
    """One line of the table."""
    name = world.name if world.rounds == 1 else f"{world.name}, {world.rounds} rounds"
    return Case(
        name,
        f"{family}, {how}",
        world.alpha,
        partial(run, world, family, how),
        REPEATS,
        PROMISED,
        wrong="wrong" in how,
    )


def applies(world: World, how: str) -> bool:
    """Whether a procedure says anything about a world."""
    return how != "global ψ (wrong)" or (world.contextual and world.rounds == 1)


def run(world: World, family: str, how: str, rng: np.random.Generator) -> list[Served]:
    """One run: each round calibrates on all rows so far, then collects under what it deploys."""
    deployed = world.log_safe
    densities, contexts, actions = [], [], []
    for _ in range(world.rounds):
        densities.append(deployed)
        seen, done = world.collect(deployed, world.rows, rng)
        contexts.append(seen)
        actions.append(done)
        log_mix = None
        if len(densities) > 1:
            log_mix = np.logaddexp.reduce(densities, axis=0) - np.log(len(densities))
        rows = np.concatenate(contexts), np.concatenate(actions)
        if how == "looks safe (wrong)":
            found, log_beta = None, _looks_safe(world, *rows, log_mix)
            deployed = world.tethered("clip", log_beta)
        else:
            found = _calibrate(world, family, how, *rows, log_mix, 1 / len(densities), rng)
            log_beta, deployed = found.log_beta, world.tethered_by(found)
    return [world.served(deployed, log_beta, found)]


def _calibrate(
    world, family, how, contexts, actions, log_mix, safe_share, rng
) -> tether.Calibration:
    marginal = how == "global ψ (wrong)"
    log = world.log(contexts, actions, log_mix, marginal=marginal)
    if log_mix is not None and how == "analytic":
        log = _with_share(log, safe_share)
    budget = int(family[-2]) if family.startswith("budgeted") else 0
    proposals = world.proposals(contexts, rng, log_mix, marginal=marginal, budget=budget)
    test_weight: str | float = "analytic" if how == "analytic" else "empirical"
    if how == "number":
        test_weight = _largest_weight(world, family, log_mix)
    return tether.calibrate(
        log,
        proposals,
        alpha=world.alpha,
        bound=world.bound,
        family=family,
        test_weight=test_weight,
    )


def _with_share(log: tether.Log, safe_share: float) -> tether.Log:
    return tether.Log(
        log.loss,
        log.log_safe,
        log.log_optimized,
        log_mix=log.log_mix,
        safe_share=safe_share,
        log_safe_all=log.log_safe_all,
        log_optimized_all=log.log_optimized_all,
        log_mix_all=log.log_mix_all,
    )


def _largest_weight(world: World, family: str, log_mix) -> float:
    """A generous bound on the weights, as a user who knows both policies could give."""
    mix = world.log_safe if log_mix is None else log_mix
    top = np.maximum(world.log_safe, world.log_optimized) - mix
    if family == "mix":
        return float(np.exp(top.max()))
    grid = np.linspace(-8, 8, 17)
    return float(max(np.exp((world.tethered(family, t) - mix).max()) for t in grid) * 1.05)


def _looks_safe(world: World, contexts, actions, log_mix) -> float:
    """The largest beta whose plain importance-weighted average loss is at most alpha."""
    mix = (world.log_safe if log_mix is None else log_mix)[contexts, actions]
    best = -np.inf
    for log_beta in np.linspace(-4, 6, 81):
        weight = np.exp(world.tethered("clip", log_beta)[contexts, actions] - mix)
        looks = [
            (weight * loss[contexts, actions]).mean() <= world.alpha[name]
            for name, loss in world.losses.items()
        ]
        best = log_beta if all(looks) else best
    return best
