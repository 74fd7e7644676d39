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
from collections.abc import Callable, Iterator, Mapping
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

    >>> decode(dict[str, float], {"low": 0.5, "high": "inf"})
    {'low': 0.5, 'high': inf}
    """
    origin: Any = typing.get_origin(kind) or kind
    arguments = typing.get_args(kind)
    if kind in (Any, object):
        return value
    if origin in (typing.Union, types.UnionType):
        members = [each for each in arguments if each is not types.NoneType]
        if value is None and len(members) < len(arguments):
            return None
        is_text = isinstance(value, str) and value not in WORDS_FOR_FLOATS
        return decode(min(members, key=lambda each: (each is str) != is_text), value, name)
    if dataclasses.is_dataclass(kind):
        hints, known = typing.get_type_hints(origin), _saved_names(origin)
        wanted = f"the entries of a {origin.__name__}, {known}"
        _require(isinstance(value, dict) and set(value) == set(known), name, wanted, value)
        return origin(
            **{each: decode(hints[each], value[each], f"{name}.{each}") for each in known}
        )
    if origin is np.ndarray:
        return _decode_array(typing.get_args(arguments[1])[0], value, name)
    if kind is float and value in WORDS_FOR_FLOATS:
        return float(value)
    accepted: Any = {tuple: list, float: (int, float)}.get(origin, origin)
    right = isinstance(value, accepted) and not (kind in (int, float) and isinstance(value, bool))
    _require(right, name, f"of type {origin.__name__}", value)
    if origin is dict:
        key_kind, item_kind = arguments
        return {key_kind(k): decode(item_kind, value[k], f"{name}[{k!r}]") for k in value}
    if origin in (list, tuple):
        is_fixed = origin is tuple and arguments[-1] is not Ellipsis
        kinds = arguments if is_fixed else arguments[:1] * len(value)
        _require(len(value) == len(kinds), name, f"{len(kinds)} values", value)
        return origin(decode(kinds[k], item, f"{name}[{k}]") for k, item in enumerate(value))
    return value


def _saved_names(record: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(record) if each.init]


def _decode_array(wanted: Any, value: Any, name: str) -> NDArray[Any]:
    """An array that cannot be written to."""
    plain = to_plain(value, lambda each: float(each) if each in WORDS_FOR_FLOATS else each)
    try:
        array = np.array(plain)
        array = array.astype(wanted, casting="safe" if array.size else "unsafe")
    except (ValueError, TypeError) as error:  # rows of different lengths, or other values
        raise ValueError(f"{name} must be an array, got {shown(value)}") from error
    _require(array.ndim > 0, name, "an array", value)
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


def findings(
    entries: dict[str, Any], key: PublicKey | None = None
) -> Iterator[tuple[str, bool | None, str]]:
    """Whether a record has the digest of its content, and whether a key signed it, in words.

    Only the signature itself is believed: the key that a record names may have been written by
    anyone.
    """
    digest, signature = entries.get("digest"), entries.get("signature")
    content = {name: entries[name] for name in entries if name not in ("digest", "signature")}
    try:
        right = digest == content_digest(content)
    except ValueError:  # NaN or Infinity, which are not JSON
        right = False
    told = f"the content has the digest {digest}"
    changed = f"the content does not match its digest, {digest!r}: it was changed"
    yield "digest", right, told if right else changed
    named = signature.get("key") if isinstance(signature, dict) else None
    if key is None:
        told = f"claims to be signed by {named}: give the public key"
        forged = "not signed: whoever can write the file can forge it"
        yield "signature", None, forged if signature is None else told
        return
    from tether._core import signing

    public = signing.read_public_key(key)
    signed = signature.get("signature") if isinstance(signature, dict) else None
    valid = signing.verify(str(digest).encode(), signed, public, purpose=RECORD_PURPOSE)
    told = "a" if right and valid else "no"
    told += f" signature of this content by {signing.key_id(public)}; the record names {named}"
    yield "signature", right and valid, told


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
        for _, right, text in findings(entries, key):
            if right is False:
                raise ValueError(f"{path}: {text}")
        names = entries.keys() - {"kind", "digest", "signature"}
        try:
            return cls._from_saved({name: entries[name] for name in names})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is not a complete {kind}: {error}") from error
