"""How `begin` grows with the rounds: processor seconds, memory and bytes of a run of many rounds.

python -m benchmarks.rounds_growth --rounds 1000

Each figure is beside the same calibration by hand: the same rows, policies and numbers of draws,
from arrays in memory, through the public functions, in the same process. At the end another process
opens the store and begins a round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tether
from tether.rounds import round_proposals

ROUNDS, ROWS = 1_000, 100
MEASURED = (11, 51, 101, 151, 201, 301, 501, 751, 1_000)
GROWTH = 10
"""Rounds are compared with those that had about a tenth of the rounds before them."""
SAFE, ALPHA = tether.Gaussian(0.0, 1.0), 0.2


def policy_of(name: str) -> tether.Gaussian:
    """The optimized policy "round 7", and so on."""
    return tether.Gaussian(0.3 + 0.3 * np.sin(int(name.split()[1])), 0.9)


def opened(store: Path) -> tether.Controller:
    settings = {"alpha": ALPHA, "alarm_risk": 0.9, "policies": policy_of}
    return tether.Controller(SAFE, store=store, **settings)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and the result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def by_hand(run: tether.Controller, optimized: tether.Gaussian) -> Callable[[], Any]:
    """The calibration of the next round from arrays."""
    rows = run._rows
    kept = rows.calibration
    actions, loss = rows.actions[kept], rows.losses[kept, 0]
    served, counts = np.unique(rows.served[kept], return_counts=True)
    mixture = tether.Mixture([run._registry.policy(int(each)) for each in served], counts)
    most = round_proposals.MAX_DRAWN_DENSITIES // len(counts)
    draws = max(round_proposals.MIN_PROPOSALS, min(len(actions), most))

    def calibrated() -> tether.Calibration:
        log = tether.make_log(
            SAFE, optimized, None, actions, loss, logged_by=mixture,
            safe_share=counts[0] / counts.sum(),
        )  # fmt: skip
        rng = np.random.default_rng(0)
        drawn = tether.make_proposals(SAFE, optimized, None, draws, rng, logged_by=mixture)
        found = tether.calibrate(log, drawn, alpha=ALPHA)
        assert found.promise > 0  # which `begin` finds too
        return found

    return calibrated


def line(what: str, begin: float, hand: float, store: Path, memory: str = "") -> None:
    size = store.stat().st_size / 2**20
    print(
        f"{what:<34} {begin:7.3f} s, {begin / hand:5.2f} × by hand, {size:7.1f} MiB stored{memory}",
        flush=True,
    )


def print_growth(spent: dict[int, float]) -> None:
    """How much longer `begin` takes in the last of the measured rounds than in one before."""
    late = max(spent, default=0)
    early = min(spent, key=lambda number: abs(number - late / GROWTH), default=0)
    if early < late:
        ratio, rounds = spent[late] / spent[early], late / early
        verdict = "ok" if ratio <= rounds else "OVER"
        print(
            f"begin of round {late} beside round {early:<10} {ratio:7.2f} × for {rounds:.1f} × the "
            f"rounds (at most {rounds:.1f})  {verdict}",
            flush=True,
        )


def peak_memory() -> float:
    """The most memory of this process so far, in MiB; unlike `getrusage`, without its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


def cold(store: Path) -> None:
    """In a process of its own: open the store and begin a round."""
    run = opened(store)
    number = run.round.number + 1
    optimized = policy_of(f"round {number}")
    begin, _ = timed(lambda: run.begin(optimized))
    most = peak_memory()
    hand = min(timed(by_hand(run, optimized))[0] for _ in range(2))
    memory = f", {most:.0f} MiB of memory"
    line(f"begin of round {number}, restarted", begin, hand, store, memory)


def main(rounds: int = ROUNDS, rows: int = ROWS) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.db"
        run, spent = opened(store), {}
        for number in range(1, rounds + 1):
            optimized = None if number == 1 else policy_of(f"round {number}")
            hand = np.inf
            if number in MEASURED:
                run.training_rows()  # what an optimizer asked for, so that rows are in memory
                hand = min(timed(by_hand(run, optimized))[0] for _ in range(2))
            begin, begun = timed(lambda: run.begin(optimized))  # noqa: B023
            if number in MEASURED:
                line(f"begin of round {number}, {rows} rows each", begin, hand, store)
                spent[number] = begin
            taken = begun.act(rows, rng)
            run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1))
        run.close()
        print_growth(spent)
        command = [sys.executable, "-m", "benchmarks.rounds_growth", "--cold", str(store)]
        subprocess.run(command, check=True, env=os.environ)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cold is None:
        main(arguments.rounds, arguments.rows)
    else:
        cold(arguments.cold)
