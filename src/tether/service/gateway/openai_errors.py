"""Errors in the shape of OpenAI's protocol, which its clients raise as exceptions."""

from __future__ import annotations

from typing import Any

from tether.service.api_errors import CODES_BY_STATUS

BROKEN_STREAM = "the upstream's stream has broken"
"""What a client is told whose answer has begun and cannot be ended."""
NO_UPSTREAM = "no upstream has answered"
"""What a client is told that has no answer."""
SERVICE_ENDS = "the service is shutting down"
"""What a client is told whose answer took longer than the service could wait."""


def openai_error(status: int, message: str) -> dict[str, Any]:
    """The body of an error."""
    kind = "invalid_request_error" if status < 500 else "upstream_error"
    code = CODES_BY_STATUS[status]
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
