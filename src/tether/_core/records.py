"""Saved results: a record becomes a dictionary, a JSON file, and a record again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

TEXT_ENTRIES = ("name", "family", "warnings")
"""Entries that hold text, which stays text even if it reads "inf"."""


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
        return {
            key: item
            if key in text_entries and not isinstance(item, dict)
            else decode(item, text_entries)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [decode(item, text_entries) for item in value]
    if value in ("inf", "-inf", "nan"):
        return float(value)
    return value


def write(path: str | Path, kind: str, content: dict[str, Any]) -> None:
    """Write a record as JSON, marked with its kind."""
    text = json.dumps({"kind": kind, **encode(content)}, indent=2, allow_nan=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def read(
    path: str | Path, kind: str, text_entries: tuple[str, ...] = TEXT_ENTRIES
) -> dict[str, Any]:
    """Read a record that `write` wrote, and refuse any other file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8
        raise ValueError(f"{path} is not JSON: {error}") from error
    stored_kind = content.pop("kind", None) if isinstance(content, dict) else None
    if not isinstance(content, dict) or stored_kind != kind:
        raise ValueError(f"{path} holds {stored_kind!r}, expected a saved {kind!r}")
    decoded: dict[str, Any] = decode(content, text_entries)
    return decoded


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

    def save(self, path: str | Path) -> None:
        """Write everything as JSON.

        Parameters
        ----------
        path : str or pathlib.Path
            The file to write.
        """
        write(path, self._kind, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or pathlib.Path
            The file to read.

        Returns
        -------
        Self
            What was saved.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If the file does not hold a complete saved object of this class.
        """
        saved = read(path, cls._kind, cls._text_entries)
        try:
            return cls._from_saved(saved)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
