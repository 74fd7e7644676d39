"""The key of a request: who asks, if the request says so, and otherwise the request itself."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tether.service.api_errors import ApiError
from tether.service.request_body import read_key

KEY_HEADER = "x-tether-key"
"""The header with the key, of requests and of answers."""
KEY_FIELDS = ("safety_identifier", "user")
"""The fields of OpenAI's protocol that say who asks, the newer one first."""
_SENT_AS_IT_IS = f"{string.ascii_letters}{string.digits}{string.punctuation} ".replace("%", "")


def unit_key(headers: Mapping[str, str], body: Mapping[str, Any]) -> bytes:
    """The key of the header, or of a field of the body; otherwise a new one, for this request."""
    given = headers.get(KEY_HEADER)
    if given is not None:
        try:
            return read_key(given.encode("latin-1").decode(), KEY_HEADER)
        except UnicodeDecodeError:
            raise ApiError(400, f"{KEY_HEADER} must be text in UTF-8") from None
    for name in KEY_FIELDS:
        if body.get(name) not in (None, ""):
            return read_key(body[name], name)
    return secrets.token_hex(16).encode()


def shown_key(key: bytes) -> str:
    """A key as the header of an answer: percent-encoded where it is not printable ASCII.

    So are spaces at its ends, which a header loses.
    """
    inner = key.strip(b" ")
    before, _, after = key.partition(inner) if inner else (key, b"", b"")
    return quote(before) + quote(inner, safe=_SENT_AS_IT_IS) + quote(after)
