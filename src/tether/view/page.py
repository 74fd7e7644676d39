"""The page: live, or as a report in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether._core.files import write_bytes
from tether.view.run_document import document

if TYPE_CHECKING:
    from tether.runs.history import History


def page_html(document: dict[str, Any] | None = None) -> str:
    """Return the page as HTML: live, or with a document inside, a report that loads nothing.

    Parameters
    ----------
    document : dict, optional
        What `document` returned; without it the page asks its service, as `tether.view` says.
    """
    html, css, js = _parts()
    may_ask = "self" if document is None else "none"
    policy = (
        f"default-src 'none'; script-src {_digest(js)}; style-src {_digest(css)}; connect-src "
        f"'{may_ask}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    text = "" if document is None else json.dumps(document, allow_nan=False, ensure_ascii=False)
    content = text.replace("<", "\\u003c")
    for place, text in (("POLICY", policy), ("STYLE", css), ("SCRIPT", js), ("DOCUMENT", content)):
        html = html.replace(f"@{place}@", text, 1)
    return html


def write_report(
    history: History, path: str | Path, *, title: str | None = None, overwrite: bool = False
) -> None:
    """Write a run as one HTML file.

    Parameters
    ----------
    history : History
        What `run.history()` returned.
    path : str or pathlib.Path
        Where to write it; only its owner may read the file.
    title : str, optional
        What the run is called; its store by default.
    overwrite : bool, default False
        Whether a file at `path` is replaced.

    Raises
    ------
    FileExistsError
        If there is a file at `path` and `overwrite` is False, or it is a store.
    """
    write_bytes(path, page_html(document(history, title=title)).encode(), overwrite=overwrite)


@cache
def _parts() -> list[str]:
    """The page, its style and its script, as they are in the package."""
    folder = resources.files("tether.view")
    return [(folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")]


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
