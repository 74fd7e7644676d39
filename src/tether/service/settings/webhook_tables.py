"""The tables `[[webhooks]]` of the settings: who is told of what happens."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tether.service.settings.toml_tables import Table

WEBHOOK_EVENTS = ("alarm", "halt", "resume", "step", "store")
"""What a webhook may be told of."""
WEBHOOK_FORMATS = ("json", "text")
"""How: all fields, or one `text` for people, as chat programs read it."""
_OPTIONS = ("url", "url_variable", "events", "format", "secret_variable", "deadline")


@dataclass(frozen=True)
class Webhook:
    """A receiver of events.

    Parameters
    ----------
    url : str
        Where events are sent to; it may have a secret, and is never logged.
    events : frozenset of str
        Which of "alarm", "halt", "resume", "step" and "store" are sent.
    format : str
        "json", or "text" for chat programs.
    secret : str or None
        What messages are signed with; None if they are not.
    deadline : float
        How many seconds a receiver has to answer.
    """

    url: str = field(repr=False)
    events: frozenset[str] = frozenset({"alarm", "halt", "resume"})
    format: str = "json"
    secret: str | None = field(default=None, repr=False)
    deadline: float = 5.0


def read_webhooks(given: Any) -> tuple[Webhook, ...]:
    """The webhooks of a file; none where there are no such tables."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError("webhooks must be tables, each of them under [[webhooks]]")
    return tuple(
        _webhook(Table(f"webhooks[{place}]", each)) for place, each in enumerate(given, start=1)
    )


def _webhook(table: Table) -> Webhook:
    """One webhook; no error shows a URL or a secret."""
    url = _url(table)
    usual = Webhook(url)
    events = table.texts("events") or tuple(usual.events)
    for each in events:
        if each not in WEBHOOK_EVENTS:
            raise ValueError(
                f"{table.full('events')} must be some of {', '.join(WEBHOOK_EVENTS)}, got "
                f"{each!r:.80}"
            )
    kind = table.text("format", usual.format)
    if kind not in WEBHOOK_FORMATS:
        raise ValueError(
            f"{table.full('format')} must be one of {', '.join(WEBHOOK_FORMATS)}, got {kind!r:.80}"
        )
    secret = _environment(table, "secret_variable") if table.has("secret_variable") else None
    deadline = table.number("deadline", usual.deadline, least=0.1, most=60.0)
    table.finish(_OPTIONS)
    return Webhook(url, frozenset(events), kind, secret, deadline)


def _url(table: Table) -> str:
    if table.has("url") == table.has("url_variable"):
        raise ValueError(f"{table.name} must have either url or url_variable")
    named = table.has("url")
    url = table.text("url") if named else _environment(table, "url_variable")
    if not _is_url(url):
        what = table.full("url" if named else "url_variable")
        raise ValueError(
            f"{what} must be a URL such as https://alerts.example.org/tether, without a user; it "
            f"is not shown, since it may have a secret"
        )
    return url


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    is_plain = text.isascii() and text.isprintable() and " " not in text and "@" not in parts.netloc
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0


def _environment(table: Table, key: str) -> str:
    """The value of an environment variable that a setting names."""
    variable = table.text(key)
    if not os.environ.get(variable):
        raise ValueError(f"{table.full(key)} names {variable!r:.80}, which is not set")
    return os.environ[variable]
