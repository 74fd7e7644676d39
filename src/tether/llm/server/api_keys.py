"""The key of a server: checked once, sent in a header, told nowhere."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "(key)"
"""What stands in a message where the key was."""


def checked(api_key: Any) -> str | None:
    """The key without white space around it (a file ends in a newline); None where there is none.

    What no header can carry is refused here: an HTTP library would show it in its own error.
    """
    if api_key is None:
        return None
    if not isinstance(api_key, str):
        raise TypeError(f"api_key must be a text, got {type(api_key).__name__}")
    key = api_key.strip()
    wrong = re.search(r"[^!-~]", key)
    if wrong:
        raise ValueError(
            f"api_key must be printable ASCII without white space inside, and its character "
            f"{wrong.start()} of {len(key)} is not (the key is not shown)"
        )
    return key or None


def hidden(text: str, key: str | None) -> str:
    """A text without the key: neither as it is nor as addresses, JSON or Python write it."""
    if key is None:
        return text
    encoded = {quote(key), quote(key, safe=""), quote_plus(key)}
    encoded |= {re.sub(r"%..", lambda found: found[0].lower(), each) for each in encoded}
    forms = {key, repr(key)[1:-1], json.dumps(key)[1:-1], *encoded}
    # The longest first, or an inner one would leave the rest of an outer one behind.
    pattern = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.sub(pattern, HIDDEN, text)
