"""The monitor of keys that come back: false alarms where losses of a key depend, and delays.

In every world 200 keys of a population come back in each of 40 windows, and the mean over keys of
what is expected of them, given the past, is at most alpha. Rows marked "wrong on purpose" bet on
every loss (`RiskMonitor`, judged after each), which takes the losses of a key for independent ones
and depends on who comes first. "Mean of a window" is valid for keys that depend on each other in
any way, and slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.monitor_tables import DELTA, Array, delay_of, summary, verdict
from tether.monitor import KeyMonitor, RiskMonitor

ALPHA, KEYS, WINDOWS = 0.03, 200, 40
Window = tuple[Array, Array]
World = Callable[[np.random.Generator], Iterator[Window]]


def repeated(harmed: Array, counts: Array | int) -> Window:
    """The losses of a window: those of a key are equal, and harmed keys come first."""
    order = np.argsort(~harmed, kind="stable")
    many = np.broadcast_to(counts, KEYS)[order]
    return np.repeat(order, many), np.repeat(harmed[order], many).astype(float)


def alike(rng: np.random.Generator) -> Iterator[Window]:
    """One loss of each key, and every key is like the others."""
    for _ in range(WINDOWS):
        yield np.arange(KEYS), (rng.random(KEYS) < ALPHA).astype(float)


def always_the_same(rng: np.random.Generator) -> Iterator[Window]:
    """Three keys in a hundred are harmed in every window, and come often."""
    harmed = np.arange(KEYS) < ALPHA * KEYS
    for _ in range(WINDOWS):
        yield repeated(harmed, np.where(harmed, 6, 1))


def equal_losses(rng: np.random.Generator) -> Iterator[Window]:
    """Four equal losses of each key in a window."""
    for _ in range(WINDOWS):
        yield repeated(rng.random(KEYS) < ALPHA, 4)


def harmed_again(rng: np.random.Generator) -> Iterator[Window]:
    """Who was harmed is harmed again with 0.8; the others make up for it."""
    harmed = rng.random(KEYS) < ALPHA
    for _ in range(WINDOWS):
        again = min(0.8, ALPHA * KEYS / max(1, harmed.sum()))
        others = (ALPHA * KEYS - again * harmed.sum()) / (~harmed).sum()
        harmed = rng.random(KEYS) < np.where(harmed, again, others)
        yield repeated(harmed, 2)


def unequal(rng: np.random.Generator) -> Iterator[Window]:
    """Risks of keys from 0 to 1, drawn anew in every window, which everybody knows."""
    for _ in range(WINDOWS):
        risks = rng.dirichlet(np.full(KEYS, 0.05)) * ALPHA * KEYS
        yield repeated(rng.random(KEYS) < np.minimum(risks, 1), 1)


NULLS: dict[str, World] = {
    "keys alike, one loss each": alike,
    "the same keys always": always_the_same,
    "four equal losses of a key": equal_losses,
    "harmed again, two losses": harmed_again,
    "unequal, harm comes first": unequal,
}


def keys(streams: int) -> None:
    """False alarms of the monitor, and of bets on every loss."""
    print(f"{streams} streams of {WINDOWS} windows, {KEYS} keys, alpha = {ALPHA}, delta = {DELTA}")
    print(f"{'world':<42} {'alarms':<23} mean of a window")
    for name, world in NULLS.items():
        rng, alarms = np.random.default_rng(1), np.zeros(2)
        for _ in range(streams):
            monitor, means = (
                KeyMonitor(ALPHA, false_alarm_probability=DELTA),
                RiskMonitor(ALPHA, false_alarm_probability=DELTA),
            )
            for who, losses in world(rng):
                monitor.update(who, losses)
                means.update([(np.bincount(who, losses) / np.bincount(who)).mean()])
            alarms += [monitor.status.alarm, means.status.alarm]
        rates = [rate / streams for rate in alarms.tolist()]
        print(f"{name:<42} " + f"{'':<9}".join(f"{r:.4f} {verdict(r, streams)}" for r in rates))
    for name, world in NULLS.items():
        rng, wrong, few = np.random.default_rng(1), 0, min(streams, 100)
        for _ in range(few):
            losses = np.concatenate([each for _, each in world(rng)])
            wrong += RiskMonitor(ALPHA, false_alarm_probability=DELTA).update(losses).alarm
        at = f"{name}: every loss"
        shown = verdict(wrong / few, few) if world is alike else "wrong on purpose"
        print(f"{at:<42} {wrong / few:.4f} {shown}")


def keys_delays(streams: int) -> None:
    """Windows until a system that becomes bad for keys that come back is found."""
    print(f"{streams} streams, risk 0.01 for 30 windows, then as stated; alpha = {ALPHA}")
    print(f"{'keys':>6} {'risk':>6} {'found':>8} {'median':>8} {'90 %':>8}   mean of a window:")
    for number in (30, 200, 1000):
        for risk in (0.05, 0.1, 0.3, 1.0):
            rng = np.random.default_rng(number)
            delays: tuple[list[int | None], ...] = ([], [])
            for _ in range(streams):
                monitors = (KeyMonitor(ALPHA), RiskMonitor(ALPHA))
                for window in range(90):
                    losses = rng.random(number) < (0.01 if window < 30 else risk)
                    monitors[0].update(range(number), losses)
                    monitors[1].update([losses.mean()])
                for each, found in zip(monitors, delays, strict=True):
                    at = each.status.alarm_at
                    if at is None or at > 30:
                        found.append(delay_of(at, 30))
            shown = "   ".join(summary(each) for each in delays)
            print(f"{number:>6} {risk:>6} {shown}", flush=True)
