"""Calls to policies: what they return is checked, and errors name the policy."""

import numpy as np
import pytest

import tether
from tether._core import policy_calls as calls
from tether.sampling import PolicyPair

RNG = np.random.default_rng(0)


def policy(sample=None, log_prob=None):
    return tether.FunctionPolicy(
        sample=sample or (lambda n, rng: rng.random(n)),
        log_prob=log_prob or (lambda n, actions: np.zeros(len(actions))),
    )


class Table:
    actions = np.arange(2)

    def __init__(self, table):
        self.table = table

    def log_prob_all(self, contexts):
        if self.table is None:
            raise ValueError("Input X contains NaN.")
        return np.log(self.table)


NEVER = policy(log_prob=lambda n, actions: np.array([0.0, -np.inf]))
SHORT = policy(lambda n, rng: np.zeros(2))
HALF = [0.5, 0.5]
PAIR = PolicyPair(NEVER, NEVER)
MINUS = np.array([[0.0, -np.inf, -np.inf]])
WRONG = [
    (lambda: calls.draw("safe", SHORT, 3, RNG), r"safe policy's sample returned shape \(2,\)"),
    (lambda: calls.score("old", NEVER, 3, np.zeros(3)), "old policy's log_prob has 2 rows but its"),
    (lambda: calls.score("a", NEVER, 2, np.zeros(2), drew=True), r"\[1\] is -inf: expected"),
    (lambda: calls.table("a", Table([HALF] * 2), 3), r"expected \(3, 2\): one row per context"),
    (lambda: calls.table("a", Table([HALF, [0.5, 0.4]]), 2), r"sum\[1\] is 0\.9: expected prob"),
    (lambda: calls.table("a", Table(None), 3), "the a policy's .* on 3 contexts: Input X contains"),
    (lambda: PAIR.check(MINUS, np.zeros((1, 3))), r"\[\(0, 1\)\] is -inf: .* \(2 "),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_a_wrong_answer_names_the_policy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("error", "expected"),
    [*((each("x"), RuntimeError) for each in (RuntimeError, OSError)), (KeyError("x"), ValueError)],
)
def test_errors_of_a_policy_name_it_and_say_whether_it_is_unavailable(error, expected):
    def fail(n, rng):
        raise error

    with pytest.raises(expected, match=r"the safe policy's sample failed on 3 context") as raised:
        calls.draw("safe", policy(sample=fail), 3, RNG)
    assert type(raised.value) is expected
    assert raised.value.__cause__ is error
