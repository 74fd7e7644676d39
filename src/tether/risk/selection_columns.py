"""The risk curves of a selection as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether._core.columns import Columns

if TYPE_CHECKING:
    from tether.risk.selection import Selection


def selection_columns(selection: Selection) -> Columns:
    """Thresholds, risks and shares kept; the curves of several losses or groups in order."""
    if selection.groups:
        return _below("group", list(selection.groups), list(selection.groups.values()))
    if selection.by_loss:
        names = [part.loss for part in selection.by_loss]
        return _below("loss", names, list(selection.by_loss))
    kept = selection.curve_kept
    if not len(kept):
        kept = np.full(len(selection.curve_risks), np.nan)
    return Columns(threshold=selection.curve_thresholds, risk=selection.curve_risks, kept=kept)


def _below(heading: str, names: list[str], parts: list[Selection]) -> Columns:
    """The tables of the parts, one below the other, with a column that names them."""
    tables = [selection_columns(part) for part in parts]
    inner = {name: None for table in tables for name in table}
    named = np.repeat(np.array(names, dtype=np.str_), [table.row_count for table in tables])
    return Columns(
        {heading: named}
        | {name: np.concatenate([table[name] for table in tables]) for name in inner}
    )
