"""Bodies that trickle: a request has some seconds to arrive as a whole."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from typing import Any

from starlette.types import Message, Receive

from tether.service.api_errors import ApiError


@types.coroutine
def _go_on(waiting: Generator[Any, None, Message], first: Any) -> Generator[Any, None, Message]:
    """Go on to wait for something that was begun, and waits for `first`."""
    yield first
    return (yield from waiting)


def with_deadline(receive: Receive, seconds: float) -> Receive:
    """The messages of a request; an error if its body is not complete after so many seconds.

    Once it is, what follows may take any time: that the client has left, or has not.
    """
    end, is_complete = asyncio.get_running_loop().time() + seconds, False

    async def receive_in_time() -> Message:
        nonlocal is_complete
        if is_complete:
            return await receive()
        waiting = receive().__await__()
        message: Message
        try:
            first = next(waiting)
        except StopIteration as done:  # it was there: no timer is needed, which costs as much
            message = done.value
        else:
            try:
                async with asyncio.timeout_at(end):
                    message = await _go_on(waiting, first)
            except TimeoutError:
                raise ApiError(408, f"the body was not complete after {seconds:g} s") from None
        is_complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    return receive_in_time
