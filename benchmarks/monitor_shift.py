"""The shift monitor on simulated streams: false alarms and delays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.monitor_tables import DELTA, STEPS, Array, delay_of, summary, verdict
from tether.monitor import ShiftMonitor
from tether.monitor.shift_monitor import Ranks


def fixed_reference(scores: Array, size: int, rng: np.random.Generator) -> bool:
    """Wrong on purpose: each score compared with the reference alone, the same again and again."""
    bag = ShiftMonitor(scores[:size], DELTA, rng=rng)

    class Unmoved(Ranks):
        def _add(self, scores: Array) -> None:
            """Forget what was pushed."""

    bag._ranks = Unmoved(scores[:size])
    return any(bag.update(part).alarm for part in np.split(scores[size:], range(1, 2000)))


SHIFT_WORLDS: dict[str, tuple[int, Callable[[np.random.Generator, int], Array]]] = {
    "normal, reference of 1,000": (1000, lambda rng, size: rng.normal(size=size)),
    "normal, reference of 20": (20, lambda rng, size: rng.normal(size=size)),
    "ten levels, reference of 1,000": (1000, lambda rng, size: rng.integers(0, 10, size) * 1.0),
}


def shift(streams: int) -> None:
    print(f"{streams} streams of {STEPS} scores, delta = {DELTA}")
    for seed, (name, (size, draw)) in enumerate(SHIFT_WORLDS.items()):
        rng = np.random.default_rng(seed)
        alarms = 0
        for _ in range(streams):
            scores = draw(rng, size + STEPS)
            alarms += ShiftMonitor(scores[:size], DELTA, rng=rng).update(scores[size:]).alarm
        print(
            f"{name:34s} {alarms / streams:8.4f} {verdict(alarms / streams, streams)}", flush=True
        )
    rng = np.random.default_rng(99)
    wrong = np.mean([fixed_reference(rng.normal(size=2100), 100, rng) for _ in range(200)])
    print(f"{'the reference alone (200 streams)':34s} {wrong:8.4f} wrong on purpose", flush=True)


CHANGES: dict[str, Callable[[Array], Array]] = {
    "mean + 0.25 sd": lambda z: z + 0.25,
    "mean + 0.5 sd": lambda z: z + 0.5,
    "mean + 1 sd": lambda z: z + 1,
    "mean + 2 sd": lambda z: z + 2,
    "mean - 1 sd": lambda z: z - 1,
    "sd x 1.5": lambda z: 1.5 * z,
    "sd x 3": lambda z: 3 * z,
    "sd / 2": lambda z: z / 2,
}


def shift_delays(streams: int) -> None:
    size, after = 1000, 5000
    print(f"{streams} streams, normal scores, reference of {size}, delta = {DELTA}")
    print(f"watched for {after} scores after the change")
    print(f"{'change after':>12s} {'change':>16s}  {'found':>7s} {'median':>8s} {'90 %':>8s}")
    for quiet in (0, 1000, 10_000):
        for seed, (name, change) in enumerate(CHANGES.items()):
            rng, delays = np.random.default_rng([quiet, seed]), []
            for _ in range(streams):
                watch = ShiftMonitor(rng.normal(size=size), DELTA, rng=rng)
                if quiet and watch.update(rng.normal(size=quiet)).alarm:
                    continue
                alarm_at = watch.update(change(rng.normal(size=after))).alarm_at
                delays.append(delay_of(alarm_at, quiet))
            print(f"{quiet:12d} {name:>16s}  {summary(delays)}", flush=True)
