"""The API key of a server: checked once, sent in a header, and never shown."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, quote_plus

KEY_PLACEHOLDER = "(key)"
"""Replaces the key in messages."""


def check_key(api_key: Any) -> str | None:
    """The key without surrounding white space (a file ends in a newline); None for no key.

    A key that no header can carry is refused here: an HTTP library would show it in its own error.
    """
    if api_key is None:
        return None
    if not isinstance(api_key, str):
        raise TypeError(f"api_key must be a string, got {type(api_key).__name__}")
    key = api_key.strip()
    invalid = re.search(r"[^!-~]", key)
    if invalid:
        raise ValueError(
            f"api_key must be printable ASCII without inner white space, but its character "
            f"{invalid.start()} of {len(key)} is not (the key is not shown)"
        )
    return key or None


def hide_key(text: str, key: str | None) -> str:
    """A text without the key, whether it is written plainly or as in URLs, JSON or Python."""
    if key is None:
        return text
    encoded = {quote(key), quote(key, safe=""), quote_plus(key)}
    encoded |= {re.sub(r"%..", lambda match: match[0].lower(), form) for form in encoded}
    forms = {key, repr(key)[1:-1], json.dumps(key)[1:-1], *encoded}
    # The longest first: replacing a form inside a longer one would leave the rest of that visible.
    pattern = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.sub(pattern, KEY_PLACEHOLDER, text)
