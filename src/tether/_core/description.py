"""A result in words, once for all places that show it: a terminal, a notebook."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from tether._core.columns import Columns
from tether._core.visible_text import visible_lines

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
        return visible_lines("\n".join(lines))


class Described:
    """A result that prints as a summary, and shows the same as HTML in a notebook."""

    def _describe(self) -> Description:
        raise NotImplementedError

    def summary(self) -> str:
        """Describe the result in words.

        Returns
        -------
        str
            Several lines for a terminal; what printing the result shows.
        """
        return self._describe().text()

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tether.report.summary_card import summary_card

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
