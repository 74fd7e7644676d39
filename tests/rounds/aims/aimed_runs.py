"""Short runs that aim, in the clinic of `benchmarks.aim_rounds`."""

from __future__ import annotations

import numpy as np
from benchmarks.aim_rounds import ALPHA, Clinic

from tether.rounds import AimSettings, Controller

WORLD = Clinic()
QUICK = AimSettings(temperatures=(1.0,))
"""The default, with half of the candidates."""
AT_ALPHA = AimSettings(choose=False)


def new_run(store="sqlite://", **options):
    """A run in which no alarm is raised."""
    settings = {"alpha": ALPHA, "alarm_risk": 0.9, "aim": AT_ALPHA} | options
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
