"""The long Monte Carlo of complete runs: every round's risk, beside alpha, in every world.

`python -m benchmarks.rounds_validity` drives the real controller, with a store in memory, through
ten rounds with an optimizer that learns from the training rows, a thousand times for each world and
alpha; and the same runs without tether, which deploy what the optimizer made. Two figures a round:
the expected loss of the policy that was deployed, which is known, and the mean of the losses that
its actions had.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tether
from benchmarks.rounds_worlds import World, all_worlds
from tether.rounds import TrainingRows

RUNS, ROUNDS, ROWS = 1000, 10, 150
"""Half of the rows of a round are set apart for calibration."""
CHUNK = 25
MEASURES = ("risk", "loss", "gain", "beta")
"""Of each round: expected loss, mean of the losses, expected reward of the policy, and its beta."""


def open_run(world: World, alpha: float, seed: int, **options: Any) -> tether.Controller:
    """A run in memory.

    The monitor watches for the bound itself, so that no alarm lends calibration a hand.
    """
    return tether.Controller(
        world.safe,
        alpha=alpha,
        bound=world.bound,
        store="sqlite://",
        alarm_risk=0.999 * world.bound,
        normalizer_draws=8192,
        seed=seed,
        **options,
    )


def tethered_run(world: World, alpha: float, seed: int, rounds: int = ROUNDS) -> np.ndarray:
    """A complete run under the controller: the measures of each round."""
    rng, found, optimized = np.random.default_rng([seed, 0]), [], None
    with open_run(world, alpha, seed) as run:
        for _ in range(rounds):
            begun = run.begin(optimized)
            assert "alarm" not in begun.note
            taken = begun.act(world.arrive(ROWS, rng), rng)
            losses, rewards = world.outcome(taken.contexts, taken.actions, rng)
            begun.observe(taken.ids, losses, rewards)
            risk, gain = world.expected(begun.policy)
            found.append((risk, losses.mean(), gain, begun.beta))
            optimized = world.improve(run.training_rows())
    return np.array(found)


def untethered_run(world: World, alpha: float, seed: int, rounds: int = ROUNDS) -> np.ndarray:
    """The same run, but what the optimizer made is deployed whole."""
    rng, found, policy = np.random.default_rng([seed, 1]), [], world.safe
    seen = []
    for number in range(rounds):
        contexts = world.arrive(ROWS, rng)
        actions = policy.sample(contexts, rng)
        losses, rewards = world.outcome(contexts, actions, rng)
        risk, gain = world.expected(policy)
        found.append((risk, losses.mean(), gain, np.inf if number else 0.0))
        kept = rng.random(ROWS) < 0.5
        contexts = np.zeros(ROWS, int) if isinstance(contexts, int) else contexts
        seen.append([each[kept] for each in (contexts, actions, losses, rewards)])
        columns = [np.concatenate(each) for each in zip(*seen, strict=True)]
        ids = np.arange(len(columns[0]))
        policy = world.improve(TrainingRows(ids, ids, *columns, np.full(len(ids), np.nan)))
    return np.array(found)


def simulate(
    world: World, alpha: float, seeds: range, rounds: int = ROUNDS
) -> tuple[np.ndarray, np.ndarray]:
    """Runs × rounds × measures, with tether and without."""
    return tuple(
        np.stack([run(world, alpha, seed, rounds) for seed in seeds])
        for run in (tethered_run, untethered_run)
    )


@dataclass(frozen=True)
class Verdict:
    """Means and standard errors of many runs, round by round."""

    runs: np.ndarray
    alpha: float

    def mean(self, measure: str) -> np.ndarray:
        """Over runs."""
        return self.runs[:, :, MEASURES.index(measure)].mean(axis=0)

    def error(self, measure: str) -> np.ndarray:
        """One standard error of the mean."""
        values = self.runs[:, :, MEASURES.index(measure)]
        return values.std(axis=0, ddof=1) / np.sqrt(len(values))

    def over(self, measure: str) -> np.ndarray:
        """Rounds whose mean is above alpha by more than three standard errors."""
        return self.mean(measure) > self.alpha + 3 * self.error(measure)

    @property
    def held(self) -> np.ndarray:
        """Rounds that hold alpha, by the expected and by the realized losses."""
        return ~(self.over("risk") | self.over("loss"))

    @property
    def rose(self) -> bool:
        """Whether the last round's reward is above the first's, which is the safe policy's."""
        gain = self.mean("gain")
        return bool(gain[-1] > gain[0] + 3 * self.error("gain")[-1])


def shown(verdict: Verdict, measure: str, each: int) -> str:
    return f"{verdict.mean(measure)[each]:.4f} ± {verdict.error(measure)[each]:.4f}"


def rounds_table(name: str, with_tether: Verdict, without: Verdict) -> list[str]:
    """One line a round."""
    lines = [
        f"{name}, alpha = {with_tether.alpha:g}",
        f"{'round':>5}  {'risk ± se':<16} {'losses ± se':<16} {'held':<5}{'reward ± se':<18} "
        f"{'median beta':>11} {'safe only':>9}   {'untethered: risk ± se':<21} reward",
    ]
    for each in range(with_tether.runs.shape[1]):
        beta = with_tether.runs[:, each, MEASURES.index("beta")]
        lines.append(
            f"{each + 1:>5}  {shown(with_tether, 'risk', each):<16} "
            f"{shown(with_tether, 'loss', each):<16} "
            f"{'yes' if with_tether.held[each] else 'NO':<5}"
            f"{shown(with_tether, 'gain', each):<18} {np.median(beta):>11.3g} "
            f"{(beta == 0).mean():>9.1%}   "
            f"{shown(without, 'risk', each):<21} {without.mean('gain')[each]:.3f}"
        )
    return lines


HEAD = (
    f"{'world':<24} {'alpha':>5}  {'highest risk':<16} {'round':>5}  {'highest losses':<16} "
    f"{'round':>5}  {'held':<5} {'reward: safe → last':<20} {'untethered: highest risk':<24} broke"
)


def summary(name: str, with_tether: Verdict, without: Verdict) -> str:
    """One line a world and alpha: the worst round."""
    parts = []
    for measure in ("risk", "loss"):
        worst = int(np.argmax(with_tether.mean(measure)))
        parts.append(f"{shown(with_tether, measure, worst):<16} {worst + 1:>5} ")
    worst, gain = int(np.argmax(without.mean("risk"))), with_tether.mean("gain")
    rise = f"{gain[0]:.3f} → {gain[-1]:.3f}"
    return (
        f"{name:<24} {with_tether.alpha:>5g}  {' '.join(parts)} "
        f"{'yes' if with_tether.held.all() else 'NO':<5} {rise:<20} "
        f"{shown(without, 'risk', worst):<24} {'yes' if without.over('risk').any() else 'NO'}"
    )


def chunk(world: World, alpha: float, seeds: range, keep: Path | None) -> list[np.ndarray]:
    """Some runs, from the folder where they are kept if they have been made before."""
    name = f"{world.name.replace(',', '').replace(' ', '-')}-{alpha:g}-{seeds.start}-{seeds.stop}"
    kept = None if keep is None else keep / f"{name}.npz"
    if kept is not None and kept.exists():
        with np.load(kept) as arrays:
            return [arrays["tethered"], arrays["untethered"]]
    tethered, untethered = simulate(world, alpha, seeds)
    if kept is not None:
        np.savez(kept, tethered=tethered, untethered=untethered)
    return [tethered, untethered]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    parser.add_argument("--keep", type=Path, help="a folder for finished runs, to go on from")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    begun, good, totals = time.perf_counter(), True, [HEAD]
    cases = [
        (world, alpha)
        for world in all_worlds()
        for alpha in world.alphas
        if arguments.only in world.name
    ]
    starts = range(0, arguments.runs, CHUNK)
    chunks = [range(start, min(start + CHUNK, arguments.runs)) for start in starts]
    with ProcessPoolExecutor(arguments.workers) as pool:
        jobs = [  # a few runs of every case, then a few more
            [pool.submit(chunk, *case, seeds, arguments.keep) for case in cases] for seeds in chunks
        ]
        for case, pieces in zip(cases, zip(*jobs, strict=True), strict=True):
            world, alpha = case
            runs = zip(*(piece.result() for piece in pieces), strict=True)
            first, second = (Verdict(np.concatenate(each), alpha) for each in runs)
            print("\n".join(rounds_table(world.name, first, second)), "\n", flush=True)
            totals.append(summary(world.name, first, second))
            good &= bool(first.held.all() and first.rose and second.over("risk").any())
    print("\n".join(totals))
    print(
        f"\n{arguments.runs:,} runs of {ROUNDS} rounds each, {ROWS} rows a round, "
        f"{time.perf_counter() - begun:.0f} s. 'held': mean ≤ alpha + 3 se in every round."
    )
    print(
        "Every round held, reward rose above the safe policy's, and without tether alpha broke."
        if good
        else "SOMETHING IS OFF."
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
