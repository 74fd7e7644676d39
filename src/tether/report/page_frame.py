"""The frame of a page: its head, banner, sections and footer, whatever the page is about."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tether.report.html_elements import Markup, element
from tether.report.html_tables import description_list
from tether.report.page_opening import banner
from tether.report.sentences import RunState


@dataclass(frozen=True)
class PageParts:
    """What a page consists of.

    `sections` have an id, a title and a content each; `settings` stand in the footer.
    """

    store: str
    state: RunState
    opening: Markup
    sections: Sequence[tuple[str, str, Markup]]
    settings_title: str
    settings: Sequence[tuple[str, str]]


def page_text(parts: PageParts) -> str:
    """The text of the HTML file."""
    script = _read_asset("script.js")
    body = element(
        "body",
        element("a", "Skip to the report", href="#main", class_="skip"),
        banner(parts.store, [(name, title) for name, title, _ in parts.sections]),
        element(
            "main",
            parts.opening,
            [
                element(
                    "section",
                    element("h2", title, id=f"{name}-heading"),
                    content,
                    id=name,
                    aria_labelledby=f"{name}-heading",
                )
                for name, title, content in parts.sections
            ],
            id="main",
            tabindex="-1",
        ),
        element(
            "footer",
            element("h2", parts.settings_title),
            description_list(parts.settings, "facts"),
        ),
        element("div", id="announcement", class_="visually-hidden", aria_live="polite"),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', _head(parts.state, script), body, lang='en')}\n"


def _head(state: RunState, script: str) -> Markup:
    """The head of the page; its security policy allows this style and this script only."""
    style = _read_asset("style.css")
    policy = (
        f"default-src 'none'; style-src '{_source_hash(style)}'; "
        f"script-src '{_source_hash(script)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{state.heading}: {state.sentence} · tether report"),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(style)),
    )


@cache
def _read_asset(name: str) -> str:
    return resources.files("tether.report").joinpath(name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
