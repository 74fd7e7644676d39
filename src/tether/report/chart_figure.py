"""A chart in the page: a drawing, a description in words, and its numbers in a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tether.report.html_elements import Markup, element

Drawing: TypeAlias = Callable[[str, float, float, str], Markup]
"""From a unique name, a width, a height and a text alternative to an `svg` element."""

DRAWING_SIZES = {
    "full": {"wide": (1080.0, 330.0), "narrow": (360.0, 290.0)},
    "half": {"wide": (530.0, 250.0), "narrow": (360.0, 240.0)},
}
"""Width and height in pixels of every drawing, by the share of the page's width that it takes."""


@dataclass(frozen=True)
class Chart:
    """What a figure consists of.

    `alternative` describes the chart to readers who do not see it. `tips` are the texts of the
    points that can be read with a pointer or the arrow keys, in order, and `rounds` are the rounds
    that these points select.
    """

    name: str
    title: str
    caption: str
    alternative: str
    draw: Drawing
    table: Markup
    size: str = "half"
    tips: Sequence[str] = ()
    rounds: Sequence[int] = ()

    def figure(self) -> Markup:
        """Build the `figure` element, with the numbers in a closed disclosure below the drawing."""
        drawings = [
            self.draw(f"{self.name}-{variant}", width, height, self.alternative)
            for variant, (width, height) in DRAWING_SIZES[self.size].items()
        ]
        plot = element(
            "div",
            drawings,
            class_="plot",
            data_title=self.title,
            data_tips=_compact_json(self.tips),
            data_rounds=_compact_json(self.rounds),
        )
        return element(
            "figure",
            element(
                "figcaption",
                element("h3", self.title, id=f"{self.name}-title"),
                element("p", self.caption),
            ),
            plot,
            _disclosure(self.title, self.table),
            class_=f"chart {self.size}",
            id=f"chart-{self.name}",
            aria_labelledby=f"{self.name}-title",
        )


def _disclosure(title: str, table: Markup) -> Markup:
    """A table that is shown on demand."""
    return element(
        "details",
        element(
            "summary",
            "Show the numbers",
            element("span", f" of “{title}”", class_="visually-hidden"),
        ),
        table,
        class_="numbers",
    )


def _compact_json(values: Sequence[str] | Sequence[int]) -> str | None:
    return json.dumps(list(values), separators=(",", ":"), ensure_ascii=False) if values else None
