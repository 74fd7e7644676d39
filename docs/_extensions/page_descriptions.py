"""Each page describes itself to search engines by its first sentences."""

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LONGEST_DESCRIPTION = 160
"""Search engines show about as many characters."""


def description(doctree: nodes.document) -> str:
    """Return the beginning of the first paragraph, cut between words."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if not text or isinstance(paragraph.parent, nodes.list_item):
            continue
        if len(text) <= LONGEST_DESCRIPTION:
            return text
        return text[:LONGEST_DESCRIPTION].rsplit(" ", 1)[0] + " …"
    return ""


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add the description to the head of one page."""
    text = description(doctree) if doctree is not None else ""
    if text:
        content = escape(text)
        context["metatags"] += f'\n<meta name="description" content="{content}" />'


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
