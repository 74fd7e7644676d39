"""Short runs that aim, in the clinic of `benchmarks.aim_rounds`."""

from __future__ import annotations

import numpy as np
from benchmarks.aim_rounds import ALPHA, Clinic

from tether.aiming import FittedLoss
from tether.aiming.pair_features import PairFeatures
from tether.aiming.saved_log_odds import LinearLogOdds
from tether.rounds import AimSettings, Controller

WORLD = Clinic()
QUICK = AimSettings(temperatures=(1.0,))
"""The default, with half of the candidates."""
AT_ALPHA = AimSettings(choose=False)


def known_model():
    """A loss model that need not be fitted and can be stored: higher doses harm where x is high."""
    features = PairFeatures(np.array([0.0, 1.0] * 6), np.repeat(np.arange(4), 3))
    coefficients = np.zeros(9)  # x, four doses, and their products
    coefficients[[3, 4]], coefficients[[7, 8]] = 1.0, 1.2
    return FittedLoss("linear", 1.0, 0.1, (LinearLogOdds(coefficients, -3.0),), features, 0.0, 1.0)


KNOWN = AimSettings(loss_model=known_model(), choose=False)


def new_run(store="sqlite://", **options):
    """A run in which no alarm is raised."""
    settings = {"alpha": ALPHA, "alarm_risk": 0.9, "aim": KNOWN} | options
    return Controller(WORLD.safe, store=store, **settings)


def act(round_, rng, rows=300, *, rewarded=True):
    """Treat some patients."""
    x = rng.random(rows)
    taken = round_.act(x, rng)
    harmed, benefit = WORLD.outcome(x, taken.actions, rng)
    round_.observe(taken.ids, harmed, benefit if rewarded else None)
    return taken


def begun(run, rounds=2, rows=300, seed=0, *, rewarded=True, optimized=None):
    """The last of some rounds, the first of which is the safe policy's."""
    rng = np.random.default_rng(seed)
    for number in range(rounds):
        round_ = run.begin((optimized or WORLD.optimized) if number else None)
        if number < rounds - 1:
            act(round_, rng, rows, rewarded=rewarded)
    return round_


def last_aim(run):
    """How the last round aimed."""
    return run.history().rounds[-1].aim
