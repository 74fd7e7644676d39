"""Columns by name: where those of a log or of proposals are, in a frame or in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tether._core import frames
from tether._core.rows import Block
from tether.control.columns import (
    ACTION_TABLES,
    DRAW_COLUMNS,
    LOG_COLUMNS,
    SOURCES,
    check_names,
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
    for name in ("log_mix", *(each for each in ACTION_TABLES if each in accepted)):
        several = [each for each in known if each.startswith(f"{name}_")]
        if name in known:
            columns[name] = name
        elif several and name != "log_mix":
            columns[name] = several
    columns |= {name: given for name, given in named.items() if given is not None}
    columns = {name: place for name, place in columns.items() if place or place == ""}
    check_names(columns)
    needed = DRAW_COLUMNS[: 3 if "log_mix" in columns else 2]
    for policy in SOURCES if "safe_draws" in columns else ():
        drawn = columns[f"draws_{policy}"] = columns.pop(f"{policy}_draws")
        if isinstance(drawn, str) or len(drawn) != len(needed):
            raise ValueError(
                f"{policy}_draws must name {len(needed)} columns of lists, with "
                f"{', '.join(needed)} of the draws, got {drawn!r}"
            )
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


def who_drew(known: Sequence[str], stated: str | None) -> tuple[str, bool]:
    """Who made the draws: the column that says it, or the policy that made all; and which it is."""
    if stated is None:
        return ("source", True) if "source" in known else ("optimized", False)
    return stated, stated in known or stated not in SOURCES


def with_ratios(block: Block) -> Block:
    """The block with log ratios of stored draws, and their log bases, in place of their scores."""
    found = dict(block)
    for policy in SOURCES:
        if (scores := block.get(f"draws_{policy}")) is None:
            continue
        safe, optimized, *mix = np.split(scores, 3 if "log_mix" in block else 2, axis=1)
        found[f"draws_{policy}"], *base = ratios_of_draws(safe, optimized, *mix)
        found |= {f"base_{policy}": each for each in base}
    return found
