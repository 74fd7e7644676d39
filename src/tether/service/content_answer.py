"""Answers that must be fast: from the content of a body to the content of the answer.

The access control calls them itself, without what a web framework does for every request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send

from tether.service.request_body import JSON_TYPE, read_content

Headers = list[tuple[bytes, bytes]]


class ContentAnswer:
    """What answers a JSON body with a JSON body, at an endpoint.

    Parameters
    ----------
    answer : callable
        From the body and the last part of the path to the status and the content of the answer.
    max_bytes : int
        The longest body.
    """

    def __init__(
        self, answer: Callable[[bytes, str], Awaitable[tuple[int, bytes]]], max_bytes: int
    ) -> None:
        self._answer, self._max_bytes = answer, max_bytes

    async def __call__(self, request: Request) -> Response:
        """Answer a request of the web framework."""
        content = await read_content(request.headers, request.receive, self._max_bytes)
        status, made = await self._answer(content, request.url.path.rpartition("/")[2])
        return Response(made, status, media_type=JSON_TYPE)

    async def send(
        self, path: str, given: Mapping[str, str], receive: Receive, send: Send, headers: Headers
    ) -> int:
        """Answer a request with these headers; its status."""
        content = await read_content(given, receive, self._max_bytes)
        status, made = await self._answer(content, path.rpartition("/")[2])
        length = (b"content-length", b"%d" % len(made))
        headers = [length, _TYPE, *headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": made})
        return status


_TYPE = (b"content-type", JSON_TYPE.encode())
