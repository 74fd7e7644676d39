"""The body of an upstream's answer, part by part, each of them in time, and every failure named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from tether.service.settings.gateway_table import UpstreamSettings


class UpstreamError(Exception):
    """An upstream has not answered; `reason` is one of few words, for metrics and logs.

    "unreachable", "slow", "broken" (the connection ended), "server_error" (status 5xx),
    "unauthorized" (it refuses the key or the account) or "garbled" (it is not what the protocol
    says).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the upstream's answer: {reason}")
        self.reason = reason


@contextmanager
def named_failures() -> Iterator[None]:
    """Whatever the client raises, as an `UpstreamError`, without what might be secret."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
        raise UpstreamError("unreachable") from None
    except (TimeoutError, httpx2.TimeoutException):
        raise UpstreamError("slow") from None
    except httpx2.DecodingError:
        raise UpstreamError("garbled") from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError):
        raise UpstreamError("broken") from None


class AnswerParts:
    """The parts of a response; an encoding is undone. `has_begun` is set by who reads them."""

    def __init__(self, response: httpx2.Response, limits: UpstreamSettings, begun: float) -> None:
        self._response, self._bytes = response, response.aiter_bytes()
        self._chunk_within = limits.chunk_within
        self._first_by = begun + limits.first_byte_within
        self._end_by = begun + limits.finish_within
        self.has_begun = False

    async def next(self) -> bytes:
        """The next part; empty at the end."""
        by = self._first_by
        if self.has_begun:
            by = asyncio.get_running_loop().time() + self._chunk_within
        with named_failures():
            async with asyncio.timeout_at(min(by, self._end_by)):
                while (part := await anext(self._bytes, None)) == b"":
                    pass
        return b"" if part is None else bytes(part)

    async def close(self) -> None:
        """End the response, also before its end."""
        with named_failures():
            await self._bytes.aclose()
            await self._response.aclose()
