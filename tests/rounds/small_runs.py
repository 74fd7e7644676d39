"""Short runs to test on, and a policy that changes."""

from __future__ import annotations

import numpy as np

import tether
from tether.rounds import Controller


class MovingGaussian:
    """A Gaussian whose mean can be changed in place."""

    def __init__(self, mean):
        self.mean = mean

    def sample(self, contexts, rng):
        return tether.Gaussian(self.mean, 0.9).sample(contexts, rng)

    def log_prob(self, contexts, actions):
        return tether.Gaussian(self.mean, 0.9).log_prob(contexts, actions)


def controller(world, store="sqlite://", **options):
    """A new run in a small world, in which no alarm is raised."""
    settings = {"alpha": 0.2, "alarm_risk": 0.9} | options
    return Controller(world.safe(), store=store, **settings)


def begun_run(optimized, **options):
    """A run with 200 observed actions of the safe policy, and a round of `optimized`."""
    settings = {"alpha": 0.3, "alarm_risk": 0.9, "store": "sqlite://"} | options
    run = Controller(tether.Gaussian(0.0), **settings)
    rng = np.random.default_rng(0)
    taken = run.begin().act(200, rng)
    run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1))
    return run, run.begin(optimized), rng


def monitored_run(store="sqlite://", **options):
    """A run with 400 observed actions of the safe policy, and a round that alarms easily."""
    settings = {"alpha": 0.1, "false_alarm_probability": 0.01} | options
    run = Controller(tether.Gaussian(0.0), store=store, **settings)
    rng = np.random.default_rng(0)
    taken = run.begin().act(400, rng)
    run.observe(taken.ids, (taken.actions > 2.0).astype(float))
    return run, run.begin(tether.Gaussian(0.3)), rng


def refreshed_rows(run):
    """All rows of a run as they are now."""
    run._refresh()
    return run._rows


def files_in(folder):
    """The names of the files in a folder, but for those of waiting writers."""
    return sorted(each.name for each in folder.iterdir() if not each.name.endswith("-queue"))
