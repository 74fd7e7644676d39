"""Pictures of pages have a text for those who do not see them, and lead to their full size.

On a small screen a picture is shown smaller than its text can be read.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PICTURE = re.compile(r'<img\b[^>]*\bsrc\s*=\s*"(?P<address>[^"]*_images/[^"]+)"[^>]*>')
"""A picture in a built page, with its address."""
THUMBNAIL = re.compile(r"sphx_glr_(?P<page>\w+)_thumb\.\w+$")
"""The small picture of a page of the gallery, which is a link to the page already."""


def linked(body: str) -> str:
    """Return the body of a page in which each picture links to its full size."""

    def link(picture: re.Match[str]) -> str:
        if THUMBNAIL.search(picture["address"]):
            return picture[0]
        return f'<a class="full-size" href="{picture["address"]}">{picture[0]}</a>'

    return PICTURE.sub(link, body)


def text_of(image: nodes.image, titles: dict[str, Any]) -> str:
    """Return what a picture shows: its page in the gallery, or the line of code that drew it."""
    thumbnail = THUMBNAIL.search(image["uri"])
    if thumbnail:
        return f"Picture of: {titles['gallery/' + thumbnail['page']].astext()}"
    cell: Any = image
    while cell is not None and cell.get("nb_element") != "cell_code":
        cell = cell.parent
    if cell is None:
        return ""
    code = next(cell.findall(nodes.literal_block)).astext()
    return f"Picture drawn by {code.strip().splitlines()[-1]}"


def name_pictures(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Give each picture without a text one."""
    for image in doctree.findall(nodes.image):
        if not image.get("alt"):
            image["alt"] = text_of(image, app.env.titles)


def link_pictures(app: Sphinx, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """Link the pictures of one page when it is written."""
    if "body" in context:
        context["body"] = linked(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-resolved", name_pictures)
    app.connect("html-page-context", link_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
