"""Monitors on simulated streams: quiet when they should be, and soon enough when not.

In a world where the hypothesis holds, the rate of alarms is at most delta at any time, and so is
the rate of intervals that ever miss the mean risk. Wrong procedures look alike.

    python -m benchmarks.validity_monitors [streams]   # delays, and alarms over calibrated policies
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import tether
from benchmarks.cases import Case
from tether.monitor import KeyMonitor, RiskMonitor, ShiftMonitor

Array = np.ndarray
DELTA, STEPS = 0.05, 10_000
LOOKS = np.unique(np.geomspace(1, STEPS - 1, 20).astype(int))
Stream = Callable[[np.random.Generator], tuple[Array, Array]]
"""Losses, and the expectation of each given those before."""


# ---- risk -------------------------------------------------------------------------------------


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


RISKS: dict[str, tuple[float, Stream]] = {
    "losses of 0 or 1 at alpha": (0.1, fixed(lambda rng: rng.random(STEPS) < 0.1, 0.1)),
    "rare losses at alpha": (0.01, fixed(lambda rng: rng.random(STEPS) < 0.01, 0.01)),
    "beta(0.2, 1.8) at alpha": (0.1, fixed(lambda rng: rng.beta(0.2, 1.8, STEPS), 0.1)),
    "moving, up to alpha": (0.1, moving),
    "provoked, at alpha": (0.1, provoked),
}


def watched(alpha: float, stream: Stream, rng: np.random.Generator) -> Array:
    """Whether there was an alarm, and whether the interval missed the mean risk at any look."""
    losses, risk = stream(rng)
    watch, missed = RiskMonitor(alpha, false_alarm_probability=DELTA), False
    mean_risk = risk.cumsum() / np.arange(1, STEPS + 1)
    for batch in np.split(losses, LOOKS):
        seen = watch.update(batch)
        missed |= not seen.lower <= mean_risk[seen.seen - 1] <= seen.upper
    return np.array([watch.status.alarm, missed], dtype=float)


def bettor(losses: Array, alpha: float, *, peek: bool = False) -> int | None:
    """The alarm of one bettor with the best stake for the mean and spread of all losses so far.

    With `peek` the stake depends on the loss that it is placed on, which is wrong.
    """
    steps = np.arange(1, len(losses) + 1)
    mean = (alpha + losses.cumsum()) / (steps + 1)
    spread = (alpha * (1 - alpha) + ((losses - mean) ** 2).cumsum()) / (steps + 1)
    best = (mean - alpha) / (spread + (mean - alpha) ** 2)
    stakes = np.clip(best if peek else np.append(0.0, best[:-1]), 0, 0.5 / alpha)
    log_wealth = np.log1p(stakes * (losses - alpha)).cumsum()
    crossed = np.flatnonzero(log_wealth >= np.log(1 / DELTA))
    return int(crossed[0]) + 1 if len(crossed) else None


def repeated_test(losses: Array, alpha: float) -> bool:
    """Wrong: a one-sided test at level delta after every loss, from the 30th on."""
    steps = np.arange(1, len(losses) + 1)
    mean = losses.cumsum() / steps
    error = np.sqrt(np.maximum(mean - mean**2, 1e-12) / steps)
    return bool((mean - alpha > 1.645 * error)[29:].any())


# ---- shift ------------------------------------------------------------------------------------


def shifted(size: int, draw: Callable[..., Array], rng: np.random.Generator) -> float:
    scores = draw(rng, size + STEPS)
    return ShiftMonitor(scores[:size], DELTA, rng=rng).update(scores[size:]).alarm


def tested_again(rng: np.random.Generator) -> float:
    """Wrong: after every 50 scores a test at level delta of all of them against the reference."""
    from scipy.stats import ks_2samp

    reference, scores = rng.normal(size=1000), rng.normal(size=2000)
    ends = range(50, 2001, 50)
    return any(ks_2samp(reference, scores[:end]).pvalue < DELTA for end in ends)


# ---- keys that come back ----------------------------------------------------------------------

KEY_ALPHA, KEYS, WINDOWS = 0.03, 200, 40


def windows(world: str, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Who came, and the losses; harmed keys come first, and all losses of a key are equal."""
    harmed, counts = np.arange(KEYS) < KEY_ALPHA * KEYS, np.full(KEYS, 2)
    for _ in range(WINDOWS):
        if world == "the same keys always":
            counts = np.where(harmed, 6, 1)
        elif world == "other keys every time":
            harmed = rng.random(KEYS) < KEY_ALPHA
        else:  # who was harmed is harmed again with 0.8, and the others make up for it
            again = min(0.8, KEY_ALPHA * KEYS / max(1, harmed.sum()))
            others = (KEY_ALPHA * KEYS - again * harmed.sum()) / (~harmed).sum()
            harmed = rng.random(KEYS) < np.where(harmed, again, others)
        order = np.argsort(~harmed, kind="stable")
        yield np.repeat(order, counts[order]), np.repeat(harmed[order], counts[order]) * 1.0


def key_alarm(world: str, by_key: bool, rng: np.random.Generator) -> float:
    if by_key:
        monitor = KeyMonitor(KEY_ALPHA, false_alarm_probability=DELTA)
        return any([monitor.update(*window).alarm for window in windows(world, rng)])
    losses = np.concatenate([each for _, each in windows(world, rng)])
    return RiskMonitor(KEY_ALPHA, false_alarm_probability=DELTA).update(losses).alarm


# ---- cases and tables -------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    """Alarms where there should be none; the second step of a risk is a missed interval."""
    for name, (alpha, stream) in RISKS.items():
        yield Case(f"risk monitor, {name}", partial(watched, alpha, stream), DELTA)
    null = RISKS["losses of 0 or 1 at alpha"][1]
    peek = lambda rng: bettor(null(rng)[0], 0.1, peek=True) is not None  # noqa: E731
    yield Case("risk, a stake that peeks", peek, DELTA, wrong=True)
    test = lambda rng: repeated_test(null(rng)[0], 0.1)  # noqa: E731
    yield Case("risk, a test after every loss", test, DELTA, wrong=True)
    for name, size, draw in (
        ("reference of 1,000", 1000, lambda rng, size: rng.normal(size=size)),
        ("reference of 20", 20, lambda rng, size: rng.normal(size=size)),
        ("ten levels", 1000, lambda rng, size: rng.integers(0, 10, size) * 1.0),
    ):
        yield Case(f"shift monitor, {name}", partial(shifted, size, draw), DELTA, runs=200)
    yield Case("shift, a test after every 50 scores", tested_again, DELTA, wrong=True, runs=200)
    for world in ("the same keys always", "other keys every time", "harmed again"):
        alarm = partial(key_alarm, world)
        yield Case(f"key monitor, {world}", partial(alarm, True), DELTA, runs=200)
        wrong = f"every loss of keys that come back, {world}"
        yield Case(wrong, partial(alarm, False), DELTA, wrong=True, runs=100)


def delays(streams: int) -> None:
    """Losses until a rise from 0.09 is found at alpha 0.1: median, and that of one bettor."""
    after = 20_000
    print(f"losses until a rise is found, medians of {streams} streams, alpha 0.1, one bettor last")
    for quiet in (0, 1000, 10_000):
        for raised in (0.12, 0.15, 0.2, 0.5):
            rng, found = np.random.default_rng([quiet, int(100 * raised)]), ([], [])
            for _ in range(streams):
                chance = np.repeat([0.09, raised], [quiet, after])
                losses = (rng.random(quiet + after) < chance).astype(float)
                monitor = RiskMonitor(0.1, false_alarm_probability=DELTA).update(losses)
                for at, each in zip((monitor.alarm_at, bettor(losses, 0.1)), found, strict=True):
                    if at is None or at > quiet:  # no alarm before the change
                        each.append(np.inf if at is None else at - quiet)
            shown = "  ".join(f"{np.median(each):8.0f}" for each in found)
            print(f"  after {quiet:6,d} losses, to {raised:.2f}: {shown}", flush=True)


def calibrated(streams: int) -> None:
    """Calibrate on a log, deploy, watch: the policy of one log may be above alpha."""
    alpha, slacks = 0.1, (1.0, 1.1, 1.25, 1.5)
    safe, optimized = tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8)
    print(f"{streams} calibrations at alpha {alpha}, {STEPS} actions of each watched")
    for rows in (200, 1000, 5000):
        rng, means, alarms = np.random.default_rng(rows), [], []
        for _ in range(streams):
            actions = safe.sample(rows, rng)
            log = tether.make_log(safe, optimized, rows, actions, actions > 1.5)
            proposals = tether.make_proposals(safe, optimized, rows, 1, rng)
            found = tether.calibrate(log, proposals, alpha=alpha)
            losses = (tether.Tethered(safe, optimized, found).sample(STEPS, rng) > 1.5) * 1.0
            means.append(losses.mean())
            monitors = (RiskMonitor(s * alpha, false_alarm_probability=DELTA) for s in slacks)
            alarms.append([monitor.update(losses).alarm for monitor in monitors])
        shown = ", ".join(
            f"{rate:.3f} at {slack:g} alpha"
            for rate, slack in zip(np.mean(alarms, axis=0), slacks, strict=True)
        )
        mean, spread = np.mean(means), np.std(means)
        print(f"  {rows} rows: mean loss {mean:.4f}, sd {spread:.4f}; alarms {shown}", flush=True)


if __name__ == "__main__":
    for table in (delays, calibrated):
        table(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
