"""From the members of a file to an object: every value is checked before it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.saving.archive import read_json
from tether.saving.array_members import array_from_bytes
from tether.saving.encoder import GIVEN, OBJECT_TABLE
from tether.saving.kinds import KINDS
from tether.saving.permissions import Permissions

MAX_OBJECTS = 100_000
"""How many objects a file may describe."""


def decode(members: dict[str, bytes], permissions: Permissions, given: Any = None) -> Any:
    """The policy in the members of a file: the last object of its table.

    `given` takes the place of the part that was left out.
    """
    if OBJECT_TABLE not in members:
        raise ValueError(f"the file has no {OBJECT_TABLE}")
    table = read_json(OBJECT_TABLE, members[OBJECT_TABLE])
    if not isinstance(table, list) or not 0 < len(table) <= MAX_OBJECTS:
        raise ValueError(f"{OBJECT_TABLE} must be a list of 1 to {MAX_OBJECTS:,} objects")
    decoder = _Decoder(members, permissions, given)
    for place, node in enumerate(table):
        kind = node.get("kind") if isinstance(node, dict) else None
        what = f"object {place} of the file ({str(kind)[:40]})"
        try:
            decoder.add(node)
        except ImportError as error:  # an extra that is not installed
            raise ImportError(f"{what}: {error}") from error
        except RecursionError:
            raise ValueError(f"{what} is nested too deeply") from None
        except Exception as error:  # wrong values fail in many ways
            raise ValueError(f"{what}: {error}") from error
    return decoder.objects[-1]


class _Decoder:
    def __init__(self, members: dict[str, bytes], permissions: Permissions, given: Any) -> None:
        self.objects: list[Any] = []
        self._members, self._permissions, self._given = members, permissions, given
        self._arrays: dict[str, Any] = {}
        self._kinds = {kind.name: kind for kind in KINDS}

    def add(self, node: Any) -> None:
        """Build the next object of the table from those before it."""
        if not isinstance(node, dict) or not {"kind", "state"} <= set(node):
            raise ValueError("it has no kind and state")
        if node == {"kind": GIVEN, "state": {}}:
            if self._given is None:
                raise ValueError("this part was not saved: pass it as `given`")
            self.objects.append(self._given)
            return
        kind = self._kinds.get(node["kind"]) if isinstance(node["kind"], str) else None
        if kind is None:
            raise ValueError(
                f"there is no kind {str(node['kind'])[:80]!r} in this version of tether"
            )
        made = kind.make(self._permissions, self._entries(node["state"]))
        extra = set(node) - {"kind", "state", "notes"}
        if extra or ("notes" in node and kind.attach is None):
            raise ValueError(f"it has entries that a {kind.name} has not: {sorted(node)}")
        if kind.attach is not None:
            kind.attach(made, **self._entries(node.get("notes", {})))
        self.objects.append(made)

    def _entries(self, content: Any) -> dict[str, Any]:
        if not isinstance(content, dict):
            raise ValueError(f"expected named values, got {repr(content)[:80]}")
        return {name: self._value(item) for name, item in content.items()}

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if len(value) != 1:
            raise ValueError(f"a value must have one tag, got {repr(value)[:80]}")
        ((tag, content),) = value.items()
        if tag == "mapping":
            return self._mapping(content)
        if tag == "tuple" and isinstance(content, list):
            return tuple(self._value(item) for item in content)
        if tag == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if tag == "object" and type(content) is int and 0 <= content < len(self.objects):
            return self.objects[content]
        if tag == "member" and isinstance(content, str) and content in self._members:
            return self._members.pop(content)  # each is part of one object
        if tag == "array" and isinstance(content, str):
            return self._array(content)
        raise ValueError(f"there is no {str(tag)[:20]} {repr(content)[:80]} to be found here")

    def _mapping(self, pairs: Any) -> dict[str, Any]:
        found = {}
        for key, item in pairs:
            if not isinstance(key, str) or key in found:
                raise ValueError(f"a mapping has the key {repr(key)[:80]} twice, or it is no text")
            found[key] = self._value(item)
        return found

    def _array(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self._arrays:
            if name not in self._members:
                raise ValueError(f"there is no array {name[:80]!r} in the file")
            self._arrays[name] = array_from_bytes(name, self._members[name])
        found: np.ndarray[Any, Any] = self._arrays[name]
        return found
