"""From an object to a table of what it is made of: plain JSON, and members with arrays and models.

Objects are listed after their parts, and equal ones once. So a file is as large as what is in it,
however often a policy is part of others, and the same policy always has the same table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tether.saving.archive import canonical_json
from tether.saving.array_members import array_to_bytes, is_plain
from tether.saving.errors import CannotSaveError
from tether.saving.kind import Kind, Member
from tether.saving.kinds import KINDS

OBJECT_TABLE = "policy.json"
"""The member with the table of objects."""
GIVEN = "given"
"""The kind of the part that is not in the file, and is given again when it is loaded."""


def encode(policy: Any, *, notes: bool, given: Any = None) -> dict[str, bytes]:
    """The members of a file with this policy; without `notes`, only what determines it.

    The part of it that is `given` is left out.
    """
    encoder = _Encoder(notes, given)
    try:
        encoder.index("policy", policy)
    except RecursionError:
        raise CannotSaveError("policy is nested too deeply to be saved") from None
    return {OBJECT_TABLE: canonical_json(encoder.table), **encoder.members}


class _Encoder:
    def __init__(self, notes: bool, given: Any = None) -> None:
        self.table: list[Any] = []
        self.members: dict[str, bytes] = {}
        self._notes, self._given = notes, given
        self._places: dict[bytes, int] = {}
        self._names: dict[tuple[str, bytes], str] = {}
        self._known: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def index(self, where: str, value: Any) -> int:
        """The place of an object in the table, which it is added to if it is new."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if id(value) in self._open:
            raise CannotSaveError(f"{where} contains itself")
        self._open.add(id(value))
        node = self._node(where, value)
        self._open.remove(id(value))
        key = canonical_json(node)
        if key not in self._places:
            self._places[key] = len(self.table)
            self.table.append(node)
        self._known[id(value)] = (value, self._places[key])  # the value is kept, and its id with it
        return self._places[key]

    def _node(self, where: str, value: Any) -> dict[str, Any]:
        if value is self._given:
            return {"kind": GIVEN, "state": {}}
        kind = _kind_of(where, value)
        try:
            parts = {"state": kind.state(value)}
            if kind.notes is not None and self._notes:
                parts["notes"] = kind.notes(value)
        except CannotSaveError as error:
            raise CannotSaveError(f"{where} {error}") from error
        encoded = {
            part: {name: self._value(f"{where}.{name}", item) for name, item in content.items()}
            for part, content in parts.items()
        }
        return {"kind": kind.name, **encoded}

    def _value(self, where: str, value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        if type(value) in (list, tuple):
            items = [self._value(f"{where}[{place}]", item) for place, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if type(value) is dict:
            if not all(isinstance(key, str) for key in value):
                raise CannotSaveError(f"{where} is a dictionary with keys that are not text")
            pairs = [[key, self._value(f"{where}.{key}", value[key])] for key in value]
            return {"mapping": pairs}  # in its order, which JSON would not keep
        if isinstance(value, np.ndarray):
            return {"array": self._array(where, value)}
        if isinstance(value, Member):
            return {"member": self._member(value.ending, value.content)}
        return {"object": self.index(where, value)}

    def _array(self, where: str, array: Any) -> str:
        if type(array) is not np.ndarray or not is_plain(array):
            raise CannotSaveError(
                f"{where} is an array of {array.dtype} ({type(array).__name__}); only plain arrays "
                f"of truth values, numbers, text or times are saved"
            )
        return self._member("npy", array_to_bytes(array))

    def _member(self, ending: str, content: bytes) -> str:
        """The name of a member; equal ones are the same member."""
        folder = {"npy": "arrays"}.get(ending, "models")
        name = self._names.setdefault((ending, content), f"{folder}/{len(self.members)}.{ending}")
        self.members[name] = content
        return name


def _kind_of(where: str, value: Any) -> Kind:
    for kind in KINDS:
        if kind.recognizes(value):
            return kind
    raise CannotSaveError(
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which is not known to "
        f"tether. Give the class the methods tether_save(self), which returns a dictionary, and "
        f"the class method tether_load(cls, saved); or make the object with "
        f"tether.policy_from('package.module:function', …)"
    )
