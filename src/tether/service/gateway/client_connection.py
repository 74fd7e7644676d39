"""Work for a client that ends when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive


async def serve_while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work for a client whose request was read; it is cancelled if the client leaves.

    This returns in either case. If the caller is cancelled, so is the work.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_left(receive))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
        leaving.cancel()
        await asyncio.wait((task, leaving))
    if not task.cancelled():
        task.result()


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
