"""Why the rows of the old system do not pass in expectation, in words."""

from __future__ import annotations

import math

from tether.release.arm_counts import ArmCounts
from tether.release.guardrail import Guardrail
from tether.release.least_rows import least_old_rows
from tether.release.old_rows_needed import most_old_losses


def too_many_losses(guardrail: Guardrail, old: ArmCounts) -> str:
    """Say what the old system's losses sum to, and what they may sum to.

    Parameters
    ----------
    guardrail : Guardrail
        The loss with its tolerance.
    old : ArmCounts
        The old system's rows, which do not pass.

    Returns
    -------
    str
        A clause.

    Examples
    --------
    >>> too_many_losses(Guardrail(promise=0.01), ArmCounts(1_000, 6.0))
    'with 1,000 rows its losses may sum to at most 4 for a promise of 0.01, and they sum to 6'
    >>> too_many_losses(Guardrail(promise=0.02), ArmCounts(150, 0.0))
    'a promise of 0.02 takes at least 157 rows even without any loss, and there are 150'
    """
    asked = "an alpha" if guardrail.promise is None else "a promise"
    target = f"{asked} of {guardrail.tolerated:.4g}"
    most, total = most_old_losses(guardrail, old.rows), old.worst_total(guardrail.bound)
    if most < 0:
        least = least_old_rows({"": guardrail})
        return (
            f"{target} takes at least {least:,} rows even without any loss, and there are "
            f"{old.rows:,}{old.missing_text(guardrail.bound)}"
        )
    counted = guardrail.bound == 1 and total == math.floor(total)  # failures, as a rule
    allowed = f"{math.floor(most):,}" if counted else f"{most:.4g}"
    found = f"{total:,.0f}" if counted else f"{total:.4g}"
    missing = f"{old.missing_text(guardrail.bound)}," if old.pending else ""
    return (
        f"with {old.rows:,} rows{missing} its losses may sum to at most {allowed} for {target}, "
        f"and they sum to {found}"
    )
