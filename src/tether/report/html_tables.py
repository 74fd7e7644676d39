"""Tables of data and lists of terms with their values."""

from __future__ import annotations

from collections.abc import Sequence

from tether.report.html_elements import Content, Markup, element, join


def data_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Content]]) -> Markup:
    """Build a table whose first column names the rows; it scrolls on its own, also by keyboard."""
    head = element("tr", [element("th", name, scope="col") for name in columns])
    body = [
        element(
            "tr",
            element("th", row_name, scope="row"),
            [element("td", value) for value in values],
        )
        for row_name, *values in rows
    ]
    table = element(
        "table",
        element("caption", caption, class_="visually-hidden"),
        element("thead", head),
        element("tbody", join(*body)),
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def description_list(items: Sequence[Sequence[str]], class_: str) -> Markup:
    """Build a list of terms; in every item the term comes first and its values follow."""
    return element(
        "dl",
        [
            element("div", element("dt", term), [element("dd", value) for value in values])
            for term, *values in items
        ],
        class_=class_,
    )
