import pytest

from tether.release import Guardrail


def test_exactly_one_target_is_named():
    for arguments in ({}, {"alpha": 0.1, "promise": 0.1}):
        with pytest.raises(ValueError, match="exactly one of alpha"):
            Guardrail(**arguments)


@pytest.mark.parametrize("name", ["alpha", "promise"])
def test_the_target_lies_between_0_and_the_bound(name):
    for value in (0.0, 2.0):
        with pytest.raises(ValueError, match=f"{name} must be above 0 and below 2"):
            Guardrail(**{name: value}, bound=2.0)
    with pytest.raises(ValueError, match="bound must be above 0"):
        Guardrail(0.1, bound=0.0)
