"""A result in a notebook: what printing it says, as HTML that needs nothing else.

There is no script, no style sheet and no address in it. Colors are those of the notebook, light or
dark; a bar on the left repeats in color what the words say.
"""

from __future__ import annotations

from tether._core.words import MAX_PRINTED_ROWS, Columns, Description
from tether.report.html_elements import Content, Markup, element

TONE_COLORS = {"good": "#12856f", "caution": "#b7791f", "stop": "#c8372d"}
"""The bar on the left: each of them has a contrast of at least 3 to white and to black."""
CARD_STYLE = "padding:.1em 0 .1em .9em;max-width:64em;line-height:1.45;text-align:left"
TABLE_STYLE = "border-collapse:collapse;margin:.4em 0;border:0"
NAME_STYLE = (
    "text-align:left;vertical-align:top;font-weight:normal;opacity:.75;padding:.1em 1em 0 0;"
    "white-space:nowrap"
)
VALUE_STYLE = "text-align:left;vertical-align:top;padding:.1em 0;white-space:normal"
NUMBER_STYLE = "text-align:right;padding:.1em 1em .1em 0;font-variant-numeric:tabular-nums"
CAPTION_STYLE = "text-align:left;padding:0;opacity:.75;white-space:nowrap"
TEXT_STYLE = "text-align:left;padding:.1em 1em .1em 0"


def summary_card(description: Description) -> Markup:
    """Build the element that a notebook shows; all text in it is escaped."""
    color = TONE_COLORS[description.tone]
    facts = [
        element(
            "tr",
            element("th", name, scope="row", style=NAME_STYLE),
            element("td", value, style=VALUE_STYLE),
        )
        for name, value in description.facts
    ]
    return element(
        "div",
        element(
            "p", element("strong", description.headline), style="margin:.2em 0;font-size:1.05em"
        ),
        element("table", element("tbody", facts), style=TABLE_STYLE) if facts else None,
        _table(description.table, description.caption),
        _warnings(description.warnings),
        [element("p", note, style="margin:.3em 0;opacity:.75") for note in description.notes],
        style=f"border-left:4px solid {color};{CARD_STYLE}",
    )


def _warnings(warnings: tuple[str, ...]) -> Markup | None:
    if not warnings:
        return None
    items: list[Content] = [
        element("li", element("strong", "Warning: "), warning) for warning in warnings
    ]
    return element("ul", items, style="margin:.3em 0;padding-left:1.2em")


def _table(table: Columns | None, caption: str) -> Markup | None:
    """Build the table; of a long one the rows in the middle are left out, and it says so."""
    if table is None:
        return None
    styles = [
        NUMBER_STYLE if values.dtype.kind in "iuf" else TEXT_STYLE for values in table.values()
    ]
    head = [
        element("th", name, scope="col", style=style)
        for name, style in zip(table, styles, strict=True)
    ]
    body = [
        element("tr", [element("td", text, style=s) for text, s in zip(row, styles, strict=True)])
        for row in table.cells()
    ]
    left_out = table.row_count - len(body)
    if left_out:
        text = f"… {left_out:,} more rows …"
        cell = element("td", text, colspan=len(styles), style=f"{TEXT_STYLE};opacity:.75")
        body.insert(MAX_PRINTED_ROWS // 2, element("tr", cell))
    shown = element(
        "table",
        element("caption", caption, style=CAPTION_STYLE) if caption else None,
        element("thead", element("tr", head)),
        element("tbody", body),
        style=TABLE_STYLE,
    )
    return element("div", shown, style="overflow-x:auto")
