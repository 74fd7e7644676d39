"""Warns about what no page should show; `make docs` takes a warning for an error.

No figure is shown as its name in Python instead of a picture, no page is named by its file, and no
printed line is too long for the column of text.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

LONGEST_PRINTED_LINE = 88
FIGURE_NAME = re.compile(r"<\w*Figure size")
PAGE_FILE = re.compile(r"[\w./-]*\b[a-z_]+\.md\b")
"""The file of a page; files of the repository itself, such as README.md, are in capitals."""
PRINTED = frozenset({"output", "sphx-glr-script-out", "highlight-text"})
"""The classes of elements with what a program printed."""
EMPTY_TAGS = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})

logger = logging.getLogger(__name__)


class PageText(HTMLParser):
    """Collects the visible text of a page: sentences, and blocks of code or printed lines."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, frozenset[str]]] = []
        self.sentences: list[str] = []
        self.code: list[str] = []
        self.printed: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Remember an element until it ends."""
        if tag in EMPTY_TAGS:
            return
        self.open.append((tag, frozenset((dict(attributes).get("class") or "").split())))
        if tag == "pre":
            self._blocks().append("")

    def handle_endtag(self, tag: str) -> None:
        """Forget the element, and those inside it that have no end of their own."""
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Sort text by the elements around it."""
        tags = {tag for tag, _ in self.open}
        if tags & {"script", "style"}:
            return
        if "pre" in tags:
            self._blocks()[-1] += data
        else:
            self.sentences.append(data)

    def _blocks(self) -> list[str]:
        return self.printed if any(classes & PRINTED for _, classes in self.open) else self.code


def problems(body: str) -> Iterator[str]:
    """Say what is wrong with the body of a page."""
    page = PageText()
    page.feed(body)
    page.close()
    for text in (*page.sentences, *page.code, *page.printed):
        for name in FIGURE_NAME.findall(text):
            yield f"a figure is shown as {name!r} instead of a picture"
    for text in page.sentences:
        for name in PAGE_FILE.findall(text):
            yield f"a page is named by its file, {name}, instead of its title"
    for line in (line for block in page.printed for line in block.splitlines()):
        if len(line) > LONGEST_PRINTED_LINE:
            yield f"a printed line has {len(line)} columns, at most {LONGEST_PRINTED_LINE}: {line}"


def check(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Check one page when it is written."""
    if doctree is not None:
        for problem in problems(context.get("body", "")):
            logger.warning(problem, location=page)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
