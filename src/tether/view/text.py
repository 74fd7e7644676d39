"""A run in words for terminals, and cards for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from tether._core.words import MAX_PRINTED_ROWS, Columns, Description
from tether.view.numbers import format_time

TONES = {"running": "good", "safe": "caution", "empty": "caution", "alarm": "stop"}
"""The tone of each kind of state."""


def describe(document: dict[str, Any]) -> Description:
    """What a document says in words: printed by `tether status`, shown as a card in a notebook."""
    state, words = document["state"], document["words"]
    now = f"{state['heading']}. {state['details']}".strip()
    facts = [("state", now), ("promise", document["promise"]["sentence"])]
    for loss in document["losses"]:
        known = [f"{each['name'].lower()} {each['value']}" for each in loss["facts"]]
        facts.append((loss["name"], "; ".join(known)))
    notes = []
    for each in document["alarms"]:
        stands = "it stands"
        if each["cleared"]:
            by = f"by {each['actor']}: {each['reason']}"
            stands = f"cleared {format_time(each['cleared'])} {by}"
        raised = f"{words['unit']} {each['unit']}, {format_time(each['raised'])}"
        name = f"alarm {each['number']} ({each['monitor']})"
        notes.append(f"{name}, {raised}: {each['message']}; {stands}")
    for each in document["acts"]:
        when = format_time(each["done"])
        notes.append(f"{each['act']} by {each['actor']}, {when}: {each['reason']}")
    return Description(
        f"{document['title']}: {state['sentence']}",
        TONES[state["kind"]],
        tuple(facts),
        table=_units_table(document) if document["units"] else None,
        notes=tuple(notes),
    )


def _units_table(document: dict[str, Any]) -> Columns:
    """One row per unit: what it served, and the mean losses of both arms."""
    units, words = document["units"], document["words"]
    table = Columns({words["unit"]: np.array([each["number"] for each in units])})
    table[words["level"]] = np.array([each["level"] for each in units])
    for arm in ("old", "new"):
        name = words[arm].split()[0]
        table[f"{name}: {words['rows']}"] = np.array([each["rows"][arm] for each in units])
        for loss in document["losses"]:
            means = [each["means"][arm][loss["name"]]["mean"] for each in units]
            table[f"{name}: {loss['name']}"] = np.array(means, dtype=np.float64)  # None is NaN
    if any(each["note"] for each in units):
        table["why"] = np.array([each["note"] for each in units])
    return table


# ---- cards --------------------------------------------------------------------------------------

TONE_COLORS = {"good": "#12856f", "caution": "#b7791f", "stop": "#c8372d"}
"""The bar on the left; each color has a contrast of at least 3 with white and with black."""
CARD = "padding:.1em 0 .1em .9em;max-width:64em;line-height:1.45;text-align:left"
TABLE = "border-collapse:collapse;margin:.4em 0;border:0"
NAME = "text-align:left;vertical-align:top;font-weight:normal;opacity:.75;padding:.1em 1em 0 0"
VALUE = "text-align:left;vertical-align:top;padding:.1em 0;white-space:normal"
NUMBER = "text-align:right;padding:.1em 1em .1em 0;font-variant-numeric:tabular-nums"
TEXT = "text-align:left;padding:.1em 1em .1em 0"
QUIET = "margin:.3em 0;opacity:.75;text-align:left"


def summary_card(description: Description) -> str:
    """A description as HTML without script, style sheet or address, in the notebook's colors."""
    facts = [
        _tag("tr", _tag("th", escape(name), NAME) + _tag("td", escape(value), VALUE))
        for name, value in description.facts
    ]
    warned = [f"<strong>Warning: </strong>{escape(each)}" for each in description.warnings]
    headline = f"<strong>{escape(description.headline)}</strong>"
    parts = [
        _tag("p", headline, "margin:.2em 0;font-size:1.05em"),
        _tag("table", "".join(facts), TABLE) if facts else "",
        "" if description.table is None else _table(description.table, description.caption),
        *(_tag("p", each, "margin:.3em 0") for each in warned),
        *(_tag("p", escape(each), QUIET) for each in description.notes),
    ]
    style = f"border-left:4px solid {TONE_COLORS[description.tone]};{CARD}"
    return _tag("div", "".join(parts), style)


def _table(table: Columns, caption: str) -> str:
    """The table; of a long one the rows in the middle are left out, and it says so."""
    styles = [NUMBER if each.dtype.kind in "iuf" else TEXT for each in table.values()]
    rows = [
        "".join(_tag(tag, escape(text), style) for text, style in zip(cells, styles, strict=True))
        for tag, cells in [("th", list(table)), *(("td", cells) for cells in table.cells())]
    ]
    left_out = table.row_count - (len(rows) - 1)
    if left_out:
        rows.insert(1 + MAX_PRINTED_ROWS // 2, _tag("td", f"… {left_out:,} more rows …", TEXT))
    head = _tag("caption", escape(caption), QUIET) if caption else ""
    body = "".join(_tag("tr", each) for each in rows)
    return _tag("div", _tag("table", head + body, TABLE), "overflow-x:auto")


def _tag(name: str, content: str, style: str = "") -> str:
    """An element; its content is escaped already."""
    return f'<{name} style="{style}">{content}</{name}>' if style else f"<{name}>{content}</{name}>"
