"""Language models tethered at every token, in languages whose true risks are exact.

Several rounds: each calibrates on all rows so far, against the mixture of the policies that served,
then serves the tethered policy. Wrong on purpose: the beta of clip, calibrated on the scores of
whole answers, served at every token; twice the beta that rounds calibrated; a test weight from
draws at every eighth beta alone, on a path that is built against it; and draws in the most frequent
prompt alone.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import tether
from benchmarks.markov_language import LOG_BETAS, TOKENS, MarkovLanguage, log_densities
from benchmarks.markov_pair import MarkovPair, MarkovPolicy, pairs_of
from benchmarks.prompt_languages import (
    NAMES,
    PromptLanguage,
    PromptPair,
    TablePolicy,
    prompt_language,
)
from benchmarks.trap_path import TrapPath
from benchmarks.validity_table import Case, Served
from tether.control import PolicyPath

ALPHA = 0.1
ROUNDS = 3
LEVELS = np.append(LOG_BETAS, np.inf)
DRAWS_PER_LEVEL = 32


def cases() -> list[Case]:
    """Both rules in near and far languages, with few and many rows; and what is wrong."""
    found = []
    for harm in ("spread", "rare"):
        for length, nats in ((16, 5.0), (64, 20.0)):
            world = MarkovLanguage(length, nats, harm)
            for rows, repeats in ((100, 400), (1_000, 100)):
                for family in ("clip", "mix"):
                    run = partial(calibrated, world, family, rows)
                    name = f"token_{family}, {rows:,} rows, {ROUNDS} rounds"
                    found.append(Case(world.name, name, {"loss": ALPHA}, run, repeats, 40))
    for harm, rule in (("spread", "mix"), ("rare", "clip")):
        world = MarkovLanguage(16, 5.0, harm)
        for further, how in ((False, "Controller"), (True, "twice its beta (wrong)")):
            run, name = partial(by_controller, world, rule, 200, further), f"token_{rule}, {how}"
            found.append(Case(world.name, name, {"loss": ALPHA}, run, 100, 20, wrong=further))
    for world in NAMES:
        for rows, repeats in ((20, 200), (2_000, 40)):
            run = partial(in_prompts, prompt_language(world, rows), rows, 2, False)
            name = f"token_clip, {rows:,} rows, 2 rounds"
            found.append(Case(world, name, {"loss": ALPHA}, run, repeats, 40))
    for common_only in (False, True):
        run = partial(in_prompts, prompt_language(NAMES[0], 4), 1_000, 1, common_only)
        name = "draws in the other prompt (wrong)" if common_only else "token_clip, 1,000 rows"
        alpha, wrong = {"loss": ALPHA}, common_only
        found.append(Case(f"{NAMES[0]}, 1 in 5", name, alpha, run, 40, 20, wrong=wrong))
    near = MarkovLanguage(64, 2.0, "spread")
    for rows, repeats in ((100, 200), (1_000, 40)):
        run, name = partial(calibrated, near, "clip", rows), f"token_clip, {rows:,} rows"
        found.append(Case(near.name, f"{name}, {ROUNDS} rounds", {"loss": ALPHA}, run, repeats, 40))
    run, name = partial(with_beta_of_clip, near, 1_000), "beta of clip, 1,000 rows (wrong)"
    found.append(Case(near.name, name, {"loss": ALPHA}, run, 40, 20, wrong=True))
    for trap in (0.2, 0.03):
        path = TrapPath(trap)
        for everywhere in (True, False):
            name = "draws at every beta" if everywhere else "draws at every 8th (wrong)"
            run = partial(along_traps, path, everywhere)
            wrong = not everywhere
            found.append(Case(path.name, name, {"loss": ALPHA}, run, 400, 40, wrong=wrong))
    return found


class FurtherPair(MarkovPair):
    """Wrong: what is served has twice the beta that was calibrated."""

    def tethered(self, found: tether.Calibration) -> MarkovPolicy:
        """The policy at twice a calibrated beta."""
        return self.at(found.log_beta + np.log(2))


def by_controller(
    world: MarkovLanguage, rule: str, rows: int, further: bool, rng: np.random.Generator
) -> list[Served]:
    """What the last of several rounds of a controller serves; wrongly, at a larger beta."""
    make = FurtherPair if further else MarkovPair
    pair = make(world, MarkovPolicy(world.safe, world.length), rule)

    def losses(contexts, actions):
        return world.losses(pairs_of(contexts, actions))

    def prompts():
        return rng.integers(TOKENS, size=(rows, 1))

    found, policy = last_round(pair, ROUNDS, prompts, losses, rng)
    return [_served(world, policy.model, found)]


def in_prompts(
    language: PromptLanguage,
    rows: int,
    rounds: int,
    common_only: bool,
    rng: np.random.Generator,
) -> list[Served]:
    """What the last round of a controller serves, with draws in the prompts of its log."""
    pair = PromptPair(language, TablePolicy(language.safe), common_only=common_only)

    def losses(contexts, actions):
        return language.loss[np.asarray(contexts)[:, 0], np.asarray(actions)[:, 0]]

    def prompts():
        return language.draw_prompts(rows, rng)

    found, policy = last_round(pair, rounds, prompts, losses, rng)
    return [Served({"loss": language.risk(policy.table)}, found.log_beta, found)]


def last_round(pair, rounds: int, prompts, losses, rng: np.random.Generator) -> tuple:
    """The calibration and the policy of the last of several rounds of a controller."""
    with tether.Controller(
        pair.safe,
        store="sqlite://",
        alpha=ALPHA,
        alarm_risk=0.9,
        family=pair.family,
        calibration_share=1.0,
        draws=DRAWS_PER_LEVEL,
        seed=int(rng.integers(2**31)),
    ) as run:
        current = run.begin()
        for number in range(rounds):
            taken = current.act(prompts(), rng)
            run.observe(taken.ids, losses(taken.contexts, taken.actions))
            current = run.begin(pair, name=f"policy {number}")
        return current.calibration, current.policy


def along_traps(path: TrapPath, everywhere: bool, rng: np.random.Generator) -> list[Served]:
    """One round on a path that is built against draws at some of its betas."""
    proposals = path.make_proposals(DRAWS_PER_LEVEL, rng, everywhere=everywhere)
    log = path.make_log(1_000, rng)
    found = tether.calibrate(log, proposals, alpha=ALPHA, family="token_clip")
    return [Served({"loss": path.risk(found.log_beta)}, found.log_beta, found)]


def calibrated(
    world: MarkovLanguage, family: str, rows: int, rng: np.random.Generator
) -> list[Served]:
    """One run: what its last round serves."""
    path = world.token_path(family)
    served, pairs = [world.safe], []
    for _ in range(ROUNDS):
        pairs.append(world.draw(served[-1], rows, rng))
        log = make_log(world, family, np.concatenate(pairs), path, served)
        proposals = make_proposals(world, family, path, served, rng)
        found = tether.calibrate(log, proposals, alpha=ALPHA, family=f"token_{family}")
        served.append(model_at(world, family, found.log_beta))
    return [_served(world, served[-1], found)]


def with_beta_of_clip(world: MarkovLanguage, rows: int, rng: np.random.Generator) -> list[Served]:
    """One round of clip, calibrated on whole answers; its beta is served at every token."""
    log = make_log(
        world, "clip", world.draw(world.safe, rows, rng), world.token_path("clip"), [world.safe]
    )
    found = tether.calibrate(log, alpha=ALPHA)
    return [_served(world, model_at(world, "clip", found.log_beta), found)]


def _served(world: MarkovLanguage, model: np.ndarray, found: tether.Calibration) -> Served:
    safe, optimized = (world.mean_reward(each) for each in (world.safe, world.optimized))
    kept = (world.mean_reward(model) - safe) / (optimized - safe)
    return Served({"loss": world.risk(model)}, found.log_beta, found, kept)


def model_at(world: MarkovLanguage, family: str, log_beta: float) -> np.ndarray:
    """The model that is served at a beta."""
    if np.isinf(log_beta):
        return world.optimized if log_beta > 0 else world.safe
    return world.token_path(family, np.array([log_beta]))[0]


def make_log(world, family, pairs, path, served) -> tether.Log:
    """The log of answers, scored at every beta."""
    ends = log_densities(pairs, np.array([world.safe, world.optimized]))
    log_mix = None
    if len(served) > 1:
        each = log_densities(pairs, np.array(served))
        log_mix = np.logaddexp.reduce(each, axis=1) - np.log(len(served))
    return tether.Log(
        world.losses(pairs),
        ends[:, 0],
        ends[:, 1],
        log_mix=log_mix,
        policy_path=PolicyPath(f"token_{family}", LOG_BETAS, log_densities(pairs, path)),
    )


def make_proposals(world, family, path, served, rng) -> tether.Proposals:
    """Draws of policies along the path."""
    models = [model_at(world, family, level) for level in LEVELS]
    pairs = np.concatenate([world.draw(model, DRAWS_PER_LEVEL, rng) for model in models])
    ends = log_densities(pairs, np.array([world.safe, world.optimized]))
    each = log_densities(pairs, np.array(served))
    log_mix = np.logaddexp.reduce(each, axis=1) - np.log(len(served))
    return tether.Proposals(
        ends[:, 0],
        ends[:, 1],
        log_mix=log_mix if len(served) > 1 else None,
        policy_path=PolicyPath(
            f"token_{family}",
            LOG_BETAS,
            log_densities(pairs, path),
            drawn_at=np.repeat(LEVELS, DRAWS_PER_LEVEL),
        ),
    )
