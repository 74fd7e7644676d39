"""Another model in the body of a request, without changing anything else of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]')


def with_model(content: bytes, model: str) -> bytes:
    """A JSON object with this model, and all other bytes as they were.

    The content must be an object in UTF-8. To parse it and to write it again would change numbers,
    spaces and repeated names.
    """
    text, name = content.decode(), json.dumps(model)
    parts, done = [], 0
    for key, begin, end in _fields(text):
        if key == "model":
            parts += [text[done:begin], name]
            done = end
    if not parts:
        done = text.index("{") + 1
        is_empty = text[done:].lstrip().startswith("}")
        parts = [text[:done], f'"model": {name}', "" if is_empty else ", "]
    return "".join([*parts, text[done:]]).encode()


def _fields(text: str) -> Iterator[tuple[str, int, int]]:
    """The fields of an object, and where each value begins and ends."""
    depth, last, key, begin = 0, "", None, 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if depth == 1 and token in (",", "}") and key is not None:
            value = text[begin : found.start()]
            spaces = len(value) - len(value.lstrip())
            yield json.loads(key), begin + spaces, begin + len(value.rstrip())
            key = None
        if token in ("{", "["):
            depth += 1
        elif token in ("}", "]"):
            depth -= 1
        elif depth == 1 and token == ":":
            key, begin = last, found.end()
        elif depth == 1:
            last = token
