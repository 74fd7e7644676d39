"""Saved results: a record becomes a dictionary, a JSON file, and a record again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tether._core import files, signing
from tether._core.digests import content_digest

if TYPE_CHECKING:
    from tether._core.signing import PrivateKey, PublicKey

TEXT_ENTRIES = ("name", "family", "warnings")
"""Entries that hold text, which stays text even if it reads "inf"."""
NAMED_ENTRIES = (
    *("log_beta_by_constraint", "asked_promise", "upper_bounds", "risks", "promises", "curves"),
    *("promise_terms", "alpha", "promise", "bound", "groups"),
)
"""Entries that may be mappings by names that users choose, which can be those of any entry."""
DIGEST_ENTRY, SIGNATURE_ENTRY = ENTRIES_ABOUT_THE_CONTENT = ("digest", "signature")
"""Entries of a file that are not part of the content that they vouch for."""
RECORD_PURPOSE = "tether record"
"""What a signature of a record is for."""


def encode(value: Any) -> Any:
    """Convert to plain JSON values; infinities and NaN, which JSON lacks, become strings."""
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, np.ndarray):
        return encode(value.tolist())
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decode(value: Any, text_entries: tuple[str, ...] = TEXT_ENTRIES) -> Any:
    """Undo `encode`; the values of `text_entries` are left alone unless they are dictionaries."""
    if isinstance(value, dict):
        return {key: _decode_entry(key, item, text_entries) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item, text_entries) for item in value]
    if value in ("inf", "-inf", "nan"):
        return float(value)
    return value


def _decode_entry(name: str, value: Any, text_entries: tuple[str, ...]) -> Any:
    if not isinstance(value, dict):
        return value if name in text_entries else decode(value, text_entries)
    if name in NAMED_ENTRIES:
        return {chosen: decode(item, text_entries) for chosen, item in value.items()}
    return decode(value, text_entries)


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
    entries[DIGEST_ENTRY] = content_digest(entries)
    if key is not None:
        private = signing.read_private_key(key)
        entries[SIGNATURE_ENTRY] = {
            "key": signing.key_id(private),
            "signature": signing.sign(_signed(entries), private, purpose=RECORD_PURPOSE),
        }
    text = json.dumps(entries, indent=2, allow_nan=False)
    files.write_text(path, text + "\n", overwrite=overwrite)


def read(
    path: str | Path,
    kind: str,
    text_entries: tuple[str, ...] = TEXT_ENTRIES,
    *,
    key: PublicKey | None = None,
) -> dict[str, Any]:
    """Read a record that `write` wrote, and refuse any other file; with a key, an unsigned one."""
    entries = parse(path)
    if entries.get("kind") != kind:
        raise ValueError(f"{path} holds {entries.get('kind')!r}, expected a saved {kind!r}")
    problem = digest_problem(entries)
    if problem is None and key is not None:
        problem = signature_problem(entries, key)
    if problem is not None:
        raise ValueError(f"{path}: {problem}")
    return content_of(entries, text_entries)


def parse(path: str | Path) -> dict[str, Any]:
    """The entries of a saved record as they are in the file."""
    file = files.as_path("path", path)
    try:
        entries = json.loads(
            file.read_text(encoding="utf-8"),
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(entries, dict) or not isinstance(entries.get("kind"), str):
        raise ValueError(f"{path} is not a saved record: it holds no entry 'kind'")
    return entries


def content_of(
    entries: dict[str, Any], text_entries: tuple[str, ...] = TEXT_ENTRIES
) -> dict[str, Any]:
    """What a record says, without its kind, digest and signature."""
    outside = ("kind", *ENTRIES_ABOUT_THE_CONTENT)
    content: dict[str, Any] = decode(
        {name: value for name, value in entries.items() if name not in outside}, text_entries
    )
    return content


def digest_problem(entries: dict[str, Any]) -> str | None:
    """What is wrong with the digest of a record; None if it is that of the content."""
    stored = entries.get(DIGEST_ENTRY)
    if stored is None:
        return "the record has no digest: it was not written by this version, or was changed"
    try:
        own = content_digest(
            {
                name: value
                for name, value in entries.items()
                if name not in ENTRIES_ABOUT_THE_CONTENT
            }
        )
    except ValueError:
        return "the record holds a number that JSON cannot hold: it was changed after it was saved"
    if stored != own:
        return f"the content does not have the digest {stored!r}: it was changed after it was saved"
    return None


def signature_problem(entries: dict[str, Any], key: PublicKey) -> str | None:
    """What is wrong with the signature of a record whose digest is right; None if it is the key's.

    Only the signature itself is believed: the key that a record names may have been written by
    anyone.
    """
    public, found = signing.read_public_key(key), entries.get(SIGNATURE_ENTRY)
    if found is None:
        return "the record is not signed"
    signature = found.get("signature") if isinstance(found, dict) else None
    if isinstance(signature, str) and signing.verify(
        _signed(entries), signature, public, purpose=RECORD_PURPOSE
    ):
        return None
    return (
        f"the signature is not one of the key {signing.key_id(public)} for this content; the "
        f"record names the key {found.get('key') if isinstance(found, dict) else None!r}"
    )


def described(error: Exception) -> str:
    """An error in words; that of a missing entry is its name alone."""
    return f"the entry {error} is missing" if isinstance(error, KeyError) else str(error)


def _signed(entries: dict[str, Any]) -> bytes:
    """What is signed: the digest, which stands for kind and content."""
    return str(entries[DIGEST_ENTRY]).encode()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; with a repeated name, readers would differ in what they read."""
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the entry {repeated!r} occurs twice")
    return dict(pairs)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


class Saved:
    """A result that is saved as a JSON file of its own kind and loaded again.

    A class states its `_kind`, has a `to_dict`, and says in `_from_saved` how what `to_dict`
    returned becomes an object again.
    """

    _kind: ClassVar[str]
    _text_entries: ClassVar[tuple[str, ...]] = TEXT_ENTRIES

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is saved as plain values.

        Returns
        -------
        dict
            Names and values.
        """
        raise NotImplementedError

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        raise NotImplementedError

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
            was saved, contradicts itself, or is not signed by `key`.
        """
        saved = read(path, cls._kind, cls._text_entries, key=key)
        try:
            return cls._from_saved(saved)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}: {described(error)}") from error
