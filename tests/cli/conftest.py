"""A store with two rounds and ten pending losses, and a way to raise its alarm."""

import logging

import numpy as np
import pytest

from tests.rounds.worlds import World, one_round
from tether.rounds import Controller


@pytest.fixture(autouse=True)
def logging_as_before():
    """Undo what `--verbose` of a command sets up for the rest of a process."""
    logger = logging.getLogger("tether")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def store(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(0)
    with Controller(world.safe(), alpha=0.3, store=tmp_path / "run.db") as made:
        for number in (1, 2):
            one_round(made, world, number, 150, rng)
        made.round.act(10, rng)
    return tmp_path / "run.db"


@pytest.fixture
def raise_alarm():
    """A function that observes so many large losses that the monitor raises an alarm."""

    def raise_alarm(store):
        world = World("marginal")
        policies = {"round 2": world.optimized(2)}
        with Controller(world.safe(), alpha=0.3, store=store, policies=policies) as made:
            taken = made.round.act(100, np.random.default_rng(1))
            made.observe(taken.ids, np.ones(100))

    return raise_alarm
