"""The long Monte Carlo: the risk that is really deployed, beside alpha, in every world.

`make validity` prints one row a world and procedure: the mean deployed risk over all repeats with
its standard error, beside alpha. The last procedures of a world are wrong on purpose and break it.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import tether
from benchmarks.worlds import World, all_worlds, knife_edge

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


def simulate(world: World, family: str, how: str, repeats: int, seed: int) -> dict[str, np.ndarray]:
    """Deployed risks, rewards and betas of many independent repeats."""
    rng = np.random.default_rng(seed)
    found = [_repeat(world, family, how, rng) for _ in range(repeats)]
    risks, rewards, log_betas = zip(*found, strict=True)
    return {
        **{name: np.array([risk[name] for risk in risks]) for name in world.losses},
        "reward": np.array(rewards),
        "log_beta": np.array(log_betas),
    }


def _repeat(world: World, family: str, how: str, rng: np.random.Generator):
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
        log_beta = _log_beta(world, family, how, *rows, log_mix, 1 / len(densities), rng)
        deployed = world.tethered(family, log_beta)
    risk, reward = world.deployed(deployed)
    return risk, reward, log_beta


def _log_beta(world, family, how, contexts, actions, log_mix, safe_share, rng) -> float:
    if how == "looks safe (wrong)":
        return _looks_safe(world, contexts, actions, log_mix)
    marginal = how == "global ψ (wrong)"
    log = world.log(contexts, actions, log_mix, marginal=marginal)
    if log_mix is not None and how == "analytic":
        log = _with_share(world, contexts, actions, log_mix, safe_share)
    proposals = world.proposals(contexts, rng, log_mix, marginal=marginal)
    test_weight: str | float = "analytic" if how == "analytic" else "empirical"
    if how == "number":
        test_weight = _largest_weight(world, family, log_mix)
    bound = {name: float(np.ceil(loss.max())) for name, loss in world.losses.items()}
    return tether.calibrate(
        log,
        proposals,
        alpha=world.alpha,
        bound=bound,
        family=family,
        test_weight=test_weight,
    ).log_beta


def _with_share(world, contexts, actions, log_mix, safe_share) -> tether.Log:
    log = world.log(contexts, actions, log_mix)
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
    """A number that no weight exceeds at any beta, as a user who knows both policies could give."""
    mix = world.log_safe if log_mix is None else log_mix
    top = np.maximum(world.log_safe, world.log_optimized) - mix
    if family == "mix":
        return float(np.exp(top.max()))
    grid = np.linspace(-8, 8, 17)
    return float(max(np.exp((world.tethered(family, t) - mix).max()) for t in grid) * 1.01)


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


def applies(world: World, how: str) -> bool:
    """Whether a procedure says anything about a world."""
    return how != "global ψ (wrong)" or (world.contextual and world.rounds == 1)


def table(worlds: list[World], repeats: int, workers: int = 2) -> tuple[list[str], bool]:
    """The table as lines, and whether every right procedure held and each wrong one broke."""
    jobs = [
        (world, family, how)
        for world in worlds
        for family, how in PROCEDURES
        if applies(world, how)
    ]
    lines = [
        f"{'world':<26} {'family':<17} {'test weight':<19} {'risk ± se':<17} {'alpha':>6} "
        f"{'held':>5} {'median beta':>11} {'safe only':>9} {'reward kept':>11}"
    ]
    held_all, broken = True, set()
    with ProcessPoolExecutor(workers) as pool:
        results = pool.map(
            simulate, *zip(*jobs, strict=True), [repeats] * len(jobs), range(len(jobs))
        )
        for (world, family, how), result in zip(jobs, results, strict=True):
            held, line = _line(world, family, how, result)
            if "wrong" not in how:
                held_all &= held
            elif not held:
                broken.add(how)
            lines.append(line)
            print(line if len(lines) > 2 else "\n".join(lines), flush=True)
    return lines, held_all and len(broken) == 2


def _line(world: World, family: str, how: str, result) -> tuple[bool, str]:
    held, shown = True, []
    for name, alpha in world.alpha.items():
        risk = result[name]
        error = risk.std(ddof=1) / np.sqrt(len(risk))
        held &= bool(risk.mean() <= alpha + 3 * error)
        shown.append((f"{risk.mean():.4f} ± {error:.4f}", f"{alpha:g}"))
    _, safe = world.deployed(world.log_safe)
    _, best = world.deployed(world.log_optimized)
    kept = (result["reward"].mean() - safe) / (best - safe)
    missing = np.isneginf(result["log_beta"]).mean()
    beta = np.exp(np.median(result["log_beta"]))
    first, *others = shown
    name = world.name if world.rounds == 1 else f"{world.name}, {world.rounds} rounds"
    line = (
        f"{name:<26} {family:<17} {how:<19} {first[0]:<17} {first[1]:>6} "
        f"{'yes' if held else 'NO':>5} {beta:>11.3g} {missing:>9.1%} {kept:>11.1%}"
    )
    return held, "\n".join([line, *(f"{'':<64} {risk:<17} {alpha:>6}" for risk, alpha in others)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    arguments = parser.parse_args()
    worlds = [*all_worlds(), *([knife_edge()] if arguments.only else [])]
    begun = time.perf_counter()
    _, good = table([each for each in worlds if arguments.only in each.name], arguments.repeats)
    spent = time.perf_counter() - begun
    print(f"\n{arguments.repeats} repeats each, {spent:.0f} s. 'held': mean risk ≤ alpha + 3 se.")
    print("Every right procedure held and each wrong one broke." if good else "SOMETHING IS OFF.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
