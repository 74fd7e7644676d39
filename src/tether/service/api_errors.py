"""Errors that a client is told of: a status, a code for programs and a message for people."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

CODES_BY_STATUS = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    412: "gate_closed",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    500: "internal",
    502: "bad_gateway",
    503: "unavailable",
}
"""The code that stands for each status."""
RETRY_SECONDS = 1
"""When a request may be repeated that was refused for now."""


class ApiError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    @property
    def code(self) -> str:
        """The code for programs."""
        return CODES_BY_STATUS[self.status]


def error_response(status: int, message: str) -> Response:
    """An error as JSON."""
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)
    if status in (408, 413):  # the rest of the body is not waited for
        headers["Connection"] = "close"
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    content: dict[str, Any] = {"error": {"code": CODES_BY_STATUS[status], "message": message}}
    return JSONResponse(content, status, headers)
