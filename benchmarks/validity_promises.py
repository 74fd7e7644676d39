"""Other promises and other assumptions than those of one alpha and exact scores.

- The safe policy's risk is alpha: on many logs no beta passes, and the mean risk may be above
  alpha, but not above the stated promise.
- `promise=` as the target; it stands in the column of alpha.
- Optimized policies with zeros, which are blended with the safe policy.
- Scores that are wrong by a factor, in the worst direction, with that factor as `ratio_error`; and,
  wrong on purpose, without it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

import tether
from benchmarks.prompt_world import PromptWorld
from benchmarks.shortlist_world import ShortlistWorld
from benchmarks.validity_table import Case, Served
from benchmarks.worlds import World, all_worlds, argmax, safe_risk_alpha

FAMILIES = ("clip", "mix", "budgeted_clip(3)")
TARGETS = (  # world, family, promise, runs
    ("Gaussian shift", "clip", 0.15, 200),
    ("unequal contexts, tables", "clip", 0.12, 150),
    ("unequal contexts, tables", "mix", 0.12, 200),
    ("finite actions", "clip", 0.12, 150),
    ("finite actions", "budgeted_clip(3)", 0.12, 50),
    ("Gaussian contexts, draws", "clip", 0.12, 80),
)
FACTORS = (1.1, 1.3)


def cases() -> list[Case]:
    """All four groups."""
    return [*_safe_risk_cases(), *_target_cases(), *_zero_cases(), *_factor_cases()]


def _safe_risk_cases() -> list[Case]:
    found = []
    for rows, repeats in ((30, 3000), (150, 1500), (600, 600)):
        for world in (safe_risk_alpha(rows), safe_risk_alpha(rows, contexts=False)):
            for family in FAMILIES[: 3 if world.contextual else 2]:
                run = partial(calibrated, world, family, {"alpha": world.alpha})
                found.append(
                    Case(world.name, family, world.alpha, run, repeats, repeats, at_alpha=True)
                )
    return found


def _target_cases() -> list[Case]:
    worlds = {world.name: world for world in reversed(all_worlds())}
    found = []
    for name, family, target, repeats in TARGETS:
        run = partial(calibrated, worlds[name], family, {"promise": {"loss": target}})
        found.append(Case(name, f"{family}, promise", {"loss": target}, run, repeats))
    for world, target, repeats in (
        (PromptWorld(20_000, 4), 0.07, 60),
        (PromptWorld(1_000, 4, fresh=True), 0.08, 40),
        (ShortlistWorld(1_000, 4), 0.16, 150),
    ):
        run = partial(_reach, world, target)
        found.append(Case(world.name, "clip, promise", {"loss": target}, run, repeats))
    return found


def _zero_cases() -> list[Case]:
    return [
        Case(
            world.name,
            f"{family}, blended" if family != "mix" else family,
            world.alpha,
            partial(calibrated, world, family, {"alpha": world.alpha}),
            60_000 // world.rows,
            40,
        )
        for world in (argmax(200, True), argmax(2_000, True), argmax(200, False))
        for family in FAMILIES
    ]


def _factor_cases() -> list[Case]:
    worlds = {(world.name, world.rounds): world for world in all_worlds()}
    found = []
    for name, families in (
        ("Gaussian shift", ("clip", "mix")),
        ("Gaussian contexts, draws", ("clip",)),
    ):
        world = replace(worlds[name, 1], rows=2_000)
        for factor in FACTORS:
            for family in families:
                for stated in (True, False)[: 2 if family == "clip" else 1]:
                    found.append(_factor_case(world, family, factor, stated=stated))
    return found


def _factor_case(world: World, family: str, factor: float, *, stated: bool) -> Case:
    return Case(
        f"{world.name.removesuffix(', draws')}, scores × {factor:g}",
        f"{family}, {'ratio_error' if stated else 'not stated (wrong)'}",
        world.alpha,
        partial(off_by, world, family, factor, factor if stated else 1.0),
        60 if world.contextual else 200,
        20,
        wrong=not stated,
    )


def calibrated(world: World, family: str, asked: dict, rng: np.random.Generator) -> list[Served]:
    """One run with what was asked for: alpha, promise or confidence."""
    contexts, actions = world.collect(world.log_safe, world.rows, rng)
    budget = int(family[-2]) if family.startswith("budgeted") else 0
    proposals = world.proposals(contexts, rng, budget=budget)
    log = world.log(contexts, actions)
    found = tether.calibrate(log, proposals, family=family, bound=world.bound, **asked)
    return [world.served(world.tethered_by(found), found.log_beta, found)]


def _reach(
    world: PromptWorld | ShortlistWorld, target: float, rng: np.random.Generator
) -> list[Served]:
    collected = world.collect(rng)
    parts = collected if isinstance(collected, tuple) else (collected,)
    return world.served(tether.calibrate(*parts, promise=target))


def off_by(
    world: World,
    family: str,
    factor: float,
    stated: float,
    rng: np.random.Generator,
    confidence: float | None = None,
) -> list[Served]:
    """One run whose recorded mixture makes every weight wrong by a factor.

    The weights of harmful actions come out too small and those of harmless ones too large; both
    policies, and so what is served, are exact.
    """
    ((name, alpha),) = world.alpha.items()
    log_factor = np.log(factor)
    recorded = world.log_safe + np.where(world.losses[name] > alpha, log_factor, -log_factor)
    contexts, actions = world.collect(world.log_safe, world.rows, rng)
    log = world.log(contexts, actions, recorded)
    proposals = world.proposals(contexts, rng, recorded)
    if confidence is not None:  # every row was drawn from the one policy that is recorded
        limit = np.full(len(log), log_factor)
        log.acting = tether.control.Acting(log.log_mix, log_base_limit=limit)
    found = tether.calibrate(
        log,
        proposals,
        alpha=world.alpha,
        family=family,
        ratio_error=stated,
        confidence=confidence,
    )
    return [world.served(world.tethered_by(found), found.log_beta, found)]
