"""Which headers pass through a gateway: no credentials, nothing about one connection alone."""

from __future__ import annotations

from collections.abc import Iterable

RawHeaders = Iterable[tuple[bytes, bytes]]

NOT_SENT_ON = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade host content-length expect accept-encoding authorization "
    b"x-api-key api-key x-goog-api-key cookie origin referer forwarded via".split()
)
"""Headers of a request that an upstream does not see: above all the API key of this service."""
NOT_SENT_BACK = frozenset(
    b"x-content-type-options x-frame-options x-xss-protection x-powered-by x-robots-tag "
    b"x-permitted-cross-domain-policies x-dns-prefetch-control x-download-options "
    b"x-accel-buffering x-accel-redirect x-accel-expires x-sendfile x-ua-compatible".split()
)
"""Headers of an answer that speak for the upstream's own web site."""
_OWN, _SENT_BACK = b"x-tether-", (b"x-", b"openai-", b"retry-after")


def request_headers(given: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The headers of a client's request that an upstream may see."""
    headers = [(name.lower(), value) for name, value in given]
    named = {
        each.strip().lower()
        for name, value in headers
        if name == b"connection"
        for each in value.split(b",")
    }
    refused = NOT_SENT_ON | named
    return [
        (name, value)
        for name, value in headers
        if name not in refused and not name.startswith((_OWN, b"x-forwarded-", b"sec-"))
    ]


def answer_headers(given: RawHeaders) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of an upstream's answer that a client may see: what OpenAI's clients read."""
    return tuple(
        (name.lower(), value)
        for name, value in given
        if name.lower() == b"content-type"
        or (
            name.lower().startswith(_SENT_BACK)
            and not name.lower().startswith(_OWN)
            and name.lower() not in NOT_SENT_BACK
        )
    )
