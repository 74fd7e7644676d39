"""Server-sent events of OpenAI's protocol, without changing a byte of them."""

from __future__ import annotations

import json
import re
from typing import Any

_END_OF_EVENT = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_DATA = re.compile(rb"(?:^|(?<=[\r\n]))data: ?([^\r\n]*)")
_LAST = re.compile(rb'(?:^|(?<=[\r\n]))data: ?\[DONE\]|"finish_reason"\s*:\s*"')


class WholeEvents:
    """Cuts a stream of bytes after events, so that nothing half is ever sent on."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def take(self, chunk: bytes) -> bytes:
        """Add what has arrived; all events that are complete now."""
        if not self._begun and chunk.endswith(b"\n\n"):  # the usual case, without a copy
            return chunk
        searched = max(0, len(self._begun) - 3)  # the end of an event may itself be cut
        self._begun += chunk
        end = 0
        for found in _END_OF_EVENT.finditer(self._begun, searched):
            end = found.end()
        whole = bytes(self._begun[:end])
        del self._begun[:end]
        return whole

    def end(self) -> bytes:
        """What is left at the end of a stream, which may lack its last empty line."""
        left = bytes(self._begun)
        self._begun.clear()
        return left

    def __len__(self) -> int:
        """How many bytes wait for the end of their event."""
        return len(self._begun)


def first_data(events: bytes) -> bytes | None:
    """The data of the first event that has any; None while there are only comments."""
    found = _DATA.search(events)
    return None if found is None else found[1]


def has_error(events: bytes) -> bool:
    """Whether one of the events says that the answer failed, as servers do amid a stream."""
    return b'"error"' in events and any(map(_is_error, _DATA.findall(events)))


def has_end(events: bytes) -> bool:
    """Whether one of the events says that an answer is complete, or that nothing follows."""
    return _LAST.search(events) is not None


def error_event(error: dict[str, Any]) -> bytes:
    """The event that ends a stream that failed; OpenAI's clients raise it as an error."""
    return b"data: " + json.dumps(error).encode() + b"\n\n"


def _is_error(data: bytes) -> bool:
    """Whether an event is an error, wherever it stands in its object; null is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("error") is not None
