"""Results and warnings in words: descriptions, tables of columns, visible text."""

from __future__ import annotations

import math
import re
import sys
import textwrap
import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray


class TetherWarning(UserWarning):
    """Any warning of tether; filter by it to silence, or raise, all of them."""


class AssumptionWarning(TetherWarning):
    """What a promise assumes looks violated, such as rows that the safe policy did not draw."""


class PromiseWarning(TetherWarning):
    """No useful promise can be made, so the safe policy serves, or nothing is selected."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith("tether."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def counted(count: int | float, singular: str, plural: str | None = None) -> str:
    """Write a count with its noun.

    >>> counted(1, "item"), counted(1200, "item"), counted(0, "loss", "losses")
    ('1 item', '1,200 items', '0 losses')
    """
    noun = singular if count == 1 else plural or f"{singular}s"
    return f"{count:,} {noun}"


_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: C0, DEL and C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of writing direction
    "\u2028\u2029"  # separators of lines and paragraphs
    "\ud800-\udfff]"  # surrogates
)


def visible(text: str, kept: str = "") -> str:
    r"""Text with every character that could act escaped, line breaks included unless `kept`.

    >>> print(visible("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """

    def escaped(found: re.Match[str]) -> str:
        code = found[0].encode("unicode_escape", "surrogatepass").decode("ascii")
        return found[0] if found[0] in kept else code

    return _ACTING.sub(escaped, text)


MAX_PRINTED_ROWS = 20
"""A longer table is printed without its middle."""


class Columns(dict[str, NDArray[Any]]):
    """Columns by name: a dictionary of arrays, as every data-frame library accepts it.

    `pandas.DataFrame(columns)`, `polars.DataFrame(columns)` and `pyarrow.table(columns)` make a
    frame of it, and `columns["name"]` is an array. Printing it shows a table.

    Examples
    --------
    >>> Columns(alpha=np.array([0.1, 0.2]), beta=np.array([0.612345, np.inf]))
      alpha    beta
        0.1  0.6123
        0.2     inf
    """

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values()), ()))

    def cells(self) -> list[list[str]]:
        """The values as text, row by row, without the middle ones if there are many."""
        rows, half = range(self.row_count), MAX_PRINTED_ROWS // 2
        shown = rows if len(rows) <= MAX_PRINTED_ROWS else [*rows[:half], *rows[-half:]]
        return [[format_cell(values[row]) for values in self.values()] for row in shown]

    def __repr__(self) -> str:
        rows = [[visible(name) for name in self], *self.cells()]
        sides = ["<>"[np.asarray(values).dtype.kind in "iuf"] for values in self.values()]
        columns = zip(sides, zip(*rows, strict=True), strict=True)
        widths = [f"{side}{max(map(len, column))}" for side, column in columns]
        lines = [("  " + "  ".join(map(format, row, widths))).rstrip() for row in rows]
        left_out = self.row_count - (len(rows) - 1)
        if left_out:
            lines.insert(1 + MAX_PRINTED_ROWS // 2, f"  … {left_out:,} more rows …")
        return "\n".join(lines)


def format_cell(value: Any) -> str:
    """One value as text: four significant digits, and a dash where there is no value."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return visible(str(value))


DESCRIPTION_WIDTH = 79
"""The longest line of a printed description; only a table can be wider."""


@dataclass(frozen=True)
class Description:
    """What a result says of itself.

    `tone` is "good", "caution" or "stop": whether the result can be acted on. Each of the `facts`
    is a name and its text. The table, if any, has a `caption` of its own.
    """

    headline: str
    tone: str = "good"
    facts: tuple[tuple[str, str], ...] = ()
    caption: str = ""
    table: Columns | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """The description for a terminal: no control character of a name or note reaches it."""
        width = max((len(name) for name, _ in self.facts), default=0)
        lines = [_hanging("", self.headline, 2)]
        for name, value in self.facts:
            lines.append(_hanging(f"  {name:<{width}}  ", value, width + 4))
        if self.table is not None:
            lines += [""] if lines[1:] else []
            lines += [_hanging("  ", self.caption, 2)] if self.caption else []
            lines.append(str(self.table))
        lines += [_hanging("  ! ", warning, 4) for warning in self.warnings]
        lines += [_hanging("  ", note, 4) for note in self.notes]
        return visible("\n".join(lines), kept="\n\t")


class Described:
    """A result that prints as a summary, and shows the same as HTML in a notebook."""

    def _describe(self) -> Description:
        raise NotImplementedError

    def summary(self) -> str:
        """Describe the result in words: several lines for a terminal, as printing it shows."""
        return self._describe().text()

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tether.view.text import summary_card

        return summary_card(self._describe())


def _hanging(start: str, text: str, indent: int) -> str:
    return textwrap.fill(
        text,
        DESCRIPTION_WIDTH,
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def read_duration(name: str, value: str | float, wanted: str) -> timedelta:
    """The duration that a value says; `name` and `wanted` are for the error if it says none."""
    matched = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,15})?)([smhd]?)", str(value))
    if matched is None:
        raise ValueError(f"{name} must be {wanted}, got {value!r:.80}")
    unit = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}[matched[2]]
    return timedelta(seconds=float(matched[1]) * unit)
