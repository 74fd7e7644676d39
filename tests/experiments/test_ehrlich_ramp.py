"""Aimed ramps of the Ehrlich experiment: what the loss model knows, and what training sees."""

import itertools

import numpy as np
import pytest
import torch
from experiments.ehrlich import ramp as ramps
from experiments.ehrlich.feasibility import Aimed, Neighbours
from experiments.ehrlich.free import FreeRun
from experiments.ehrlich.function import Ehrlich
from experiments.ehrlich.model import Shape, make_model
from experiments.ehrlich.policy import Language, Prompted
from experiments.ehrlich.ramp import RampRun
from experiments.ehrlich.start import Start

SETTINGS = {
    "first_sample": 120,
    "sample": 40,
    "ramp_steps": 4,
    "ramp_patience": 4,
    "ramp_calibration_share": 0.5,
    "aimed_draws": 3,
}


@pytest.fixture(scope="module")
def start():
    """A safe policy that has learned nothing, on the small function."""
    torch.manual_seed(0)
    language = Language(Ehrlich.load("Ehr(16,16)-2-4-4"))
    model = make_model(Shape(language.vocabulary, width=16, layers=1, heads=2), 0, "cpu").eval()
    seeds = np.tile(language.function.start, (2, 1))
    empty = np.empty((0, language.written), dtype=np.int64), np.empty(0)
    return Start(language, model, seeds, empty, {})


@pytest.fixture
def untrained(monkeypatch):
    """Improvements that change nothing, with what each was given."""
    given = []

    def improve(model, start, settings, past, last, rng):
        given.append((past, last))
        return Prompted(model, start.seeds, start.language), 0.0

    monkeypatch.setattr(ramps, "improve", improve)
    return given


def test_neighbours_are_those_of_feasible_sequences_alone(start):
    language, rng = start.language, np.random.default_rng(0)
    states, length = language.function.states, language.function.length
    sequences = rng.integers(states, size=(300, length))
    sequences[:20] = language.function.start
    actions = language.actions(sequences)
    model = Neighbours.learn(language, actions)
    feasible = language.function.feasible(sequences)
    assert 20 <= feasible.sum() < 300
    known = {pair for row in sequences[feasible] for pair in itertools.pairwise(row)}
    assert {tuple(pair) for pair in np.argwhere(model.seen)} == known
    unread = actions.copy()
    unread[:, -1] = 0
    expected = [sum(pair not in known for pair in itertools.pairwise(row)) for row in sequences]
    assert model.suspicion(actions).tolist() == expected
    assert (model.suspicion(unread) == length).all()


def test_an_aimed_policy_takes_the_first_of_the_least_suspicious_draws(start):
    policy = Prompted(start.model, start.seeds, start.language)
    training = policy.sample(200, np.random.default_rng(1))
    training[:5] = start.language.actions(start.seeds)[0]
    neighbours = Neighbours.learn(start.language, training)
    taken = Aimed(policy, neighbours, 3).sample(50, np.random.default_rng(2))
    drawn = policy.sample(150, np.random.default_rng(2)).reshape(50, 3, -1)
    for several, action in zip(drawn, taken, strict=True):
        suspicion = neighbours.suspicion(several).tolist()
        assert (several[suspicion.index(min(suspicion))] == action).all()


def test_optimizer_and_loss_model_see_training_rows_alone(start, untrained, monkeypatch):
    learned = []
    usual = Neighbours.learn.__func__
    monkeypatch.setattr(
        Neighbours,
        "learn",
        classmethod(lambda cls, *given: learned.append(given[1]) or usual(cls, *given)),
    )
    run = RampRun(start, SETTINGS, "aimed_ramp", 0.97, 0, aims=True)
    for _ in range(3):
        run.step()
    everything = run.run.training_rows().actions
    assert len(untrained) == len(learned) == sum("dpo_loss" in row for row in run.table)
    seen = 0
    for (past, last), rows in zip(untrained, learned, strict=True):
        assert (past == everything[: len(past)]).all()
        assert (rows == past).all()
        assert (last == past[seen:]).all()
        seen = len(past)
    assert len(everything) < 120 + 2 * 40


def test_a_policy_is_given_up_after_its_steps_and_dpo_starts_from_the_last_whole_share(
    start, untrained
):
    losing = RampRun(start, SETTINGS, "ramp", 0.05, 0, aims=False)
    for _ in range(3):
        losing.step()
    assert losing.model is start.model
    assert [row.get("share") for row in losing.table] == [None, 0.0, 0.0]  # nothing passes
    assert len(untrained) == 2


def test_without_control_the_policy_takes_every_action(start, monkeypatch, untrained):
    monkeypatch.setattr("experiments.ehrlich.free.improve", ramps.improve)
    run = FreeRun(start, SETTINGS, "aimed_ramp", 0, aims=True)
    for _ in range(3):
        run.step()
    assert [row.get("share") for row in run.table] == [None, 1.0, 1.0]
    assert [len(rows) for rows in run.training] == [60, 20, 20]
    assert [len(past) for past, _ in untrained] == [60, 80]
