"""Bodies of requests: JSON objects, no longer than allowed, with nothing that is no JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NoReturn

from starlette.requests import Request
from starlette.types import Receive

from tether.rounds.releases.key_rows import key_content
from tether.service.api_errors import ApiError

JSON_TYPE = "application/json"
"""What every body is."""


async def read_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """The JSON object that is the body of a request."""
    return parse_object(await read_content(request.headers, request.receive, max_bytes))


async def read_content(headers: Mapping[str, str], receive: Receive, max_bytes: int) -> bytes:
    """The body of a request that says that it is JSON, and is no longer than allowed."""
    kind = headers.get("content-type", "")
    if kind != JSON_TYPE:
        kind = kind.partition(";")[0].strip().lower()
        if kind != JSON_TYPE:
            raise ApiError(415, f"the content type must be application/json, got {kind!r:.80}")
    stated = headers.get("content-length", "0")
    if not stated.isdecimal() or len(stated) > 18 or int(stated) > max_bytes:
        raise ApiError(413, f"a body may have at most {max_bytes:,} bytes")
    content, has_more = b"", True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, "the client has closed the connection")
        content += message.get("body", b"")
        has_more = message.get("more_body", False)
        if len(content) > max_bytes:
            raise ApiError(413, f"a body may have at most {max_bytes:,} bytes")
    return content


def parse_object(content: bytes, *, forwarded: bool = False) -> dict[str, Any]:
    """A JSON object, in UTF-8; a name that is there twice is refused, unless it is forwarded as is.

    Of two losses of one name nobody knows which is meant.
    """
    try:
        body = (_DECODER if forwarded else _DECODER_OF_UNIQUE_NAMES).decode(content.decode())
    except (_RepeatedNameError, _ConstantError) as error:
        raise ApiError(400, str(error)) from None
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise ApiError(400, "the body must be JSON") from None
    if not isinstance(body, dict):
        raise ApiError(400, f"the body must be a JSON object, got {type(body).__name__}")
    return body


class _ConstantError(ValueError):
    """A number that JSON does not have."""


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantError(
        f"the body must be JSON, which has no {name}: leave out what is not known, such as a loss"
    )


class _RepeatedNameError(ValueError):
    """An object has a name twice."""


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _RepeatedNameError(f"the body has {repeated!r:.80} more than once in one object")
    return made


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_DECODER_OF_UNIQUE_NAMES = json.JSONDecoder(
    parse_constant=_refuse_constant, object_pairs_hook=_unique_names
)


def refuse_others(body: dict[str, Any], known: Sequence[str], where: str = "the body") -> None:
    """Refuse names that nobody reads: a misspelled one must not be ignored."""
    unknown = sorted(set(body) - set(known))
    if unknown:
        raise ApiError(400, f"{where} may have {', '.join(known)}, got {unknown[0]!r:.80}")


def read_key(value: Any, name: str = "key") -> bytes:
    """A key of the release: text or an integer."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ApiError(400, f"{name} must be text or an integer, got {value!r:.80}")
    try:
        return key_content(value)
    except ValueError as error:
        raise ApiError(400, f"{name}: {error}") from None


def encode_json(content: Mapping[str, Any]) -> bytes:
    """An object as JSON."""
    return _ENCODER.encode(content).encode()


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_key(key: str | int) -> str:
    """A key as JSON, as it was given."""
    return encode_basestring(key) if isinstance(key, str) else str(key)


def read_text(body: dict[str, Any], name: str, most: int = 1_000) -> str:
    """A text that is not blank."""
    value = body.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise ApiError(400, f"{name} must be text of 1 to {most:,} characters, got {value!r:.80}")
    return value
