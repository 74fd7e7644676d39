"""The circuit breaker, against the definition written as a loop over all that happened."""

from hypothesis import given
from hypothesis import strategies as st

from tether.service.gateway.circuit_breaker import CircuitBreaker

EVENTS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["ok", "fail", "left"])))


@given(EVENTS, st.integers(1, 3))
def test_after_failures_in_a_row_one_request_tries_after_each_pause(events, failures):
    now, pause = 0, 5
    breaker = CircuitBreaker(failures, pause, clock=lambda: now)
    in_a_row, last = 0, None  # when it was last asked, as far as it matters
    for wait, result in events:
        now += wait
        is_open = in_a_row >= failures
        assert breaker.is_open == is_open
        expected = not is_open or now >= last + pause
        assert breaker.allows() == expected
        if not expected:
            continue
        last = now
        if result == "ok":
            breaker.succeeded()
            in_a_row = 0
        elif result == "fail":
            breaker.failed()
            in_a_row += 1


def test_many_failures_at_once_open_it_once_and_a_late_success_closes_it():
    now = 0.0
    breaker = CircuitBreaker(2, 10.0, clock=lambda: now)
    assert all(breaker.allows() for _ in range(5))
    for _ in range(5):
        breaker.failed()
    assert not breaker.allows()
    now = 10.0
    assert [breaker.allows(), breaker.allows()] == [True, False]
    breaker.succeeded()
    assert breaker.allows()
