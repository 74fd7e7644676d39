"""A chart of the page: a drawing, what it says in words, and its numbers in a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tether.report.markup import Markup, element, join

Drawing = Callable[[str, float, float, str], Markup]
"""From a unique name, a width, a height and a text alternative to an `svg` element."""

SIZES = {
    "broad": {"wide": (1080.0, 330.0), "narrow": (360.0, 290.0)},
    "half": {"wide": (530.0, 250.0), "narrow": (360.0, 240.0)},
    "third": {"only": (352.0, 290.0)},
}


@dataclass(frozen=True)
class Chart:
    """What a figure needs; `tips` say what each point that can be pointed at is, in order."""

    name: str
    title: str
    caption: Any
    alternative: str
    """What the chart shows, for a reader who does not see it."""
    draw: Drawing
    table: Markup
    size: str = "half"
    tips: Sequence[str] = ()
    rounds: Sequence[int] = ()
    """The round of each tip, where choosing a point should choose its round."""

    def figure(self) -> Markup:
        """The chart as a `figure` element, its numbers folded away below."""
        drawings = [
            self.draw(f"{self.name}-{width}", *size, self.alternative)
            for width, size in SIZES[self.size].items()
        ]
        plot = element(
            "div",
            drawings,
            class_="plot",
            data_title=self.title,
            data_tips=_compact(self.tips),
            data_rounds=_compact(self.rounds),
        )
        return element(
            "figure",
            element(
                "figcaption",
                element("h3", self.title, id=f"{self.name}-title"),
                element("p", self.caption),
            ),
            plot,
            numbers(self.title, self.table),
            class_=f"chart {self.size}",
            id=f"chart-{self.name}",
            aria_labelledby=f"{self.name}-title",
        )


def numbers(title: str, content: Markup) -> Markup:
    """A table, or a few of them, behind a word."""
    return element(
        "details",
        element(
            "summary",
            "The numbers",
            element("span", f" behind “{title}”", class_="unseen"),
        ),
        content,
        class_="numbers",
    )


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Markup:
    """A table whose first column names the rows; it scrolls by itself, also by keyboard."""
    head = element("tr", [element("th", name, scope="col") for name in columns])
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            [element("td", each) for each in rest],
        )
        for first, *rest in rows
    ]
    inner = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head),
        element("tbody", join(*body)),
    )
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _compact(values: Sequence[Any]) -> str | None:
    return json.dumps(list(values), separators=(",", ":"), ensure_ascii=False) if values else None
