"""Parts of JSON schemas that the endpoints are described with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TEXT_SCHEMA = {"type": "string"}
NUMBER_SCHEMA = {"type": "number"}
INTEGER_SCHEMA = {"type": "integer"}
FLAG_SCHEMA = {"type": "boolean"}
SYSTEM_SCHEMA = {"type": "string", "enum": ["old", "new"]}
KEY_SCHEMA = {"oneOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}
REASON_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 1000}


def object_schema(
    properties: Mapping[str, Any], *, optional: Sequence[str] = (), closed: bool = True
) -> dict[str, Any]:
    """The schema of an object; all properties but the optional ones are required."""
    required = [name for name in properties if name not in optional]
    made: dict[str, Any] = {"type": "object", "required": required, "properties": dict(properties)}
    return made | {"additionalProperties": False} if closed else made


def list_schema(items: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a list."""
    return {"type": "array", "items": items}
