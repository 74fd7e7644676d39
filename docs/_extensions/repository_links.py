"""Links from pages to files of the repository that are not pages lead to the repository.

A page links to `../examples/serve.toml` as it would anywhere, so that the link also works where the
page is read in the repository itself. In the built site such a link gets the address of the file
there. A link to a file that does not exist stays as it is, and Sphinx warns about it.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

LINK = re.compile(r"\]\((?P<path>\.\.?/[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
"""A relative link of Markdown, with its path and its anchor."""
PICTURES = frozenset({".png", ".svg"})
"""What Sphinx copies into the site itself."""


def absolute(text: str, page: Path, pages: Path, base: str) -> str:
    """Return the text of a page with the addresses of the files that lie outside `pages`."""
    root = pages.parent

    def replace(link: re.Match[str]) -> str:
        file = (page.parent / link["path"]).resolve()
        inside = file.is_relative_to(pages) or not file.is_relative_to(root)
        if inside or not file.exists() or file.suffix in PICTURES:
            return link[0]
        return f"]({base}/{file.relative_to(root).as_posix()}{link['anchor'] or ''})"

    return LINK.sub(replace, text)


def rewrite(app: Sphinx, name: str, source: list[str]) -> None:
    """Rewrite the links of one page when it is read."""
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md":
        base = app.config.repository_links_base
        source[0] = absolute(source[0], page.resolve(), Path(app.srcdir).resolve(), base)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_config_value("repository_links_base", "", "env")
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
