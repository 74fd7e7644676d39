"""What a job says of itself, as JSON: written, read again, and checked before it is believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tether._core import records
from tether.rounds.job_files import JOB
from tether.rounds.settings import Settings

MAX_ROWS_PER_BLOCK = 1 << 20
"""The most actions that a job may have in one file: so many are in memory at once."""
HEAD_DIGITS = 64
"""The length of the head of a hash chain."""


def to_json(plain: Mapping[str, Any]) -> str:
    """The entries of a job as text."""
    entries = {
        **plain,
        "retired": list(plain["retired"]),
        "counts": {str(number): count for number, count in plain["counts"].items()},
        "lanes": {str(lane): list(each) for lane, each in plain["lanes"].items()},
        "settings": plain["settings"].to_dict(),
    }
    return json.dumps(records.encode(entries), allow_nan=False, indent=1)


def read_entries(folder: Path, names: set[str]) -> dict[str, Any]:
    """What `to_json` made of the entries of these names."""
    path = folder / JOB
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {JOB} in {folder}: a job that was exported completely has one"
        )
    try:
        plain: Any = json.loads(path.read_bytes())
        if not isinstance(plain, dict):
            raise TypeError(f"expected an object, got {plain!r}")
        if set(plain) != names:
            raise ValueError(f"its entries differ in {sorted(names ^ set(plain))}")
        plain = records.decode(plain)
        plain["settings"] = Settings.from_dict(plain["settings"])
        plain["counts"] = {int(number): count for number, count in plain["counts"].items()}
        plain["lanes"] = {int(lane): tuple(each) for lane, each in plain["lanes"].items()}
        plain["retired"] = tuple(plain["retired"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not what export_calibration wrote: {error}") from error
    return dict(plain)


def check_entries(entries: Mapping[str, Any]) -> None:
    """Refuse entries of a job that are not what they should be, whatever rows they are of."""
    for name, (accepts, accepted) in _ACCEPTED.items():
        value = entries[name]
        if not accepts(value):
            raise ValueError(f"{name} of a job must be {accepted}, got {value!r}")


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_lane(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 4:
        return False
    entry, head, *last = value
    is_head = isinstance(head, str) and len(head) == HEAD_DIGITS
    return _is_count(entry, 1) and is_head and all(map(_is_count, last))


def _is_mapping(value: Any, key: Callable[[Any], bool], item: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(key(k) and item(v) for k, v in value.items())


def _is_file_name(value: Any) -> bool:
    return isinstance(value, str) and Path(value).name == value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_ACCEPTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "run": (_is_text, "text"),
    "number": (lambda value: _is_count(value, 1), "an integer of at least 1"),
    "policy": (lambda value: value is None or _is_text(value), "text or None"),
    "lanes": (
        lambda value: _is_mapping(value, _is_count, _is_lane),
        "an entry, a head of the hash chain, an action and an observation by lane",
    ),
    "retired": (lambda value: isinstance(value, tuple) and all(map(_is_count, value)), "integers"),
    "counts": (
        lambda value: _is_mapping(value, _is_count, lambda count: _is_count(count, 1)),
        "integers of at least 1 by round",
    ),
    "reference": (_is_count, "an integer of at least 0"),
    "rows": (lambda value: _is_count(value, 1), "an integer of at least 1"),
    "rows_per_block": (
        lambda value: _is_count(value, 1) and value <= MAX_ROWS_PER_BLOCK,
        f"an integer from 1 to {MAX_ROWS_PER_BLOCK}",
    ),
    "safe_share": (lambda value: value is None or _is_number(value), "a number or None"),
    "ratio_error": (_is_number, "a number"),
    "approximate": (lambda value: value is None or _is_text(value), "text or None"),
    "mixed": (lambda value: isinstance(value, bool), "true or false"),
    "tables": (lambda value: isinstance(value, bool), "true or false"),
    "note": (_is_text, "text"),
    "digests": (
        lambda value: _is_mapping(value, _is_file_name, _is_text),
        "digests by the names of files in the folder",
    ),
    "settings": (lambda value: isinstance(value, Settings), "the settings of a run"),
}
