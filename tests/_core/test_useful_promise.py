"""When a promise says something."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether._core.promises import is_useful


@pytest.mark.parametrize(
    ("promise", "tolerated", "bound", "useful"),
    [
        (0.1, 0.1, 1.0, True),
        (0.2, 0.1, 1.0, True),
        (0.1 + 0.1 + 1e-17, 0.1, 1.0, True),  # a tie up to rounding
        (0.2001, 0.1, 1.0, False),
        (1.0, 0.02, 1.0, False),
        (0.97, 0.6, 1.0, True),
        (0.99, 0.6, 1.0, False),
        (0.97, 0.97, 1.0, True),  # what was tolerated was kept, though it is not much to ask
        (float("inf"), 0.1, 1.0, False),
        (float("nan"), 0.1, 1.0, False),
        (0.9, 0.5, 5.0, True),
        (1.1, 0.5, 5.0, False),
    ],
)
def test_useful_is_at_most_twice_what_is_tolerated_and_clear_of_the_bound(
    promise, tolerated, bound, useful
):
    assert is_useful(promise, tolerated, bound) is useful


@given(st.floats(0.001, 0.999), st.floats(0.1, 100))
def test_what_is_tolerated_itself_is_useful_and_the_bound_is_not(share, bound):
    assert is_useful(share * bound, share * bound, bound)
    assert not is_useful(bound, share * bound, bound)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.999))
def test_a_smaller_promise_is_never_less_useful(first, second, tolerated):
    lower, higher = sorted([first, second])
    assert is_useful(lower, tolerated, 1.0) >= is_useful(higher, tolerated, 1.0)
