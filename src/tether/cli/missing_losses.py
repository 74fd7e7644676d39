"""`--missing worst_case`: losses that are missing in a file count as the largest possible one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer

from tether._core.types import Floats
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.cli.table_file import FileColumns

WORST_CASE = "worst_case"

MissingOption = Annotated[
    str | None,
    typer.Option(
        metavar=WORST_CASE,
        help="worst_case: count each missing loss as the largest possible one, the bound. "
        "(default: a missing loss is an error)",
    ),
]


def with_option(message: str) -> str:
    """An error about missing losses, with the option that counts them as the worst case."""
    advice = "count a missing loss as the largest possible one"
    if f"--missing {WORST_CASE}" in message:
        return message
    return message.replace(advice, f"{advice}, with --missing {WORST_CASE}")


def worst_cases(
    missing: str | None, losses: list[str], bound: float | Mapping[str, float]
) -> dict[str, float]:
    """What a missing loss of each column counts as; nothing where missing losses are errors."""
    if missing is None:
        return {}
    if missing != WORST_CASE:
        raise ValueError(
            f"--missing must be {WORST_CASE}, got {missing!r}: rows without a loss may be left out "
            f"only if the losses are missing at random, and before, in the file"
        )
    if isinstance(bound, Mapping):
        return {name: bound[name] for name in losses if name in bound}
    return dict.fromkeys(losses, bound)


def with_worst_cases(table: FileColumns, counted_as: Mapping[str, float]) -> FileColumns:
    """A table without missing losses, and a warning that says how many there were."""
    arrays = dict(table.arrays)
    for name in counted_as.keys() & arrays.keys():
        gaps = _gaps(arrays[name])
        if gaps is not None and gaps.any():
            arrays[name] = filled(arrays[name], counted_as[name])
            warn_user(
                f"{int(gaps.sum()):,} of {len(gaps):,} losses of {name!r} are missing and count "
                f"as {counted_as[name]:g}",
                AssumptionWarning,
            )
    return replace(table, arrays=arrays)


def filled(losses: Any, counted_as: float) -> Any:
    """Losses in which missing ones are replaced; words and other values stay as they are."""
    gaps = _gaps(losses)
    if gaps is None or not gaps.any():
        return losses
    found: Floats = np.where(gaps, counted_as, losses).astype(np.float64)
    return found


def _gaps(losses: Any) -> Any:
    """Where losses are missing; None if they are no numbers, which is told elsewhere."""
    array = np.asarray(losses)
    return np.isnan(array) if array.dtype.kind == "f" else None
