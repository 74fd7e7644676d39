"""Writes a page for each experiment from its README, with links that hold in the site.

The READMEs lie beside the experiments, where a reader of the repository finds them. Their pages are
written anew at every build and are not kept.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

LINK = re.compile(r"\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
"""A link of Markdown to a file, with its path and its anchor."""
TABLE_ROW = re.compile(r"^\| \[(?P<name>\w+)\]\(\w+/README\.md\)", re.M)
"""A row of the overview, which names an experiment."""


def moved(text: str, old: Path, new: Path, pages: dict[Path, Path]) -> str:
    """Return a text with links that hold at another place, and lead to pages where they exist."""

    def replace(link: re.Match[str]) -> str:
        file = Path(os.path.normpath(old.parent / link["path"]))
        target = os.path.relpath(pages.get(file, file), new.parent)
        return f"]({Path(target).as_posix()}{link['anchor'] or ''})"

    return LINK.sub(replace, text)


def write_pages(app: Sphinx, config: object) -> None:
    """Write the overview and one page for each experiment that it names."""
    folder = Path(app.srcdir) / "experiments"
    source = Path(app.srcdir).parent / "experiments"
    overview = source / "README.md"
    names = TABLE_ROW.findall(overview.read_text("utf-8"))
    pages = {source / name / "README.md": folder / f"{name}.md" for name in names}
    pages[overview] = folder / "index.md"
    listed = "\n".join(names)
    contents = f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    folder.mkdir(exist_ok=True)
    for old, new in pages.items():
        text = moved(old.read_text("utf-8"), old, new, pages)
        text += contents if old == overview else ""
        if not new.exists() or new.read_text("utf-8") != text:
            new.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
