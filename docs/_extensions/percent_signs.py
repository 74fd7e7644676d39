"""A percent sign stays on the line of its number."""

import re

from docutils import nodes
from sphinx.application import Sphinx

NUMBER_AND_SIGN = re.compile(r"(?<=\d) (?=%)")
"""The space between a digit and a percent sign."""
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
AS_TYPED = (nodes.literal, nodes.math, nodes.FixedTextElement)
"""What is shown as it is typed, so that it can be copied."""


def keep_together(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Join numbers and percent signs in the running text of one HTML page."""
    if app.builder.format != "html":
        return
    for text in list(doctree.findall(nodes.Text)):
        joined = NUMBER_AND_SIGN.sub(NO_BREAK_SPACE, text.astext())
        if joined != text.astext() and not _is_as_typed(text):
            assert text.parent is not None
            text.parent.replace(text, nodes.Text(joined))


def _is_as_typed(text: nodes.Text) -> bool:
    parent = text.parent
    while parent is not None:
        if isinstance(parent, AS_TYPED):
            return True
        parent = parent.parent
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-resolved", keep_together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
