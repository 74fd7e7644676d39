"""A plan of the old system's rows: how likely it is that they do not pass, by their number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tether._core.validate import number
from tether.release.guardrail import Guardrail
from tether.release.least_rows import least_old_rows
from tether.release.old_rows_needed import (
    EXPECTED_PART,
    enough_old_rows,
    most_old_losses,
    old_fails_probability,
)

PARTS_OF_ENOUGH = (0.125, 0.25, 0.5, 1, 1.5, 2)
"""The numbers of rows that are looked at, as parts of the number that is enough."""


@dataclass(frozen=True)
class PlannedRows:
    """A number of rows of the old system.

    Parameters
    ----------
    rows : int
        The number.
    most_losses : float
        What their losses may sum to so that the old system passes.
    fails : float
        How likely it is that the old system does not pass.
    """

    rows: int
    most_losses: float
    fails: float


@dataclass(frozen=True)
class FirstStepPlan:
    """How many rows of the old system a release should begin with.

    Parameters
    ----------
    guardrail : Guardrail
        The loss with its tolerance.
    risk : float
        The old system's risk that is planned with.
    least : int
        The number of rows below which not even losses of 0 pass.
    enough : int or None
        The number that passes with a probability of at least 0.95; None if it is not below ten
        million.
    planned : tuple of PlannedRows
        The probability for several numbers of rows.
    """

    guardrail: Guardrail
    risk: float
    least: int
    enough: int | None
    planned: tuple[PlannedRows, ...]


def plan_first_step(guardrail: Guardrail, risk: float | None = None) -> FirstStepPlan:
    """Plan the old system's rows: those of a log, or of a first step without one.

    Parameters
    ----------
    guardrail : Guardrail
        The loss with its tolerance.
    risk : float, optional
        The old system's risk; half of what is tolerated if it is left out.

    Returns
    -------
    FirstStepPlan
        The plan. Probabilities are those of losses that are 0 or the bound.

    Raises
    ------
    ValueError
        If the risk is not between 0 and the bound.

    Examples
    --------
    >>> plan = plan_first_step(Guardrail(promise=0.02), risk=0.01)
    >>> plan.least, plan.enough, [each.rows for each in plan.planned]
    (157, 1600, [157, 200, 400, 800, 1600, 2400, 3200])
    """
    if risk is None:
        risk = EXPECTED_PART * guardrail.tolerated
    number("risk", risk, above=0, below=guardrail.bound, including=(0,))
    least, enough = least_old_rows({"": guardrail}), enough_old_rows(guardrail, risk)
    sizes = [10 * least, 100 * least]
    if enough is not None:
        sizes = [math.ceil(part * enough) for part in PARTS_OF_ENOUGH]
    looked_at = sorted({least, *(each for each in sizes if each > least)})
    planned = tuple(_planned(guardrail, rows, risk) for rows in looked_at)
    return FirstStepPlan(guardrail, risk, least, enough, planned)


def _planned(guardrail: Guardrail, rows: int, risk: float) -> PlannedRows:
    most = most_old_losses(guardrail, rows)
    return PlannedRows(rows, most, old_fails_probability(guardrail, rows, risk))
