"""Saved results: a record becomes a dictionary, a JSON file, and a record again.

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
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tether._core import files
from tether._core.arrays import shown

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey, PublicKey

RECORD_PURPOSE = "tether record"
"""What a signature of a record is for."""
WORDS_FOR_FLOATS = ("inf", "-inf", "nan")


def to_plain(value: Any) -> Any:
    """Convert records, arrays and numbers of numpy to plain values, floats as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_plain(getattr(value, each.name)) for each in _saved_fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        if 0 in value.shape[:-1]:
            raise ValueError(f"an array of shape {value.shape} cannot be saved: it has no rows")
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def encode(value: Any) -> Any:
    """Convert to values of JSON; infinities and NaN, which it lacks, become strings.

    >>> encode({"beta": np.inf, "rows": np.arange(3)})
    {'beta': 'inf', 'rows': [0, 1, 2]}
    """
    return _each(
        to_plain(value),
        lambda each: str(each) if isinstance(each, float) and not math.isfinite(each) else each,
    )


def decode_plain(value: Any) -> Any:
    """Undo `encode` without types: every string that reads "inf", "-inf" or "nan" is a float."""
    return _each(value, lambda each: float(each) if each in WORDS_FOR_FLOATS else each)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Plain values with a change made to each of the innermost."""
    if isinstance(value, dict):
        return {key: _each(item, change) for key, item in value.items()}
    return [_each(item, change) for item in value] if isinstance(value, list) else change(value)


def decode(kind: Any, value: Any, name: str = "record") -> Any:
    """Undo `encode` for a value of a known type; errors say which entry is wrong.

    >>> decode(dict[str, float], {"low": 1, "high": "inf"})
    {'low': 1.0, 'high': inf}
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in (Any, object):
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, name)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(arguments, value, name)
    if origin is typing.Literal:
        _require(value in arguments, name, f"one of {arguments}", value)
        return value
    if np.ndarray in (kind, origin):
        return _decode_array(arguments, value, name)
    container = origin if isinstance(origin, type) else kind
    if container in (list, tuple, Sequence, Iterable):
        return _decode_items(container, arguments, value, name)
    if container in (dict, Mapping):
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
    wanted = type(None) if kind is None else kind
    right = isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))
    _require(right, name, f"a value of type {wanted.__name__}", value)
    return value


def _decode_record(kind: Any, value: Any, name: str) -> Any:
    _require(isinstance(value, dict), name, f"the entries of a {kind.__name__}", value)
    known = [each.name for each in _saved_fields(kind)]
    absent, unknown = sorted(set(known) - set(value)), sorted(set(value) - set(known))
    if absent or unknown:
        raise ValueError(
            f"{name} must have the entries of a {kind.__name__}: missing {absent}, unknown "
            f"{unknown}"
        )
    hints = typing.get_type_hints(kind)
    return kind(**{each: decode(hints[each], value[each], f"{name}.{each}") for each in known})


def _saved_fields(record: Any) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(record) if each.init]


def _decode_union(members: tuple[Any, ...], value: Any, name: str) -> Any:
    """The first member that the value can be; None and infinities first of all."""
    if value is None and type(None) in members:
        return None
    if float in members and isinstance(value, str) and value in WORDS_FOR_FLOATS:
        return float(value)
    problems = []
    for each in members:
        if each is not type(None):
            try:
                return decode(each, value, name)
            except (ValueError, TypeError) as error:
                problems.append(error)
    raise problems[0]


def _decode_array(arguments: tuple[Any, ...], value: Any, name: str) -> NDArray[Any]:
    """An array that cannot be written to; strings only where the hint says `NDArray[np.str_]`."""
    _require(isinstance(value, list), name, "a list", value)
    hinted = typing.get_args(arguments[1])[0] if len(arguments) > 1 else Any
    stated = None if hinted is Any else np.dtype(hinted)
    text = stated is not None and stated.kind == "U"
    try:
        array = np.array(value if text else decode_plain(value))
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array, got {shown(value)}") from error
    if not array.size:
        array = array.astype(np.float64 if stated is None else stated)
    right = array.dtype.kind in "biuf" if stated is None else np.can_cast(array.dtype, stated)
    wanted = "numbers" if stated is None else stated.name
    _require(bool(right), name, f"an array of {wanted}", value)
    array = array if stated is None or text else array.astype(stated)
    array.flags.writeable = False
    return array


def _decode_items(container: Any, arguments: tuple[Any, ...], value: Any, name: str) -> Any:
    _require(isinstance(value, list), name, "a list", value)
    kinds: Sequence[Any] = [arguments[0] if arguments else Any] * len(value)
    if container is tuple and len(arguments) and arguments[-1] is not Ellipsis:
        kinds = arguments
        _require(len(value) == len(kinds), name, f"{len(kinds)} values", value)
    made = [decode(kinds[k], item, f"{name}[{k}]") for k, item in enumerate(value)]
    return made if container is list else tuple(made)


def _require(right: bool, name: str, wanted: str, value: Any) -> None:
    if not right:
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}")


def write(
    path: str | Path,
    kind: str,
    content: dict[str, Any],
    *,
    overwrite: bool = False,
    key: PrivateKey | None = None,
) -> None:
    """Write a record as JSON with its kind, the digest of its content and, with a key, a signature.

    The digest tells whether the file was changed, if whoever changed it did not know how to compute
    another one. The signature tells it in any case, to those who trust the key.
    """
    entries = {"kind": kind, **encode(content)}
    entries["digest"] = digest = content_digest(entries)
    if key is not None:
        from tether._core import signing

        private = signing.read_private_key(key)
        signed = signing.sign(digest.encode(), private, purpose=RECORD_PURPOSE)
        entries["signature"] = {"key": signing.key_id(private), "signature": signed}
    text = json.dumps(entries, indent=2, allow_nan=False)
    files.write_text(path, text + "\n", overwrite=overwrite)


def read(path: str | Path, kind: str, *, key: PublicKey | None = None) -> dict[str, Any]:
    """Read a record that `write` wrote, and refuse any other file; with a key, an unsigned one."""
    entries = parse(path)
    if entries["kind"] != kind:
        raise ValueError(f"{path} holds {entries['kind']!r}, expected a saved {kind!r}")
    problem = digest_problem(entries) or (key and signature_problem(entries, key))
    if problem:
        raise ValueError(f"{path}: {problem}")
    return {name: entries[name] for name in entries if name not in ("kind", "digest", "signature")}


def parse(path: str | Path) -> dict[str, Any]:
    """The entries of a saved record as they are in the file."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):  # readers would differ in what they read
            raise ValueError("an entry occurs twice")
        return dict(pairs)

    try:
        text = files.as_path("path", path).read_text(encoding="utf-8")
        entries = json.loads(text, object_pairs_hook=unique)
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
    return f"the content does not have its digest, {entries.get('digest')!r}: it was changed"


def signature_problem(entries: dict[str, Any], key: PublicKey) -> str | None:
    """What is wrong with the signature of a record whose digest is right; None if it is the key's.

    Only the signature itself is believed: the key that a record names may have been written by
    anyone.
    """
    from tether._core import signing

    public, found = signing.read_public_key(key), entries.get("signature")
    if not isinstance(found, dict):
        return "the record is not signed"
    content = str(entries["digest"]).encode()
    if signing.verify(content, found.get("signature", ""), public, purpose=RECORD_PURPOSE):
        return None
    return (
        f"the signature is not one of the key {signing.key_id(public)} for this content; the "
        f"record names the key {found.get('key')!r}"
    )


def content_digest(value: Any) -> str:
    """The digest of plain values, as the one JSON text that stands for them.

    >>> content_digest({"b": 1.0, "a": [True, None, "é"]})[:15]
    'sha256:04837a9c'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


class Saved:
    """A result that is saved as a JSON file of its own kind and loaded again.

    A frozen dataclass needs nothing else: its `_kind` is the name of the class in words, and its
    type hints say how what was saved becomes an object again. Any other class has a `to_dict` and
    a `_from_saved` of its own.
    """

    _kind: ClassVar[str]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "_kind" not in cls.__dict__:
            cls._kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is saved as plain values.

        Returns
        -------
        dict
            Names and values.
        """
        content: dict[str, Any] = to_plain(self)
        return content

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        made: Self = decode(cls, saved, cls._kind)
        return made

    def save(
        self, path: str | Path, *, overwrite: bool = False, key: PrivateKey | None = None
    ) -> None:
        """Write everything as JSON, with a digest of the content.

        The file is written completely or not at all, and only its owner can read it (mode 0600).

        Parameters
        ----------
        path : str or pathlib.Path
            The file to write.
        overwrite : bool, default False
            Whether to replace an existing file. A database is never replaced.
        key : str or pathlib.Path, optional
            The file of a private key (`tether keygen`) to sign the content with. Needs the extra
            `signing`.

        Raises
        ------
        FileExistsError
            If there is such a file and `overwrite` is false, or it is a database.
        OSError
            If the file cannot be written; an existing one is then unchanged.
        """
        write(path, self._kind, self.to_dict(), overwrite=overwrite, key=key)

    @classmethod
    def load(cls, path: str | Path, *, key: PublicKey | None = None) -> Self:
        """Read what `save` wrote, and check that it is what was written.

        Parameters
        ----------
        path : str or pathlib.Path
            The file to read.
        key : str or pathlib.Path, optional
            The file of the public key that must have signed the content.

        Returns
        -------
        Self
            What was saved.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If the file does not hold a complete saved object of this class, was changed after it
            was saved, or is not signed by `key`.
        """
        saved = read(path, cls._kind, key=key)
        if cls._from_saved.__func__ is not Saved._from_saved.__func__:  # type: ignore[attr-defined]
            saved = decode_plain(saved)
        try:
            return cls._from_saved(saved)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            missing = isinstance(error, KeyError)  # its text is the name alone
            said = f"the entry {error} is missing" if missing else str(error)
            raise ValueError(f"{path}: {said}") from error
