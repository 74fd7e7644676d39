"""Simulated logs in which the true risk of what is certified is known."""

from __future__ import annotations

import numpy as np
from benchmarks.worlds import World

import tether
from tether.control.acting import Acting
from tether.control.constraint import Constraint
from tether.control.families import find_family
from tether.control.high_probability import certified_beta
from tether.control.problem import pose


def one_round(world: World, family: str, rows: int, confidence: float, rng) -> tuple[float, bool]:
    """The log beta that one log of the safe policy certifies, and whether a risk is above alpha."""
    contexts, actions = world.collect(world.log_safe, rows, rng)
    proposals = None if family == "clip" else world.proposals(contexts, rng)
    problem = pose(world.log(contexts, actions), proposals, find_family(family), "empirical")
    bounds = {name: max(1.0, loss.max()) for name, loss in world.losses.items()}
    constraints = [Constraint(name, alpha, bounds[name]) for name, alpha in world.alpha.items()]
    found = certified_beta(problem, constraints, confidence).log_beta
    risks, _ = world.deployed(world.tethered(family, found))
    above = any(risks[name] > alpha for name, alpha in world.alpha.items())
    return found, above and found > -np.inf


def share_above(world: World, family: str, rows: int, confidence: float, repeats: int):
    """The share of logs with a false certificate, with a standard error, and the share with any."""
    rng = np.random.default_rng(0)
    runs = [one_round(world, family, rows, confidence, rng) for _ in range(repeats)]
    false = np.mean([above for _, above in runs])
    error = np.sqrt((1 - confidence) * confidence / repeats)
    return false, error, np.mean([found > -np.inf for found, _ in runs])


CONTEXTS = 300
HARM = 0.16


def adaptive_rounds(
    family: str, confidence: float, rng, *, alpha: float, mixture: bool = False
) -> float:
    """The log beta that is certified from two rounds of which the second is chosen by the first.

    Every action of every context does harm with the same probability, so every policy has the same
    risk. Where the first round saw harm, the second takes the same action again, which lowers the
    weight of what was seen against the mixture; where it saw none, the second takes the other
    action. `mixture` weighs against the mixture, which is wrong, instead of who acted.
    """
    safe, optimized = np.full((CONTEXTS, 2), 0.5), np.tile([0.7, 0.3], (CONTEXTS, 1))

    def act(policy):
        context = rng.integers(CONTEXTS, size=CONTEXTS)
        action = (rng.random(CONTEXTS) >= policy[context, 0]).astype(int)
        return context, action, rng.random(CONTEXTS) < HARM

    first, chosen = act(safe), safe.copy()
    for context, action, harmed in zip(*first, strict=True):
        chosen[context, action], chosen[context, 1 - action] = (0.9, 0.1) if harmed else (0.1, 0.9)
    second = act(chosen)
    context, action, loss = (np.concatenate(both) for both in zip(first, second, strict=True))
    row, mix = np.arange(len(action)), np.log((safe + chosen) / 2)[context]
    logged = mix if mixture else np.log(np.concatenate((safe[first[0]], chosen[second[0]])))
    log = tether.Log(
        loss, np.log(safe[context, action]), np.log(optimized[context, action]),
        log_mix=mix[row, action], log_mix_all=mix, acting=Acting(logged[row, action], logged),
        log_safe_all=np.log(safe[context]), log_optimized_all=np.log(optimized[context]),
    )  # fmt: skip
    problem = pose(log, None, find_family(family), "empirical")
    constraint = Constraint("loss", alpha, 1.0)
    return certified_beta(problem, [constraint], confidence).log_beta
