"""Copies among rows of contexts that come back are told; actions that are drawn anew are not."""

import warnings

import numpy as np
import pytest

import tether
from tether.control.refuted_log import REFUTED_WORDS


def decisions(contexts, seed, probability=(0.5, 0.25, 0.25)):
    rng = np.random.default_rng(seed)
    actions = rng.choice(3, size=len(contexts), p=probability)
    return contexts, actions, rng.random(len(contexts)) < 0.03


def copied(table, rows):
    return tuple(np.concatenate([column, column[rows]]) for column in table)


def told(table, probability=(0.5, 0.25, 0.25)):
    """What is said of a model that always takes the best action by its prediction."""
    contexts, actions, losses = table
    best = tether.Categorical.from_probabilities(lambda x: np.eye(3)[x % 3], actions=range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = tether.make_log(
            None,
            best,
            contexts,
            actions,
            losses,
            propensities=np.array(probability)[actions],
            min_propensity=min(probability),
        )
    return [each for each in log.warnings if "more than once" in each]


@pytest.mark.parametrize("share", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("returning", [False, True])
def test_copies_are_told_for_a_model_that_takes_one_action(share, returning):
    rows = 3000
    rng = np.random.default_rng(0)
    contexts = rng.integers(20 * rows, size=rows) if returning else np.arange(rows)
    table = decisions(contexts, 1)
    assert told(table) == []
    (message,) = told(copied(table, rng.permutation(rows)[: int(share * rows)]))
    assert "far more than by chance" in message


def designs(rows, rng):
    """Contexts that come as they like, by chance and by design."""
    yield rng.integers(5, size=rows)
    yield rng.integers(rows, size=rows)
    yield rng.zipf(1.3, rows) % 10**6
    yield np.tile(np.arange(rows // 2), 2)
    yield np.repeat(np.arange(rows // 3), 3)
    yield np.r_[np.arange(rows - rows // 3), np.arange(rows // 3)]


@pytest.mark.parametrize("probability", [(0.5, 0.25, 0.25), (0.9, 0.05, 0.05)])
def test_actions_drawn_anew_in_contexts_that_come_back_are_not_told(probability):
    for seed in range(15):
        for rows in (60, 900):
            for contexts in designs(rows, np.random.default_rng(seed)):
                assert told(decisions(contexts, seed, probability), probability) == []


def test_contexts_that_keep_their_action_are_told_as_a_possible_cause():
    contexts, actions, losses = decisions(np.arange(500), 0)
    anew = np.random.default_rng(1).random(500) < 0.3
    both = (np.tile(contexts, 2), np.tile(actions, 2), np.r_[losses, anew])
    (message,) = told(both)
    assert "does a context that comes back keep its action" in message


@pytest.mark.parametrize("default", [0.98, 0.999])
@pytest.mark.parametrize("visits", [2, 5])
def test_users_that_come_as_often_and_nearly_always_get_the_same_are_not_copies(default, visits):
    """Rows of a user are then mostly equal, and removing them would leave the losses."""
    probability = (default, (1 - default) / 2, (1 - default) / 2)
    for seed in range(5):
        table = decisions(np.repeat(np.arange(800), visits), seed, probability)
        assert told(table, probability) == []
        assert said_of_scores(table, probability) == []


@pytest.mark.parametrize("default", [0.98, 0.999])
def test_copies_of_users_that_nearly_always_get_the_same_are_told(default):
    probability = (default, (1 - default) / 2, (1 - default) / 2)
    table = copied(decisions(np.arange(800), 0, probability), slice(None))
    for messages in (told(table, probability), said_of_scores(table, probability)):
        (message,) = messages
        assert message.startswith(f"{REFUTED_WORDS}: 1,600 of 1,600 rows")


def said_of_scores(table, probability):
    """What is said of the same log where only scores are known."""
    contexts, actions, losses = table
    log_safe = np.log(np.array(probability)[actions])
    columns = {"loss": losses.astype(float), "log_safe": log_safe, "context": contexts}
    columns["log_optimized"] = np.log([0.1, 0.2, 0.7])[actions]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(tether.Log.from_frame(columns, context="context").warnings)
