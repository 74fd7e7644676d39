"""Whether the monitors are quiet when they should be, and how soon they speak when they should.

Simulated streams, each watched by the monitor itself. A null world's rate of alarms must not exceed
delta; rows marked "wrong on purpose" are procedures that look alike and promise nothing, there to
show that the worlds can tell. Delays are counted from the change, over streams without an alarm
before it.

    python -m benchmarks.monitor risk [streams]           false alarms and intervals
    python -m benchmarks.monitor risk-delays [streams]
    python -m benchmarks.monitor shift [streams]          false alarms
    python -m benchmarks.monitor shift-delays [streams]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tether.monitor import RiskMonitor, ShiftMonitor
from tether.monitor.ranks import Ranks

DELTA, STEPS = 0.05, 10_000
Array = NDArray[np.float64]
Stream = Callable[[np.random.Generator], tuple[Array, Array]]


def fixed(draw: Callable[[np.random.Generator], Array], risk: float) -> Stream:
    """Losses with the same expectation at every step."""
    return lambda rng: (draw(rng).astype(float), np.full(STEPS, risk))


def moving(rng: np.random.Generator) -> tuple[Array, Array]:
    """A risk that goes up and down and touches 0.1."""
    risk = 0.06 + 0.04 * np.sin(np.arange(STEPS) / 500)
    return (rng.random(STEPS) < risk).astype(float), risk


def provoked(rng: np.random.Generator) -> tuple[Array, Array]:
    """A risk of 0.1 at every step; after a loss the next is rarer but larger."""
    uniforms, losses, last = rng.random(STEPS).tolist(), [], 0.0
    for uniform in uniforms:
        size = 1.0 if last > 0 else 0.2
        last = size if uniform < 0.1 / size else 0.0
        losses.append(last)
    return np.array(losses), np.full(STEPS, 0.1)


RISK_WORLDS: dict[str, tuple[float, Stream]] = {
    "0 or 1, risk = alpha": (0.1, fixed(lambda rng: rng.random(STEPS) < 0.1, 0.1)),
    "0 or 1, risk = 0.9 alpha": (0.1, fixed(lambda rng: rng.random(STEPS) < 0.09, 0.09)),
    "0 or 1, rare, risk = alpha": (0.01, fixed(lambda rng: rng.random(STEPS) < 0.01, 0.01)),
    "beta(0.2, 1.8), risk = alpha": (0.1, fixed(lambda rng: rng.beta(0.2, 1.8, STEPS), 0.1)),
    "uniform to 2 alpha, risk = alpha": (0.1, fixed(lambda rng: 0.2 * rng.random(STEPS), 0.1)),
    "moving, risk <= alpha": (0.1, moving),
    "provoked, risk = alpha": (0.1, provoked),
}


def watched(losses: Array, risk: Array, alpha: float, batches: Array) -> tuple[bool, bool]:
    """Whether there was an alarm, and whether the interval missed the mean risk at any look."""
    watch, missed = RiskMonitor(alpha, delta=DELTA), False
    mean_risk = risk.cumsum() / np.arange(1, STEPS + 1)
    for batch in np.split(losses, batches):
        report = watch.update(batch)
        missed |= not report.lower <= mean_risk[report.seen - 1] <= report.upper
    return watch.report.alarm, missed


def adaptive_stakes(losses: Array, alpha: float, *, peek: bool = False) -> Array:
    """The usual rule (aGRAPA): the best stake for the mean and spread of all losses so far."""
    steps = np.arange(1, len(losses) + 1)
    mean = (alpha + losses.cumsum()) / (steps + 1)
    spread = (alpha * (1 - alpha) + ((losses - mean) ** 2).cumsum()) / (steps + 1)
    best = (mean - alpha) / (spread + (mean - alpha) ** 2)
    known = best if peek else np.concatenate([[0.0], best[:-1]])
    return np.clip(known, 0, 0.5 / alpha)


def bettor(losses: Array, alpha: float, *, peek: bool = False) -> int | None:
    """The alarm of a single bettor with these stakes."""
    log_wealth = np.log1p(adaptive_stakes(losses, alpha, peek=peek) * (losses - alpha)).cumsum()
    crossed = np.flatnonzero(log_wealth >= np.log(1 / DELTA))
    return int(crossed[0]) + 1 if len(crossed) else None


def repeated_test(losses: Array, alpha: float) -> bool:
    """The usual mistake: a one-sided test at level delta after every loss, from the 30th on."""
    steps = np.arange(1, len(losses) + 1)
    mean = losses.cumsum() / steps
    error = np.sqrt(np.maximum(losses.cumsum() / steps - mean**2, 1e-12) / steps)
    return bool((mean - alpha > 1.645 * error)[29:].any())


def verdict(rate: float, streams: int) -> str:
    return "holds" if rate <= DELTA + 3 * (DELTA * (1 - DELTA) / streams) ** 0.5 else "BROKEN"


def risk(streams: int) -> None:
    batches = np.unique(np.geomspace(1, STEPS - 1, 20).astype(int))
    print(f"{streams} streams of {STEPS} losses, delta = {DELTA}")
    print(f"{'world':34s} {'alarms':>8s} {'':8s} {'interval missed':>16s}")
    for seed, (name, (alpha, stream)) in enumerate(RISK_WORLDS.items()):
        rng = np.random.default_rng(seed)
        seen = np.array([watched(*stream(rng), alpha, batches) for _ in range(streams)])
        alarms, missed = seen.mean(axis=0)
        print(
            f"{name:34s} {alarms:8.4f} {verdict(alarms, streams):8s} {missed:16.4f} "
            f"{verdict(missed, streams)}",
            flush=True,
        )
    alpha, stream = RISK_WORLDS["0 or 1, risk = alpha"]
    rng = np.random.default_rng(99)
    wrong = [
        (bettor(losses, alpha, peek=True) is not None, repeated_test(losses, alpha))
        for losses, _ in (stream(rng) for _ in range(streams))
    ]
    for name, rate in zip(
        ("a stake that peeks", "a test every time"), np.mean(wrong, 0), strict=True
    ):
        print(f"{name:34s} {rate:8.4f} wrong on purpose", flush=True)


def summary(delays: Iterable[int | None]) -> str:
    """The share found, the median delay and its 90 % quantile; "-" is later than the end."""
    found = np.sort([np.inf if delay is None else delay for delay in delays])
    middle, late = (found[int(share * (len(found) - 1))] for share in (0.5, 0.9))
    shown = [f"{value:8.0f}" if np.isfinite(value) else f"{'-':>8s}" for value in (middle, late)]
    return f"{np.isfinite(found).mean():7.2f} {' '.join(shown)}"


def delay_of(alarm_at: int | None, quiet: int) -> int | None:
    return None if alarm_at is None else alarm_at - quiet


def risk_delays(streams: int) -> None:
    alpha, after = 0.1, 20_000
    print(f"{streams} streams, losses 0 or 1, alpha = {alpha}, delta = {DELTA}")
    print(f"risk 0.09 until the change, then as stated; watched for {after} losses after it")
    heads = f"{'found':>7s} {'median':>8s} {'90 %':>8s}"
    print(f"{'change after':>12s} {'risk':>6s}  {heads}   one bettor: {heads}")
    for quiet in (0, 1000, 10_000):
        for raised in (0.11, 0.12, 0.15, 0.2, 0.3, 0.5):
            rng = np.random.default_rng([quiet, int(100 * raised)])
            ours, theirs = [], []
            for _ in range(streams):
                chance = np.repeat([0.09, raised], [quiet, after])
                losses = (rng.random(quiet + after) < chance).astype(float)
                alarms = (
                    RiskMonitor(alpha, delta=DELTA).update(losses).alarm_at,
                    bettor(losses, alpha),
                )
                for alarm_at, delays in zip(alarms, (ours, theirs), strict=True):
                    if alarm_at is None or alarm_at > quiet:
                        delays.append(delay_of(alarm_at, quiet))
            print(
                f"{quiet:12d} {raised:6.2f}  {summary(ours)}   {'':11s} {summary(theirs)}",
                flush=True,
            )


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


PARTS = {
    "risk": (risk, 10_000),
    "risk-delays": (risk_delays, 500),
    "shift": (shift, 10_000),
    "shift-delays": (shift_delays, 200),
}

if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in PARTS:
        raise SystemExit(__doc__)
    part, streams = PARTS[sys.argv[1]]
    part(int(sys.argv[2]) if len(sys.argv) == 3 else streams)
