"""The tables of all actions: distributions, of the same actions, that hold the actions taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Booleans, Floats

if TYPE_CHECKING:
    from tether.control.log_overview import LogOverview

SAME_ACTION_TOLERANCE = 1e-4
"""How far the scores of a row may be from those of its action in the tables."""


def read_table(name: str, table: ArrayLike | None, rows: int) -> Floats | None:
    """A table with one row per action taken and one column per action, if there is one."""
    if table is None:
        return None
    checked = validate.log_probabilities(name, table, ndim=2, zero=True)
    validate.same_length(name, checked, "log_safe", rows)
    return checked


def check_tables(log: LogOverview) -> None:
    """Refuse tables that contradict each other, or the rows."""
    if (log.log_safe_all is None) != (log.log_optimized_all is None):
        lacking = "log_safe_all" if log.log_safe_all is None else "log_optimized_all"
        raise ValueError(f"{lacking} is missing: give the tables of both policies, or neither")
    if log.log_safe_all is None or log.log_optimized_all is None:
        if log.log_mix_all is not None:
            raise ValueError("log_mix_all needs log_safe_all and log_optimized_all as well")
        return
    if (log.log_mix_all is None) != (log.log_mix is None):
        present, lacking = ("log_mix", "log_mix_all")
        if log.log_mix is None:
            present, lacking = lacking, present
        raise ValueError(
            f"{present} is given but {lacking} is not: with tables the mixture must be known "
            f"at every action, not only at the actions taken"
        )
    tables = {"log_safe_all": log.log_safe_all, "log_optimized_all": log.log_optimized_all}
    if log.log_mix_all is not None:
        tables["log_mix_all"] = log.log_mix_all
    for name, table in tables.items():
        if table.shape != log.log_safe_all.shape:
            raise ValueError(
                f"{name} has shape {table.shape} but log_safe_all {log.log_safe_all.shape}"
            )
        total = np.exp(table).sum(axis=1)
        off = np.abs(total - 1) > validate.TABLE_SUM_TOLERANCE
        if off.any():
            row = int(np.argmax(off))
            hint = "it must list every action"
            if abs(table[row].sum() - 1) <= validate.TABLE_SUM_TOLERANCE:
                hint = "its values look like probabilities: take their logarithm"
            raise ValueError(
                f"{name}[{row}] has probabilities that sum to {total[row]:.6g}, not to 1; {hint}"
            )
    matches = _close(log.log_safe_all, log.log_safe)
    matches &= _close(log.log_optimized_all, log.log_optimized)
    if log.log_mix is not None and log.log_mix_all is not None:
        matches &= _close(log.log_mix_all, log.log_mix)
    absent = ~matches.any(axis=1)
    if absent.any():
        row = int(np.argmax(absent))
        raise ValueError(
            f"row {row} took an action with log_safe {log.log_safe[row]:g} and log_optimized "
            f"{log.log_optimized[row]:g}: no action of its tables has these and its log_mix"
        )


def _close(table: Floats, column: Floats) -> Booleans:
    """Where the entries of a table are those of its rows; −inf equals −inf."""
    tolerance = SAME_ACTION_TOLERANCE
    return np.isclose(table, column[:, None], rtol=tolerance, atol=tolerance)
