"""What a failed request to a server means, and when it may be sent again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

RETRIED_STATUSES = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505}
"""Statuses after which the same request may succeed: it came too early, or the server failed.

What a server does not implement (501, 505) it will not implement a second later.
"""
OVERLOAD_STATUSES = frozenset({429, 503, 529})
"""Statuses by which a server asks for fewer requests."""
INVALID_REQUEST_STATUSES = frozenset({400, 413, 422})
"""Refusals of the request itself, such as a prompt too long; others are of the sender."""
MAX_SHOWN_CHARACTERS = 500
"""How much of a server's error message is shown."""


class ServerError(RuntimeError):
    """The server is unavailable or refused the sender, after all retries.

    A refusal of the request itself (status 400, 413 or 422) is a `ValueError` instead.

    Examples
    --------
    >>> from tether.llm import ServerError
    >>> issubclass(ServerError, RuntimeError)
    True
    """


def advice_on_loss(body: Mapping[str, Any], failures: Sequence[str]) -> str:
    """What to say if a server answered at first and then could not be connected to any more."""
    is_lost = failures[-1].startswith("ConnectError") and len(set(failures)) > 1
    if not is_lost:
        return ""
    advice = ": the server has ended while it was asked"
    if "prompt_logprobs" in body:
        advice += (
            ". vLLM 0.32 with --enable-lora ends when it scores (prompt_logprobs), unless it was "
            "started with --lora-target-modules"
        )
    return advice


def error_text(response: Any) -> str:
    """The server's error message, in OpenAI's format where it has that."""
    try:
        content = response.json()
        content = content.get("error", content)
        return str(content.get("message", content))
    except (ValueError, RecursionError, AttributeError):
        return str(response.text)


def parse_retry_after(header: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, as digits or as a date; otherwise None.

    A date in the past asks for no wait.
    """
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
