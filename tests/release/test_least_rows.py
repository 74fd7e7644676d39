"""The least number of rows of the old system, against a search through all numbers."""

import pytest

from tether.release import ArmCounts, Guardrail, ramp_share
from tether.release.least_rows import least_old_rows


def opens(guardrails, rows):
    """Whether the share is above 0 if every loss of the old system is 0."""
    old = {name: ArmCounts(rows, 0.0) for name in guardrails}
    new = {name: ArmCounts(0, 0.0) for name in guardrails}
    return ramp_share(guardrails, old=old, new=new).share > 0


@pytest.mark.parametrize(
    "guardrails",
    [
        {"x": Guardrail(0.02)},
        {"x": Guardrail(0.9)},
        {"x": Guardrail(0.1, bound=3.0)},
        {"x": Guardrail(promise=0.05)},
        {"x": Guardrail(promise=0.1), "y": Guardrail(promise=0.06, bound=2.0)},
    ],
)
def test_it_is_where_the_share_first_leaves_0(guardrails):
    least = least_old_rows(guardrails)
    assert not any(opens(guardrails, rows) for rows in range(least))
    assert all(opens(guardrails, rows) for rows in range(least, least + 20))
