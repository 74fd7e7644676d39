"""Results that keep: a frozen record becomes a dictionary, a JSON file, and a record again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("name", "family", "warnings")
"""Entries that hold words, and stay words even if the word is "inf"."""


def encode(value: Any) -> Any:
    """Plain JSON values; the infinities and NaN, which JSON lacks, become strings."""
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


def decode(value: Any, words: tuple[str, ...] = WORDS) -> Any:
    """Undo `encode`, but for entries that hold `words`; an entry with entries is a record."""
    if isinstance(value, dict):
        return {
            key: item if key in words and not isinstance(item, dict) else decode(item, words)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [decode(item, words) for item in value]
    if value in ("inf", "-inf", "nan"):
        return float(value)
    return value


def write(path: str | Path, kind: str, content: dict[str, Any]) -> None:
    """Write a record as JSON, marked with its kind."""
    text = json.dumps({"kind": kind, **encode(content)}, indent=2, allow_nan=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def read(path: str | Path, kind: str, words: tuple[str, ...] = WORDS) -> dict[str, Any]:
    """Read a record that `write` wrote, and refuse any other file."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    found = content.pop("kind", None) if isinstance(content, dict) else None
    if not isinstance(content, dict) or found != kind:
        raise ValueError(f"{path} holds {found!r}, expected a saved {kind!r}")
    decoded: dict[str, Any] = decode(content, words)
    return decoded
