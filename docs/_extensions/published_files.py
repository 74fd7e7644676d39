"""What lies beside the pages: notebooks to download, and nothing that the theme left behind."""

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

NOTEBOOKS = "notebooks/"
LEFT_BEHIND = ("_static/webpack-macros.html",)
"""A template with which the theme was built."""


def link_notebook(app: Sphinx, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """Add a link below the title of a notebook's page to the notebook itself."""
    if page.startswith(NOTEBOOKS) and "body" in context:
        address = f"../_downloads/{page}.ipynb"
        link = f'<p><a class="reference download" href="{address}" download>Download</a> this page'
        context["body"] = context["body"].replace("</h1>", f"</h1>{link} as a notebook.</p>", 1)


def publish(app: Sphinx, error: Exception | None) -> None:
    """Copy the notebooks, and remove what is not for readers, when all pages are written."""
    if error is not None:
        return
    built = Path(app.outdir)
    folder = built / "_downloads" / NOTEBOOKS
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in (Path(app.srcdir) / NOTEBOOKS).glob("*.ipynb"):
        shutil.copyfile(notebook, folder / notebook.name)
    for name in LEFT_BEHIND:
        (built / name).unlink(missing_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", link_notebook)
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
