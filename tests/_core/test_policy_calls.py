"""Calls to policies: what they return is checked, and errors name the policy."""

import numpy as np
import pytest

import tether
from tether._core import policy_calls

RNG = np.random.default_rng(0)


def policy(sample=None, log_prob=None):
    return tether.FunctionPolicy(
        sample=sample or (lambda n, rng: rng.random(n)),
        log_prob=log_prob or (lambda n, actions: np.zeros(len(actions))),
    )


def test_answers_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"the safe policy's sample returned shape \(2,\) for 3"):
        policy_calls.draw("safe", policy(sample=lambda n, rng: np.zeros(2)), 3, RNG)
    short = policy(log_prob=lambda n, actions: np.zeros(2))
    with pytest.raises(ValueError, match="the old policy's log_prob has 2 rows but its actions ha"):
        policy_calls.score("old", short, 3, np.zeros(3))


def test_a_drawn_action_cannot_be_impossible():
    never = policy(log_prob=lambda n, actions: np.array([0.0, -np.inf]))
    assert policy_calls.score("safe", never, 2, np.zeros(2))[1] == -np.inf
    drew = np.array([True, False])
    assert policy_calls.score("safe", never, 2, np.zeros(2), drew=drew)[1] == -np.inf
    with pytest.raises(ValueError, match=r"log_prob\[1\] is -inf: expected a finite log-prob"):
        policy_calls.score("safe", never, 2, np.zeros(2), drew=True)


class Shared:
    """Two policies on the same weights, scored in one call."""

    calls = 0

    def sample(self, contexts, rng):
        return np.zeros(contexts)

    def log_prob(self, contexts, actions):
        raise AssertionError("scored one by one")

    def shares_weights(self, other):
        return isinstance(other, Shared)

    def log_prob_both(self, other, contexts, actions):
        self.calls += 1
        return np.zeros(len(actions)), np.full(len(actions), -1.0)


def test_policies_that_share_their_weights_are_scored_in_one_call():
    safe, optimized = Shared(), Shared()
    scores = policy_calls.score_both(safe, optimized, 2, np.zeros(2))
    assert [values.tolist() for values in scores] == [[0, 0], [-1, -1]]
    assert (safe.calls, optimized.calls) == (1, 0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("too long"), ValueError),
        (KeyError("x"), ValueError),
        (NotImplementedError("x"), ValueError),
        (RuntimeError("out of memory"), RuntimeError),
        (ConnectionError("lost"), RuntimeError),
        (MemoryError(), RuntimeError),
    ],
)
def test_errors_of_a_policy_name_it_and_say_whether_it_is_unavailable(error, expected):
    def fail(n, rng):
        raise error

    with pytest.raises(expected, match=r"the safe policy's sample failed on 3 context") as raised:
        policy_calls.draw("safe", policy(sample=fail), 3, RNG)
    assert type(raised.value) is expected
    assert raised.value.__cause__ is error


class Table:
    actions = np.arange(2)

    def __init__(self, table):
        self.table = table

    def log_prob_all(self, contexts):
        return np.log(self.table)


def test_tables_are_complete():
    assert policy_calls.table("safe", Table([[0.5, 0.5]]), 3).shape == (1, 2)
    with pytest.raises(ValueError, match=r"expected \(3, 2\): one row per context, one column per"):
        policy_calls.table("safe", Table([[0.5, 0.5]] * 2), 3)
    with pytest.raises(
        ValueError, match=r"sum to 0\.9 in row 1, not to 1 \(1 such row\(s\) in 2\)"
    ):
        policy_calls.table("safe", Table([[0.5, 0.5], [0.5, 0.4]]), 2)


def test_absolute_continuity():
    safe = np.array([0.0, -np.inf, -np.inf])
    policy_calls.check_absolute_continuity(safe, np.array([0.0, -np.inf, -np.inf]))
    policy_calls.check_absolute_continuity(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"policy's log_prob is -inf at 2 \(1 of 3\)"):
        policy_calls.check_absolute_continuity(safe, np.array([0.0, -np.inf, 0.0]))
    with pytest.raises(ValueError, match=r"policy's log_prob is -inf at \(0, 1\) \(2 of 3\)"):
        policy_calls.check_absolute_continuity(safe[None], np.zeros((1, 3)))


def test_missing_values_in_contexts_are_counted_where_a_policy_fails():
    class Refusing:
        actions = ("a", "b")

        def log_prob_all(self, contexts):
            raise ValueError("Input X contains NaN.")

    contexts = np.array([[1.0], [np.nan], [np.nan]])
    with pytest.raises(ValueError, match=r"3 contexts, of which 2 have a missing value .*row 1\)"):
        policy_calls.table("safe", Refusing(), contexts)
    with pytest.raises(ValueError, match="failed on 1 context: Input X"):
        policy_calls.table("safe", Refusing(), np.array([[1.0]]))
