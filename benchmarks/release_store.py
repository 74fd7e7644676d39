"""The Monte Carlo of releases through the class `tether.Release`, on a real store in memory.

`python -m benchmarks.release_store` drives several hundred releases through each world
(`release_store_worlds`), step after step, with `assign`, `observe`, `advance` and `resume`. The
risk of a step is the mean expected loss, which is known, of the keys that were served in it.
`stated` is alpha plus the stability term for the median window and the true risk of the old system.
`held` says whether the mean risk over releases is at most what is stated plus three standard errors
at every step, and whether the share is as large as it should be, where the world says so (again
within three standard errors). The step in which a new system changes is left out: nothing that was
seen before could tell. The rows marked "(wrong)" leave unknown losses out; the command fails unless
everything else holds and these break.

The stability term is part of the promise, and the share does not depend on it. It takes longer than
everything else in a step, so it is computed once for each world, and not in every step.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from benchmarks.release_store_worlds import Played, Player, Segment, StoreWorld, late, missing
from tether.release import ArmCounts
from tether.release.stability import worst_excess
from tether.rounds.releases.arm_rows import ArmRows
from tether.rounds.store import database

RUNS, ERRORS, CHUNK = 200, 3, 10


def harm(mean: float, later: float | None = None, **given: float) -> Segment:
    """Keys with one loss."""
    after = None if later is None else {"harm": later}
    return Segment(**{"part": 1.0, **given}, new={"harm": mean}, new_later=after)


HARMS_SOME = (harm(0.05, part=0.9), harm(0.9, part=0.1))
RETURNING = (harm(0.02, part=0.85, requests=6), harm(1.0, part=0.15))
LATE, NO_ALARM = late(2.0, 0.3), {"alarm_risk": {"harm": 0.99}}
QUICK_ALARM = {"alarm_risk": {"harm": 0.105}, "false_alarm_probability": 0.5}
TWO = Segment(1.0, new={"harm": 0.08, "delay": 0.9})
GOOD = StoreWorld(
    "0.015, 1,000 keys a step",
    (harm(0.015),),
    guardrails={"harm": 0.02},
    old={"harm": 0.01},
    keys=1000,
    steps=5,
    old_rows=2000,
    runs=0.4,
)
WORLDS = [
    StoreWorld("0.2", (harm(0.2),)),
    StoreWorld("0.2", (harm(0.2),)).of_promise(),
    StoreWorld("late", (harm(0.2),), delay=LATE),
    StoreWorld("late, wait 1", (harm(0.2),), delay=LATE, options={"wait": 1}),
    StoreWorld("late, wait 2", (harm(0.2),), delay=LATE, steps=8, options={"wait": 2}),
    StoreWorld("20 % missing", (harm(0.2),), delay=missing(0.2, 0.2)),
    StoreWorld("20 % missing, mostly harm", (harm(0.2),), delay=missing(0.6, 0.1)),
    StoreWorld("harms 10 % of the keys", HARMS_SOME),
    StoreWorld("keys return, harmed seldom", RETURNING, population=300, present=0.6, old_rows=400),
    StoreWorld(
        "0.08, from step 4 on 0.4", (harm(0.08, 0.4),), changes_at=4, steps=7, options=NO_ALARM
    ),
    StoreWorld(
        "two guardrails",
        (TWO,),
        guardrails={"harm": 0.1, "delay": (0.6, 2.0)},
        old={"harm": 0.05, "delay": 0.4},
    ),
    StoreWorld("0.3, resumed", (harm(0.3),), steps=8, batches=4, resumes=True, options=QUICK_ALARM),
    StoreWorld(
        "worse from step 4, resumed",
        (harm(0.08, 0.4),),
        changes_at=4,
        steps=7,
        batches=4,
        resumes=True,
    ),
    StoreWorld(
        "30 keys a step",
        (harm(0.4),),
        guardrails={"harm": 0.2},
        old={"harm": 0.1},
        keys=30,
        steps=10,
        old_rows=100,
        options={"keys_per_step": 30, **{"alarm_risk": {"harm": 0.99}}},
    ),
    StoreWorld(
        "5,000 keys a step",
        (harm(0.04),),
        guardrails={"harm": 0.02},
        old={"harm": 0.01},
        keys=5000,
        steps=4,
        old_rows=2000,
        runs=0.1,
    ),
    StoreWorld("no log: first step old", (harm(0.2),), has_log=False),
    replace(GOOD, reaches={3: 0.65, 4: 0.9}),
    replace(GOOD, name="0.015, no log", steps=6, has_log=False, reaches={4: 0.65, 5: 0.9}),
]
DROPPED, BREAK_IF_WRONG = " (wrong)", ("late", "20 % missing, mostly harm")


def known_only(rows: ArmRows, arms: object) -> dict[str, ArmCounts]:
    """The counts without rows whose loss is not known: wrong."""
    found = RIGHT_COUNTS(rows, arms)
    return {name: ArmCounts(each.rows - each.pending, each.total) for name, each in found.items()}


RIGHT_COUNTS = ArmRows.counts


def play_some(number: int, seeds: range, wrong: bool) -> list[Played]:
    """Some releases of a world."""
    make_engine, compiled = database.make_engine, {}

    def engine(*given: object, **options: object) -> object:
        """With the statements that earlier engines have compiled."""
        made = make_engine(*given, **options)
        made._compiled_cache = compiled
        return made

    with ExitStack() as stack:
        stack.enter_context(patch("tether.release.ramp_calibration.worst_excess", lambda *_: 0.0))
        stack.enter_context(patch("tether.rounds.store.database.make_engine", engine))
        if wrong:
            stack.enter_context(patch.object(ArmRows, "counts", known_only))
        return [Player(WORLDS[number], seed).play() for seed in seeds]


def line(world: StoreWorld, name: str, played: list[Played]) -> tuple[str, bool]:
    """One guardrail of a world, and whether what is stated held."""
    alpha, bound = world.limit(name)
    risks = np.stack([each.risks[:, list(world.guardrails).index(name)] for each in played])
    all_shares = np.stack([each.shares for each in played])
    shares = all_shares.mean(axis=0)
    windows = np.median(np.stack([each.windows for each in played]), axis=0)
    stated = np.full(world.steps, alpha)
    if not world.options.get("promise"):
        stated += [worst_excess(int(rows), world.old[name], alpha, bound) for rows in windows]
    mean, error = risks.mean(axis=0), risks.std(axis=0, ddof=1) / np.sqrt(len(risks))
    counted = np.ones(world.steps, bool)
    if world.changes_at is not None:
        counted[world.changes_at - 1] = False
    held = bool((mean <= stated + ERRORS * error)[counted].all())
    for step, least in world.reaches.items():
        held &= _reaches(all_shares[:, step - 1], least)
    within_alpha = bool((mean <= alpha + ERRORS * error)[counted].all())
    worst = int(np.argmax(np.where(counted, mean, -np.inf)))
    alarms = np.mean([each.alarms for each in played])
    shown = " ".join(f"{shares[step]:>6.1%}" for step in (1, 2, 3, -1))
    label = world.name if len(world.guardrails) == 1 else f"{world.name}: {name}"
    return (
        f"{label:<36} {alpha:>5g} {mean[worst]:.4f} ± {error[worst]:.4f} {worst + 1:>5} "
        f"{stated[worst]:>7.4f} {'yes' if within_alpha else 'NO':>6} {'yes' if held else 'NO':>5} "
        f"{'':>6} {shown} {alarms:>7.2f} {len(played):>6}",
        held,
    )


def _reaches(shares: np.ndarray, least: float) -> bool:
    return bool(shares.mean() >= least - ERRORS * shares.std(ddof=1) / np.sqrt(len(shares)))


HEAD = (
    f"{'new system':<36} {'alpha':>5} {'highest ± se':<15} {'step':>5} {'stated':>7} {'≤alpha':>6} "
    f"{'held':>5} {'share: step 2':>13} {'3':>6} {'4':>6} {'last':>6} {'resumed':>7} {'runs':>6}"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    begun, good, broke = time.perf_counter(), True, {}
    chosen = [n for n, each in enumerate(WORLDS) if arguments.only in each.name]
    tasks = [(number, False) for number in chosen]
    tasks += [(number, True) for number in chosen if WORLDS[number].name in BREAK_IF_WRONG]
    print(HEAD)
    with ProcessPoolExecutor(arguments.processes) as pool:
        waiting = {}
        for number, wrong in tasks:
            runs = max(2, round(arguments.runs * WORLDS[number].runs))
            seeds = [range(s, min(s + CHUNK, runs)) for s in range(0, runs, CHUNK)]
            waiting[number, wrong] = [pool.submit(play_some, number, s, wrong) for s in seeds]
        for (number, wrong), parts in waiting.items():
            world = WORLDS[number]
            played = [each for part in parts for each in part.result()]
            for name in world.guardrails:
                text, held = line(world, name, played)
                label = f"{world.name}{DROPPED}"
                print(f"{label:<36}{text[36:]}" if wrong else text, flush=True)
                if wrong:
                    broke[world.name] = not held
                else:
                    good &= held
    print(f"\n{time.perf_counter() - begun:.0f} s.")
    idle = [name for name, seen in broke.items() if not seen]
    if good and not idle:
        print("Every promise held, and leaving unknown losses out broke it.")
        return 0
    print(f"SOMETHING IS OFF: {'a promise broke' if not good else f'{idle} did not break'}.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
