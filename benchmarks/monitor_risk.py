"""The risk monitor on simulated streams: false alarms, intervals and delays.

Rows marked "wrong on purpose" are procedures that look alike and promise nothing, there to show
that the worlds can tell. "One bettor" in the delays is the usual rule: one stake, from the mean and
spread of all losses so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tether
from benchmarks.monitor_tables import DELTA, STEPS, Array, delay_of, summary, verdict
from tether.monitor import RiskMonitor

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
    watch, missed = RiskMonitor(alpha, false_alarm_probability=DELTA), False
    mean_risk = risk.cumsum() / np.arange(1, STEPS + 1)
    for batch in np.split(losses, batches):
        report = watch.update(batch)
        missed |= not report.lower <= mean_risk[report.seen - 1] <= report.upper
    return watch.status.alarm, missed


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
                    RiskMonitor(alpha, false_alarm_probability=DELTA).update(losses).alarm_at,
                    bettor(losses, alpha),
                )
                for alarm_at, delays in zip(alarms, (ours, theirs), strict=True):
                    if alarm_at is None or alarm_at > quiet:
                        delays.append(delay_of(alarm_at, quiet))
            print(
                f"{quiet:12d} {raised:6.2f}  {summary(ours)}   {'':11s} {summary(theirs)}",
                flush=True,
            )


def calibrated(streams: int) -> None:
    """A Gaussian world: each stream calibrates on a log of its own, deploys, and is watched.

    Calibration promises alpha on average over logs; the policy of one log may be above it.
    """
    alpha, slacks = 0.1, (1.0, 1.1, 1.25, 1.5)
    safe, optimized = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
    print(f"{streams} calibrations at alpha = {alpha}, {STEPS} actions of each watched")
    print(
        f"{'rows':>6s} {'mean loss':>10s} {'sd':>7s}   alarms of RiskMonitor(s * alpha), s =",
        end="",
    )
    print("".join(f"{slack:8.2f}" for slack in slacks))
    for rows in (200, 1000, 5000):
        rng, means, alarms = np.random.default_rng(rows), [], []
        for _ in range(streams):
            actions = safe.sample(rows, rng)
            log = tether.make_log(safe, optimized, rows, actions, actions > 1.5)
            proposals = tether.make_proposals(safe, optimized, rows, 1, rng)
            found = tether.calibrate(log, proposals, alpha=alpha)
            losses = (tether.Tethered(safe, optimized, found).sample(STEPS, rng) > 1.5) * 1.0
            means.append(losses.mean())
            alarms.append(
                [
                    RiskMonitor(s * alpha, false_alarm_probability=DELTA).update(losses).alarm
                    for s in slacks
                ]
            )
        print(f"{rows:6d} {np.mean(means):10.4f} {np.std(means):7.4f} {'':42s}", end="")
        print("".join(f"{rate:8.3f}" for rate in np.mean(alarms, axis=0)), flush=True)
