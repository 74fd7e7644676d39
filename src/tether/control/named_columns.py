"""Columns by name: where those of a log or of proposals are, in a frame or in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tether._core import frames
from tether._core.frames import ContextColumns, read_contexts
from tether._core.rows import Block, Rows
from tether.control.columns import (
    ACTION_TABLES,
    DRAW_COLUMNS,
    LOG_COLUMNS,
    SOURCES,
    check_draws,
    check_log,
    check_names,
    from_safe,
    ratios_of_draws,
)

SCANNED_COLUMNS = (*LOG_COLUMNS, "log_logged", "log_base_limit", "safe_draws", "optimized_draws")

Chosen = dict[str, str | Sequence[str]]
"""For each column that kernels know, where it is: a name, or several names of a table."""
Named = Mapping[str, str | Sequence[str] | None]  # what a user states about columns, by argument


def choose(
    known: Sequence[str], named: Named, accepted: Sequence[str], loss: str | Sequence[str] = ()
) -> Chosen:
    """Where each column is, of a frame or of files with the known names.

    A column `log_mix` is used if there is one, and so are tables called by the name of a table, or
    by that name and an underscore.
    """
    if odd := set(named) - set(accepted):
        raise TypeError(f"there is no argument {min(odd)!r}; columns are {', '.join(accepted)}")
    names = [loss] if isinstance(loss, str) else list(loss)
    if len(set(names)) < len(names) or ("reward" in accepted and not names):
        raise ValueError(f"loss must name at least one column, and none twice, got {loss!r}")
    columns: Chosen = {"loss/loss" if loss == name else f"loss/{name}": name for name in names}
    columns |= {"log_safe": "log_safe", "log_optimized": "log_optimized"}
    columns |= {
        name: name for name in ("log_mix", *ACTION_TABLES) if name in {*known} & {*accepted}
    }
    for name in {*ACTION_TABLES} & {*accepted} - {*columns}:
        if several := [each for each in known if each.startswith(f"{name}_")]:
            columns[name] = several
    columns |= {name: given for name, given in named.items() if given is not None}
    columns = {name: place for name, place in columns.items() if place or place == ""}
    needed = DRAW_COLUMNS[: 3 if "log_mix" in columns else 2]
    if ("safe_draws" in columns) != ("optimized_draws" in columns):
        raise ValueError("safe_draws and optimized_draws go together: give both")
    for policy in SOURCES if "safe_draws" in columns else ():
        drawn = columns[f"draws_{policy}"] = columns.pop(f"{policy}_draws")
        if isinstance(drawn, str) or len(drawn) != len(needed):
            raise ValueError(
                f"{policy}_draws must name {len(needed)} columns of lists, with "
                f"{', '.join(needed)} of the draws, got {drawn!r}"
            )
    check_names(columns)
    return columns


def used(columns: Chosen) -> set[str]:
    """The names that columns have where they are read."""
    several = ([name] if isinstance(name, str) else name for name in columns.values())
    return {each for names in several for each in names}


def read(frame: Any, columns: Chosen) -> dict[str, Any]:
    """The chosen columns of a frame."""
    return {
        name: frames.column(frame, name.partition("/")[0], column)
        if isinstance(column, str)
        else np.column_stack([frames.column(frame, name, each) for each in column])
        for name, column in columns.items()
    }


def has_contexts(
    context: ContextColumns, known: Sequence[str], columns: Chosen, *, stated: bool = False
) -> bool:
    """Whether rows have contexts, before any are read; an error if `context` must be given."""
    nothing = {name: np.zeros(1, dtype=np.int64) for name in known}
    return read_contexts(nothing, context, used(columns), has_tables=stated) is not None


def scan_log(
    source: Any,
    where: Any,
    context: ContextColumns,
    safe_share: float | None,
    max_ratio: float | None,
    named: Named,
    loss: str | Sequence[str],
) -> tuple[Rows, bool]:
    """The rows of a log that is read in parts, and whether it has contexts."""
    from tether.scan import open_rows

    found: list[bool] = []

    def columns(known: list[str]) -> Chosen:
        chosen = choose(known, named, SCANNED_COLUMNS, loss)
        listed = "log_safe_all" in chosen or "draws_safe" in chosen
        found.append(has_contexts(context, known, chosen, stated=listed) or listed)
        return chosen

    check = partial(check_log, safe_share=safe_share, max_ratio=max_ratio)
    return open_rows(source, columns, where, derive=_with_ratios, check=check), found[0]


def _with_ratios(block: Block) -> Block:
    """The block with log ratios of stored draws, and their log bases, in place of their scores."""
    found = dict(block)
    for policy in SOURCES:
        if (scores := block.get(f"draws_{policy}")) is None:
            continue
        safe, optimized, *mix = np.split(scores, 3 if "log_mix" in block else 2, axis=1)
        found[f"draws_{policy}"], *base = ratios_of_draws(safe, optimized, *mix)
        found |= {f"base_{policy}": each for each in base}
    return found


def scan_draws(
    source: Any, where: Any, context: ContextColumns, drawn_by: str | None, named: Named
) -> Rows:
    """The rows of proposals that are read in parts."""
    from tether.scan import open_rows

    stated: list[str] = []

    def columns(known: list[str]) -> Chosen:
        chosen = choose(known, named, DRAW_COLUMNS)
        if drawn_by is not None and (drawn_by in known or drawn_by not in SOURCES):
            chosen["from_safe"] = drawn_by
        elif drawn_by is None and "source" in known:
            chosen["from_safe"] = "source"
        else:
            stated.append(drawn_by or "optimized")
        if has_contexts(context, known, chosen):
            raise ValueError(
                "context: proposals with contexts cannot be read in parts; store the draws of each "
                "row's context beside it (Log.scan, safe_draws and optimized_draws)"
            )
        return chosen

    def derive(block: Block) -> Block:
        drawn: Any = stated[0] if stated else block["from_safe"]
        return {**block, "from_safe": from_safe(drawn, len(block["log_safe"]))}

    return open_rows(source, columns, where, derive=derive, check=check_draws)
