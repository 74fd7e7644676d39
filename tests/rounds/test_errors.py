"""Errors of a run can be caught as the standard errors that they are."""

import pytest

from tether import rounds


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("StoreError", OSError),
        ("RoundTakenError", RuntimeError),
        ("RoundOverError", RuntimeError),
        ("LossesMissingError", RuntimeError),
    ],
)
def test_errors_have_a_standard_base(name, base):
    assert issubclass(getattr(rounds, name), base)
