"""Example runs for the report: real calibrations on simulated logs, in every form of a run."""

from __future__ import annotations

from functools import cache

import numpy as np

import tether
from tether.report import render, write
from tether.rounds.history import Alarm, Estimate, History, RoundRecord
from tether.rounds.limits import Limit

ALPHA = 0.1
SAFE = tether.Gaussian(0.0, 1.0)


def start_time(number: int) -> str:
    return f"2026-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}T09:30:00+00:00"


def reward_estimate(values: np.ndarray) -> Estimate:
    """A mean with wide limits."""
    half = 3 * values.std() / np.sqrt(len(values))
    return Estimate(
        len(values), float(values.mean()), float(values.mean() - half), float(values.mean() + half)
    )


def loss_estimate(losses: np.ndarray) -> Estimate:
    """A mean with the interval of the risk monitor."""
    result = tether.monitor.RiskMonitor(ALPHA).update(losses)
    return Estimate(result.seen, result.mean, result.lower, result.upper)


def calibrate_on_simulated_log(
    optimized: tether.Policy, rows: int, alpha: float, rng, **options
) -> tether.Calibration:
    actions = SAFE.sample(rows, rng)
    log = tether.make_log(SAFE, optimized, None, actions, actions > 1.5)
    draws = tether.make_proposals(SAFE, optimized, None, rows, rng)
    return tether.calibrate(log, draws, alpha=alpha, **options)


def safe_round(number: int, rng, rows: int = 200, **changes) -> RoundRecord:
    actions = SAFE.sample(rows, rng)
    fields = {
        "number": number,
        "policy": None,
        "begun": start_time(number),
        "calibration": None,
        "note": "there are no rows to calibrate on yet",
        "rows": rows,
        "safe_rows": rows,
        "calibration_rows": rows // 2,
        "observed": rows,
        "withdrawn": 0,
        "losses": {"loss": loss_estimate(actions > 1.5)},
        "reward": reward_estimate(actions),
    }
    return RoundRecord(**(fields | changes))


def tethered_round(number, rng, rows=400, log_rows=None, alpha=ALPHA, **changes) -> RoundRecord:
    """A round with an optimized policy that moves further away and narrows in later rounds."""
    optimized = tether.Gaussian(1.2 - 0.6 / number, 0.9 - 0.2 / number)
    calibration = calibrate_on_simulated_log(optimized, log_rows or 150 + 150 * number, alpha, rng)
    policy = tether.Tethered(SAFE, optimized, calibration)
    actions = policy.sample(rows, rng)
    fields = {
        "policy": f"biopsy-model-{number}",
        "calibration": calibration,
        "note": "",
        "safe_rows": 0,
        "losses": {"loss": loss_estimate(actions > 1.5)},
        "reward": reward_estimate(actions),
    }
    return safe_round(number, np.random.default_rng(0), rows, **(fields | changes))


def make_history(rounds, alarms=(), **changes) -> History:
    rng = np.random.default_rng(1)
    actions = SAFE.sample(400, rng)
    fields = {
        "store": "sqlite:///biopsies.db",
        "created": start_time(0),
        "safe": "every-suspicion-is-examined",
        "limits": {"loss": Limit(ALPHA, 1.0, 0.12)},
        "family": "clip",
        "test_weight": "empirical",
        "against": "safe",
        "missing": "wait",
        "calibration_share": 0.5,
        "rounds": tuple(rounds),
        "alarms": tuple(alarms),
        "safe_losses": {"loss": loss_estimate(actions > 1.5)} if rounds else {},
        "safe_reward": reward_estimate(actions) if rounds else None,
    }
    return History(**(fields | changes))


def empty() -> History:
    return make_history([])


def one_safe_round() -> History:
    return make_history([safe_round(1, np.random.default_rng(2))])


def ten_rounds() -> History:
    rng = np.random.default_rng(3)
    rounds = [safe_round(1, rng)] + [tethered_round(n, rng) for n in range(2, 10)]
    last = tethered_round(10, rng)
    pending = {"observed": 310, "withdrawn": 4, "note": "86 losses are pending"}
    rounds.append(RoundRecord(**(vars(last) | pending)))
    sixth = rounds[5]
    harmful = np.random.default_rng(5).random(sixth.rows) < 0.28
    rounds[5] = RoundRecord(
        **(vars(sixth) | {"losses": {"loss": loss_estimate(harmful)}, "safe_rows": 120})
    )
    cleared = Alarm(
        1,
        6,
        "risk",
        "the mean loss is 0.28 after 280 losses",
        start_time(6),
        start_time(7),
        "a faulty scanner",
    )
    return make_history(rounds, [cleared])


def active_alarm() -> History:
    before = ten_rounds()
    alarm = Alarm(2, 10, "shift", "the distribution of contexts has changed", start_time(11))
    return make_history(before.rounds, [*before.alarms, alarm])


def infinite_then_no_beta() -> History:
    rng = np.random.default_rng(4)
    return make_history(
        [safe_round(1, rng), tethered_round(2, rng, alpha=0.9), tethered_round(3, rng, alpha=0.01)],
        limits={"loss": Limit(0.9, 1.0, 0.95)},
    )


def infinite_beta() -> History:
    rng = np.random.default_rng(4)
    limits = {"loss": Limit(0.9, 1.0, 0.95)}
    return make_history([safe_round(1, rng), tethered_round(2, rng, alpha=0.9)], limits=limits)


def two_hundred_rounds() -> History:
    rng = np.random.default_rng(6)
    rounds = [safe_round(1, rng)]
    rounds += [tethered_round(n, rng, 300, log_rows=300 + 10 * n) for n in range(2, 201)]
    return make_history(rounds)


HOSTILE_TEXT = "<script>document.title='owned'</script>\"'&"


def hostile_texts() -> History:
    rng = np.random.default_rng(7)
    rounds = [
        safe_round(1, rng, note=HOSTILE_TEXT),
        tethered_round(2, rng, policy=HOSTILE_TEXT, note=HOSTILE_TEXT),
        tethered_round(3, rng, losses={}, reward=None, observed=0),
    ]
    alarm = Alarm(1, 2, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT)
    return make_history(
        rounds, [alarm], store=HOSTILE_TEXT, safe=HOSTILE_TEXT, family=HOSTILE_TEXT, safe_losses={},
        safe_reward=None,
    )  # fmt: skip


def two_losses() -> History:
    """A run with a loss that has not arrived yet in its last round."""
    rng, alpha = np.random.default_rng(8), {"missed": ALPHA, "<b>delay</b>": 2.0}
    bound = {"missed": 1.0, "<b>delay</b>": 10.0}
    actions, optimized = SAFE.sample(400, rng), tether.Gaussian(0.7, 0.9)
    losses = {"missed": actions > 1.5, "<b>delay</b>": np.clip(actions + 1, 0, 10)}
    log = tether.make_log(SAFE, optimized, None, actions, losses)
    found = tether.calibrate(log, alpha=alpha, bound=bound)
    delay = tether.monitor.RiskMonitor(2.0, 10.0).update(losses["<b>delay</b>"])
    estimates = {
        "missed": loss_estimate(actions > 1.5),
        "<b>delay</b>": Estimate(delay.seen, delay.mean, delay.lower, delay.upper),
    }
    last = {"missed": estimates["missed"]}
    rounds = [
        safe_round(1, rng, losses=estimates),
        tethered_round(2, rng, calibration=found, losses=estimates),
        tethered_round(3, rng, calibration=found, losses=last, observed=0),
    ]
    limits = {name: Limit(alpha[name], bound[name], 1.5 * alpha[name]) for name in alpha}
    return make_history(rounds, limits=limits, safe_losses=estimates)


EXAMPLES = {
    function.__name__: function
    for function in (
        empty,
        one_safe_round,
        ten_rounds,
        active_alarm,
        infinite_then_no_beta,
        infinite_beta,
        two_hundred_rounds,
        hostile_texts,
    )
}


@cache
def example(name: str) -> History:
    return EXAMPLES[name]()


@cache
def rendered(name: str) -> str:
    """The page of an example, rendered once for all tests."""
    return render(example(name))


if __name__ == "__main__":  # python -m tests.report.example_histories ten_rounds report.html
    import sys

    write(example(sys.argv[1]), sys.argv[2])
