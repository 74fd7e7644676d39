"""Runs to report on: real calibrations on simulated logs, in the shapes that a run can have."""

from __future__ import annotations

import numpy as np

import tether
from tether.rounds.history import Alarm, Estimate, History, RoundRecord

ALPHA = 0.1
SAFE = tether.Gaussian(0.0, 1.0)


def day(number: int) -> str:
    return f"2026-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}T09:30:00+00:00"


def estimate(values: np.ndarray) -> Estimate:
    """A mean with wide limits; a loss gets the interval of the monitor instead."""
    half = 3 * values.std() / np.sqrt(len(values))
    return Estimate(
        len(values), float(values.mean()), float(values.mean() - half), float(values.mean() + half)
    )


def watched(losses: np.ndarray) -> Estimate:
    report = tether.monitor.RiskMonitor(ALPHA).update(losses)
    return Estimate(report.seen, report.mean, report.lower, report.upper)


def calibrated(optimized: tether.Policy, rows: int, alpha: float, rng, **how) -> tether.Calibration:
    actions = SAFE.sample(rows, rng)
    log = tether.make_log(SAFE, optimized, None, actions, actions > 1.5)
    draws = tether.make_proposals(SAFE, optimized, None, rows, rng)
    return tether.calibrate(log, draws, alpha=alpha, **how)


def safe_round(number: int, rng, rows: int = 200, **changes) -> RoundRecord:
    actions = SAFE.sample(rows, rng)
    what = {
        "number": number,
        "policy": None,
        "begun": day(number),
        "calibration": None,
        "note": "there was nothing to calibrate on yet",
        "rows": rows,
        "safe_rows": rows,
        "calibration_rows": rows // 2,
        "observed": rows,
        "withdrawn": 0,
        "loss": watched(actions > 1.5),
        "reward": estimate(actions),
    }
    return RoundRecord(**(what | changes))


def tethered_round(number, rng, rows=400, log_rows=None, alpha=ALPHA, **changes) -> RoundRecord:
    """A round with an optimized policy that moves on and grows surer as the rounds go by."""
    optimized = tether.Gaussian(1.2 - 0.6 / number, 0.9 - 0.2 / number)
    found = calibrated(optimized, log_rows or 150 + 150 * number, alpha, rng)
    policy = tether.Tethered(SAFE, optimized, found)
    actions = policy.sample(rows, rng)
    what = {
        "policy": f"biopsy-model-{number}",
        "calibration": tether.Calibration.from_dict(found.to_dict()),
        "note": "",
        "safe_rows": 0,
        "loss": watched(actions > 1.5),
        "reward": estimate(actions),
    }
    return safe_round(number, np.random.default_rng(0), rows, **(what | changes))


def history(rounds, alarms=(), **changes) -> History:
    rng = np.random.default_rng(1)
    actions = SAFE.sample(400, rng)
    what = {
        "store": "sqlite:///biopsies.db",
        "created": day(0),
        "safe": "every-suspicion-is-examined",
        "alpha": ALPHA,
        "bound": 1.0,
        "family": "clip",
        "test_weight": "empirical",
        "against": "safe",
        "missing": "wait",
        "calibration_share": 0.5,
        "alarm_risk": 0.12,
        "rounds": tuple(rounds),
        "alarms": tuple(alarms),
        "safe_loss": watched(actions > 1.5) if rounds else None,
        "safe_reward": estimate(actions) if rounds else None,
    }
    return History(**(what | changes))


def empty() -> History:
    return history([])


def one_safe_round() -> History:
    return history([safe_round(1, np.random.default_rng(2))])


def ten_rounds() -> History:
    rng = np.random.default_rng(3)
    rounds = [safe_round(1, rng)] + [tethered_round(n, rng) for n in range(2, 10)]
    last = tethered_round(10, rng)
    waiting = {"observed": 310, "withdrawn": 4, "note": "86 losses are awaited"}
    rounds.append(RoundRecord(**(vars(last) | waiting)))
    over = rounds[5]
    worse = np.random.default_rng(5).random(over.rows) < 0.28
    rounds[5] = RoundRecord(**(vars(over) | {"loss": watched(worse), "safe_rows": 120}))
    cleared = Alarm(
        1, 6, "risk", "the mean loss is 0.28 after 280 losses", day(6), day(7), "a faulty scanner"
    )
    return history(rounds, [cleared])


def alarm_standing() -> History:
    before = ten_rounds()
    standing = Alarm(2, 10, "shift", "contexts are no longer what they were", day(11))
    return history(before.rounds, [*before.alarms, standing])


def beta_infinite() -> History:
    rng = np.random.default_rng(4)
    return history(
        [safe_round(1, rng), tethered_round(2, rng, alpha=0.9), tethered_round(3, rng, alpha=0.01)],
        alpha=0.9,
    )


def infinite_last() -> History:
    rng = np.random.default_rng(4)
    return history([safe_round(1, rng), tethered_round(2, rng, alpha=0.9)], alpha=0.9)


def two_hundred() -> History:
    rng = np.random.default_rng(6)
    rounds = [safe_round(1, rng)]
    rounds += [tethered_round(n, rng, 300, log_rows=300 + 10 * n) for n in range(2, 201)]
    return history(rounds)


HOSTILE = "<script>document.title='owned'</script>\"'&"


def hostile() -> History:
    rng = np.random.default_rng(7)
    rounds = [
        safe_round(1, rng, note=HOSTILE),
        tethered_round(2, rng, policy=HOSTILE, note=HOSTILE),
        tethered_round(3, rng, loss=None, reward=None, observed=0),
    ]
    alarm = Alarm(1, 2, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    return history(
        rounds, [alarm], store=HOSTILE, safe=HOSTILE, family=HOSTILE, safe_loss=None,
        safe_reward=None,
    )  # fmt: skip


SHAPES = {
    make.__name__: make
    for make in (
        empty,
        one_safe_round,
        ten_rounds,
        alarm_standing,
        beta_infinite,
        infinite_last,
        two_hundred,
        hostile,
    )
}

if __name__ == "__main__":  # python -m tests.report.histories ten_rounds report.html
    import sys

    from tether.report import write

    write(SHAPES[sys.argv[1]](), sys.argv[2])
