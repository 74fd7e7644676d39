"""A run in words for terminals, and cards for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from tether._core.words import MAX_PRINTED_ROWS, Columns, Description
from tether.view.numbers import NO_VALUE, format_number, format_time

TONES = {"running": "good", "safe": "caution", "empty": "caution", "alarm": "stop"}
"""How a state looks."""


def status_text(document: dict[str, Any]) -> str:
    """Say in words what a document says, for a terminal.

    Parameters
    ----------
    document : dict
        What `document` returned.

    Returns
    -------
    str
        Several lines; no control character of a name or reason is in it.
    """
    return _describe(document).text()


def card_html(document: dict[str, Any]) -> str:
    """Show what a document says as one HTML element, for a notebook.

    Parameters
    ----------
    document : dict
        What `document` returned.

    Returns
    -------
    str
        HTML without scripts, style sheets or addresses; all text in it is escaped.
    """
    return summary_card(_describe(document))


def _describe(document: dict[str, Any]) -> Description:
    state, words = document["state"], document["words"]
    facts = [("state", f"{state['heading']}. {state['details']}".strip())]
    facts.append(("promise", document["promise"]["sentence"]))
    for loss in document["losses"]:
        known = [f"{each['name'].lower()} {each['value']}" for each in loss["facts"]]
        facts.append((loss["name"], "; ".join(known)))
    notes = [_alarm_line(each, words["unit"]) for each in document["alarms"]]
    notes += [
        f"{each['act']} by {each['actor']}, {format_time(each['done'])}: {each['reason']}"
        for each in document["acts"]
    ]
    return Description(
        f"{document['title']}: {state['sentence']}",
        TONES[state["kind"]],
        tuple(facts),
        table=_units_table(document) if document["units"] else None,
        warnings=tuple(document["warnings"]),
        notes=tuple(notes),
    )


def _units_table(document: dict[str, Any]) -> Columns:
    """One row per unit: what it served, and the mean losses of both arms."""
    units, words = document["units"], document["words"]
    table = Columns()
    table[words["unit"]] = np.array([each["number"] for each in units])
    table[words["level"]] = np.array([each["level"] for each in units])
    for arm in ("old", "new"):
        name = words[arm]
        table[f"{name}: {words['rows']}"] = np.array([each["rows"][arm] for each in units])
        for loss in document["losses"]:
            means = [each["means"][arm][loss["name"]] for each in units]
            table[f"{name}: {loss['name']}"] = np.array([_mean(each) for each in means])
    if any(each["note"] for each in units):
        table["why"] = np.array([each["note"] for each in units])
    return table


def _mean(estimate: dict[str, Any]) -> str:
    if not estimate["count"]:
        return NO_VALUE
    mean, lower, upper = (format_number(estimate[name]) for name in ("mean", "lower", "upper"))
    return f"{mean} ({lower} to {upper})"


def _alarm_line(alarm: dict[str, Any], unit: str) -> str:
    stands = "it stands"
    if alarm["cleared"] is not None:
        stands = f"cleared {format_time(alarm['cleared'])} by {alarm['actor']}: {alarm['reason']}"
    raised = f"{unit} {alarm['unit']}, {format_time(alarm['raised'])}"
    return f"alarm {alarm['number']} ({alarm['monitor']}), {raised}: {alarm['message']}; {stands}"


# ---- cards --------------------------------------------------------------------------------------

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


def summary_card(description: Description) -> str:
    """A description as HTML that needs nothing else: no script, style sheet or address.

    Colors are those of the notebook, light or dark; a bar on the left repeats the tone.
    """
    facts = [
        _tag(
            "tr",
            _tag("th", escape(name), style=NAME_STYLE, scope="row"),
            _tag("td", escape(value), style=VALUE_STYLE),
        )
        for name, value in description.facts
    ]
    warned = [
        _tag("li", f"<strong>Warning: </strong>{escape(each)}") for each in description.warnings
    ]
    return _tag(
        "div",
        _tag(
            "p",
            _tag("strong", escape(description.headline)),
            style="margin:.2em 0;font-size:1.05em",
        ),
        _tag("table", _tag("tbody", *facts), style=TABLE_STYLE) if facts else "",
        _card_table(description.table, description.caption),
        _tag("ul", *warned, style="margin:.3em 0;padding-left:1.2em") if warned else "",
        *(_tag("p", escape(each), style="margin:.3em 0;opacity:.75") for each in description.notes),
        style=f"border-left:4px solid {TONE_COLORS[description.tone]};{CARD_STYLE}",
    )


def _card_table(table: Columns | None, caption: str) -> str:
    """The table; of a long one the rows in the middle are left out, and it says so."""
    if table is None:
        return ""
    styles = [NUMBER_STYLE if each.dtype.kind in "iuf" else TEXT_STYLE for each in table.values()]
    head = [
        _tag("th", escape(name), style=style, scope="col")
        for name, style in zip(table, styles, strict=True)
    ]
    body = [
        _tag(
            "tr", *(_tag("td", escape(text), style=s) for text, s in zip(row, styles, strict=True))
        )
        for row in table.cells()
    ]
    left_out = table.row_count - len(body)
    if left_out:
        text = f"… {left_out:,} more rows …"
        cell = _tag("td", text, style=f"{TEXT_STYLE};opacity:.75", colspan=str(len(styles)))
        body.insert(MAX_PRINTED_ROWS // 2, _tag("tr", cell))
    shown = _tag(
        "table",
        _tag("caption", escape(caption), style=CAPTION_STYLE) if caption else "",
        _tag("thead", _tag("tr", *head)),
        _tag("tbody", *body),
        style=TABLE_STYLE,
    )
    return _tag("div", shown, style="overflow-x:auto")


def _tag(name: str, *content: str, **attributes: str) -> str:
    """An element; what is in it is escaped already."""
    listed = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{listed}>{''.join(content)}</{name}>"
