"""Rows that are in a log twice are told; rows that are equal by chance are not."""

import warnings

import numpy as np
import pytest

import tether
from tether.control.repeated_rows import implausible_copies


def continuous(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    action = rng.normal(size=rows)
    return {
        "loss": (action > 1.5).astype(float),
        "log_safe": -(action**2) / 2 - 1,
        "log_optimized": -((action - 1) ** 2) / 2 - 1,
        "context": np.arange(rows),
    }


def discrete(rows=2000, seed=0, contexts=40):
    rng = np.random.default_rng(seed)
    context, action = rng.integers(contexts, size=rows), rng.integers(3, size=rows)
    optimized = np.random.default_rng(1).dirichlet(np.ones(3), size=contexts)
    return {
        "loss": (rng.random(rows) < 0.2).astype(float),
        "log_safe": np.full(rows, -np.log(3)),
        "log_optimized": np.log(optimized[context, action]),
        "context": context,
    }


def with_copies(columns, rows):
    return {name: np.concatenate([column, column[rows]]) for name, column in columns.items()}


def messages(columns, context="context"):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tether.Log.from_frame(columns, context=context)
    return [str(each.message) for each in told]


@pytest.mark.parametrize("context", ["context", None])
def test_a_log_joined_to_itself_is_told_with_the_first_copy(context):
    columns = continuous()
    assert messages(columns, context) == []
    (message,) = messages(with_copies(columns, slice(None)), context)
    assert message.startswith("600 of 600 rows are in the log more than once")
    assert "row 300 equals row 0" in message


def test_files_that_overlap_are_told():
    columns = with_copies(continuous(2000), slice(0, 400))
    (message,) = messages(columns)
    assert message.startswith("800 of 2,400 rows")
    assert "row 2000 equals row 0" in message


def test_make_log_tells_them():
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.0)
    actions = np.tile(safe.sample(200, rng), 2)
    with pytest.warns(tether.AssumptionWarning, match="row 200 equals row 0") as told:
        tether.make_log(safe, optimized, None, actions, actions > 1.5)
    assert told[0].filename == __file__


@pytest.mark.parametrize("seed", range(10))
def test_few_contexts_and_actions_are_equal_by_chance(seed):
    assert messages(discrete(seed=seed)) == []
    assert messages(discrete(seed=seed, contexts=1500)) == []


def test_contexts_that_come_back_by_design_are_not_told():
    one, two = discrete(600, seed=2, contexts=1000), discrete(600, seed=3, contexts=1000)
    for each in (one, two):
        each["context"] = np.arange(600)
        each["log_optimized"] = -1 - np.arange(600) / 1e3
    both = {name: np.concatenate([one[name], two[name]]) for name in one}
    assert implausible_copies(np.unique(both["log_optimized"], return_counts=True)[1])
    assert messages(both) == []


def values(seed):
    """Independent values of several distributions, with ties."""
    rng = np.random.default_rng(seed)
    for rows in (30, 300, 3000):
        yield rng.integers(0, rng.integers(1, 5 * rows), rows)
        yield rng.zipf(1.2, rows)
        yield rng.geometric(0.01, rows)
        yield np.where(rng.random(rows) < 0.1, 1.0, rng.random(rows))
        yield rng.normal(size=rows).round(2)


def test_independent_values_of_any_distribution_are_never_called_copies_and_copies_are():
    for seed in range(60):
        for value in values(seed):
            assert not implausible_copies(np.unique(value, return_counts=True)[1])
    for value in (np.random.default_rng(0).random(100), np.arange(60)):
        for copies in (2, 3, 5):
            assert implausible_copies(np.full(len(value), copies))
