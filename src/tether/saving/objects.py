"""From an object to a table of what it is made of, plain JSON and members, and back.

Objects are listed after their parts, and each once, however often it is part of others. A value is
JSON, or has one of the tags `float`, `tuple`, `mapping`, `array`, `member` and `object`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from tether._core.files import import_path
from tether.saving.archive import ARRAY_KINDS, array_from_bytes, array_to_bytes

OBJECT_TABLE = "policy.json"
"""The member with the format and the table of objects."""
SAVED_FORMAT = 2
"""The version of the format; a reader refuses others."""
AllowImports: TypeAlias = "bool | Iterable[str] | Callable[[str], bool]"
"""True, names of modules and packages, or a function of an import path."""
IMPORTED_BY_DEFAULT = ("tether.policies", "tether.bo")
"""The packages whose public names are always allowed. Not tether.llm, which connects to servers."""


class CannotSaveError(TypeError):
    """A part of a policy has no form in which it can be saved; the message says which and why."""


@dataclass(frozen=True)
class Member:
    """Bytes that become a member of the file, such as the weights of a model."""

    content: bytes
    ending: str


class Permissions:
    """Which import paths a file may use, and which types beyond the usual ones its models have."""

    def __init__(self, allow_imports: AllowImports = (), trusted: Iterable[str] = ()) -> None:
        self.trusted = (trusted,) if isinstance(trusted, str) else tuple(trusted)
        self._allow: Any = allow_imports
        if not isinstance(allow_imports, bool) and not callable(allow_imports):
            names = (allow_imports,) if isinstance(allow_imports, str) else tuple(allow_imports)
            self._allow = names

    def find(self, path: Any) -> Any:
        """Import what a path of a file names, if it is allowed."""
        module_name = str(path).partition(":")[0]
        if self._allow is True or (callable(self._allow) and self._allow(path)):
            return import_path(path)
        prefixes = self._allow if isinstance(self._allow, tuple) else ()
        if not _is_within(module_name, (*prefixes, *IMPORTED_BY_DEFAULT)):
            raise ValueError(
                f"the file names the import path {path!r}, and to import it is to run code of "
                f"{module_name!r}: pass allow_imports=[{module_name!r}] if you trust this module"
            )

        def accept(found: Any) -> bool:
            """Whether an object on the way was defined where it is allowed, not imported there."""
            origin = str(getattr(found, "__module__", None))
            return _is_within(origin, prefixes) or any(
                found is getattr(import_module(room), name)
                for room in IMPORTED_BY_DEFAULT
                if _is_within(origin, (room,))
                for name in {*import_module(room).__all__} - {"policy_from"}
            )

        return import_path(path, accept)


def _is_within(module_name: str, packages: Iterable[str]) -> bool:
    return any(module_name == each or module_name.startswith(f"{each}.") for each in packages)


@dataclass(frozen=True)
class Kind:
    """How objects of a kind are taken apart and put together again.

    `state` returns everything that determines what an object does: plain values, arrays, members
    and other objects. `build` takes the same by name, after the permissions if it `asks` for them.
    """

    name: str
    state: Callable[[Any], dict[str, Any]]
    build: Callable[..., Any]
    asks: bool = False


def encode(value: Any, kind_of: Callable[[Any], Kind | None]) -> dict[str, bytes]:
    """The members of a file with this object."""
    encoder = _Encoder(kind_of)
    try:
        encoder.index("policy", value)
    except RecursionError:
        raise CannotSaveError("policy is nested too deeply, or contains itself") from None
    table = json.dumps([SAVED_FORMAT, encoder.table], separators=(",", ":"), allow_nan=False)
    return {OBJECT_TABLE: table.encode("ascii"), **encoder.members}


class _Encoder:
    def __init__(self, kind_of: Callable[[Any], Kind | None]) -> None:
        self.table: list[Any] = []
        self.members: dict[str, bytes] = {}
        self._kind_of = kind_of
        self._known: dict[int, tuple[Any, int]] = {}

    def index(self, where: str, value: Any) -> int:
        """The place of an object in the table, which it is added to if it is new."""
        if id(value) in self._known:
            return self._known[id(value)][1]
        kind = self._kind_of(value)
        if kind is None:
            raise CannotSaveError(
                f"{where} is a {type(value).__qualname__}, which tether does not know: give it "
                "tether_save and tether_load, or make it with tether.policies.policy_from"
            )
        try:
            state = kind.state(value)
        except CannotSaveError as error:
            raise CannotSaveError(f"{where} {error}") from error
        entries = {name: self._value(f"{where}.{name}", item) for name, item in state.items()}
        self.table.append([kind.name, entries])
        self._known[id(value)] = (value, len(self.table) - 1)  # kept, and its id with it
        return len(self.table) - 1

    def _value(self, where: str, value: Any) -> Any:
        if isinstance(value, np.generic) and value.dtype.kind in "biufU":
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
            plain = type(value) is np.ndarray and value.dtype.kind in ARRAY_KINDS
            if not plain or value.dtype.itemsize == 0:
                raise CannotSaveError(f"{where} is an array of {value.dtype}, not of plain values")
            return {"array": self._member("arrays", Member(array_to_bytes(value), "npy"))}
        if isinstance(value, Member):
            return {"member": self._member("models", value)}
        return {"object": self.index(where, value)}

    def _member(self, folder: str, member: Member) -> str:
        name = f"{folder}/{len(self.members)}.{member.ending}"
        self.members[name] = member.content
        return name


def decode(members: dict[str, bytes], kinds: dict[str, Kind], permissions: Permissions) -> Any:
    """The policy in the members of a file: the last object of its table."""
    try:
        content = json.loads(members.get(OBJECT_TABLE, b""))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{OBJECT_TABLE} is not valid JSON: {error}") from error
    if not isinstance(content, list) or len(content) != 2 or content[0] != SAVED_FORMAT:
        raise ValueError(f"{OBJECT_TABLE} must have format {SAVED_FORMAT}, got {content!r:.40}")
    objects: list[Any] = []
    for place, node in enumerate(content[1]):
        kind = node[0] if isinstance(node, list) and node else node
        what = f"object {place} of the file ({kind!r:.40})"
        try:
            name, entries = node
            if name not in kinds:
                raise ValueError(f"there is no kind {name!r:.80} in this version of tether")
            state = {key: _decoded(item, members, objects) for key, item in entries.items()}
            asked = (permissions,) if kinds[name].asks else ()
            objects.append(kinds[name].build(*asked, **state))
        except ImportError as error:  # an extra that is not installed
            raise ImportError(f"{what}: {error}") from error
        except Exception as error:  # wrong values fail in many ways
            raise ValueError(f"{what}: {error}") from error
    if not objects:
        raise ValueError(f"{OBJECT_TABLE} has no objects")
    return objects[-1]


def _decoded(value: Any, members: dict[str, bytes], objects: list[Any]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_decoded(item, members, objects) for item in value]
    ((tag, content),) = value.items()
    if tag == "mapping":
        found = {str(key): _decoded(item, members, objects) for key, item in content}
        if len(found) == len(content):
            return found
    if tag == "tuple":
        return tuple(_decoded(item, members, objects) for item in content)
    if tag == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if tag == "object" and type(content) is int and 0 <= content < len(objects):
        return objects[content]
    if tag == "member" and content in members:
        return members[content]
    if tag == "array" and content in members:
        return array_from_bytes(content, members[content])
    raise ValueError(f"the value {{{tag!s:.20}: {content!r:.80}}} refers to nothing in the file")
