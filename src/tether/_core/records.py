"""Saved results: a record becomes a dictionary, a JSON file, and a record again; what checks found.

A record is a frozen dataclass. Its type hints say how JSON becomes a record again; its constructor
says whether it may be one. A file has the kind of record, its entries, a digest of both and, where
it was saved with a key, a signature.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tether._core import files
from tether._core.arrays import shown

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey, PublicKey

RECORD_PURPOSE = "tether record"
"""What a signature of a record is for."""
WORDS_FOR_FLOATS = ("inf", "-inf", "nan")


def to_plain(value: Any, change: Callable[[Any], Any] = lambda each: each) -> Any:
    """Convert records, arrays and numbers of numpy to plain values, each number changed."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name), change) for name in _saved_names(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, change) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        if 0 in value.shape[:-1]:
            raise ValueError(f"an array of shape {value.shape} cannot be saved: it has no rows")
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [to_plain(item, change) for item in value]
    return change(value.item() if isinstance(value, np.generic) else value)


def encode(value: Any) -> Any:
    """Convert to values of JSON; infinities and NaN, which it lacks, become strings.

    >>> encode({"beta": np.inf, "rows": np.arange(3)})
    {'beta': 'inf', 'rows': [0, 1, 2]}
    """
    return to_plain(
        value,
        lambda each: str(each) if isinstance(each, float) and not math.isfinite(each) else each,
    )


def decode(kind: Any, value: Any, name: str = "record") -> Any:
    """Undo `encode` for a value of a known type; errors say which entry is wrong.

    >>> decode(dict[str, float], {"low": 1, "high": "inf"})
    {'low': 1.0, 'high': inf}
    """
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if kind in (Any, object):
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, name)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(arguments, value, name)
    if origin is typing.Literal:
        _require(value in arguments, name, f"one of {arguments}", value)
        return value
    if origin is np.ndarray:
        return _decode_array(arguments, value, name)
    if origin in (list, tuple, Sequence, Iterable):
        _require(isinstance(value, list), name, "a list", value)
        kinds: Sequence[Any] = arguments
        if origin is not tuple or len(arguments) < 1 or arguments[-1] is Ellipsis:
            kinds = [arguments[0] if arguments else Any] * len(value)
        _require(len(value) == len(kinds), name, f"{len(kinds)} values", value)
        made = [decode(kinds[k], item, f"{name}[{k}]") for k, item in enumerate(value)]
        return made if origin is list else tuple(made)
    if origin in (dict, Mapping):
        _require(isinstance(value, dict), name, "a mapping", value)
        keys, items = arguments or (str, Any)
        return {
            int(key) if keys is int else key: decode(items, item, f"{name}[{key!r}]")
            for key, item in value.items()
        }
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _require(number or value in WORDS_FOR_FLOATS, name, "a number", value)
        return float(value)
    right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    _require(right, name, f"a value of type {kind.__name__}", value)
    return value


def _decode_record(kind: Any, value: Any, name: str) -> Any:
    known = _saved_names(kind)
    if not isinstance(value, dict) or set(value) != set(known):
        raise ValueError(
            f"{name} must have the entries of a {kind.__name__}, {known}, got {shown(value)}"
        )
    hints = typing.get_type_hints(kind)
    return kind(**{each: decode(hints[each], value[each], f"{name}.{each}") for each in known})


def _saved_names(record: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(record) if each.init]


def _decode_union(members: tuple[Any, ...], value: Any, name: str) -> Any:
    """The first member that the value can be; None and infinities first of all."""
    if value is None and type(None) in members:
        return None
    if float in members and isinstance(value, str) and value in WORDS_FOR_FLOATS:
        return float(value)
    problems = []
    for each in (each for each in members if each is not type(None)):
        try:
            return decode(each, value, name)
        except (ValueError, TypeError) as error:
            problems.append(error)
    raise problems[0]


def _decode_array(arguments: tuple[Any, ...], value: Any, name: str) -> NDArray[Any]:
    """An array that cannot be written to; strings only where the hint says `NDArray[np.str_]`."""
    _require(isinstance(value, list), name, "a list", value)
    hinted = typing.get_args(arguments[1])[0] if len(arguments) > 1 else Any
    wanted = None if hinted is Any else np.dtype(hinted)
    if hinted is not np.str_:
        value = to_plain(value, lambda each: float(each) if each in WORDS_FOR_FLOATS else each)
    try:
        array = np.array(value)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array, got {shown(value)}") from error
    if not array.size:
        array = array.astype(np.float64 if wanted is None else wanted)
    right = array.dtype.kind in "biuf" if wanted is None else np.can_cast(array.dtype, wanted)
    _require(bool(right), name, f"an array of {wanted or 'numbers'}", value)
    array = array if wanted is None or hinted is np.str_ else array.astype(wanted)
    array.flags.writeable = False
    return array


def _require(right: bool, name: str, wanted: str, value: Any) -> None:
    if not right:
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}")


def parse(path: str | Path) -> dict[str, Any]:
    """The entries of a saved record as they are in the file."""
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(entries, dict) or not isinstance(entries.get("kind"), str):
        raise ValueError(f"{path} is not a saved record: it holds no entry 'kind'")
    return entries


def digest_problem(entries: dict[str, Any]) -> str | None:
    """What is wrong with the digest of a record; None if it is that of the content."""
    content = {name: entries[name] for name in entries if name not in ("digest", "signature")}
    try:
        if entries.get("digest") == content_digest(content):
            return None
    except ValueError:  # NaN or Infinity, which are not JSON
        pass
    return f"the content does not match its digest, {entries.get('digest')!r}: it was changed"


def signature_problem(entries: dict[str, Any], key: PublicKey) -> str | None:
    """What is wrong with the signature of a record whose digest is right; None if it is the key's.

    Only the signature itself is believed: the key that a record names may have been written by
    anyone.
    """
    from tether._core import signing

    public, found = signing.read_public_key(key), entries.get("signature")
    if not isinstance(found, dict):
        return "the record is not signed"
    content = str(entries.get("digest")).encode()
    if signing.verify(content, found.get("signature"), public, purpose=RECORD_PURPOSE):
        return None
    return (
        f"the signature is not one by the key {signing.key_id(public)} for this content; the "
        f"record names the key {found.get('key')!r}"
    )


def content_digest(value: Any) -> str:
    """The digest of plain values, as the one JSON text that stands for them.

    >>> content_digest({"b": 1.0, "a": [True, None, "é"]})[:15]
    'sha256:04837a9c'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def kind_of(cls: type) -> str:
    """The kind of record that a class saves: its name in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()


class Saved:
    """A result that is saved as a JSON file of its own kind and loaded again.

    A frozen dataclass needs nothing else: its kind is the name of the class in words, and its type
    hints say how what was saved becomes an object again. Any other class has a `to_dict` and
    a `_from_saved` of its own.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is saved as plain values, by name."""
        content: dict[str, Any] = to_plain(self)
        return content

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        made: Self = decode(cls, saved, kind_of(cls))
        return made

    def save(
        self, path: str | Path, *, overwrite: bool = False, key: PrivateKey | None = None
    ) -> None:
        """Write everything as JSON, completely or not at all, for its owner alone (mode 0600).

        A digest tells whether the content was changed by someone who did not compute another one. A
        signature by `key`, the file of a private key (`tether keygen`; needs the extra `signing`),
        tells it in any case, to those who trust the key. An existing file is replaced only with
        `overwrite`, and a database never.
        """
        entries = {"kind": kind_of(type(self)), **encode(self.to_dict())}
        entries["digest"] = digest = content_digest(entries)
        if key is not None:
            from tether._core import signing

            private = signing.read_private_key(key)
            signed = signing.sign(digest.encode(), private, purpose=RECORD_PURPOSE)
            entries["signature"] = {"key": signing.key_id(private), "signature": signed}
        text = json.dumps(entries, indent=2, allow_nan=False)
        files.write_bytes(path, f"{text}\n".encode(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, *, key: PublicKey | None = None) -> Self:
        """Read what `save` wrote, and check that it is what was written.

        With `key`, the file of a public key, it must have signed the content. A ValueError says
        that the file does not hold a complete object of this class, that it was changed after it
        was saved, or that the signature is not the key's.
        """
        entries, kind = parse(path), kind_of(cls)
        if entries["kind"] != kind:
            raise ValueError(f"{path} holds {entries['kind']!r}, expected a saved {kind!r}")
        problem = digest_problem(entries) or (key and signature_problem(entries, key))
        if problem:
            raise ValueError(f"{path}: {problem}")
        names = entries.keys() - {"kind", "digest", "signature"}
        try:
            return cls._from_saved({name: entries[name] for name in names})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is not a complete {kind}: {error}") from error


MARKS = {True: "ok", False: "WRONG", None: "not checked"}
"""How the outcome of a check is shown."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was checked, and whether it holds; None if it could not be checked."""

    name: str
    ok: bool | None
    text: str

    def __str__(self) -> str:
        return f"{MARKS[self.ok]:<11}  {self.name}: {self.text}"


@dataclasses.dataclass(frozen=True)
class Verification:
    """Everything that was checked of a file or a store."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether something was checked and nothing is wrong."""
        return bool(self.findings) and not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(finding for finding in self.findings if finding.ok is False)

    def to_dict(self) -> dict[str, Any]:
        """The subject, the findings and whether all is well, as plain values."""
        plain: dict[str, Any] = to_plain(self)
        return {**plain, "ok": self.ok}

    def __str__(self) -> str:
        checked = sum(finding.ok is not None for finding in self.findings)
        outcome = f"{len(self.problems)} of {checked} checks failed"
        if self.ok:
            outcome = f"{checked} of {checked} checks passed"
        return "\n".join([f"{self.subject}: {outcome}", *(f"  {each}" for each in self.findings)])
