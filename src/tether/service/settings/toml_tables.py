"""Values of a TOML file, each taken once and checked; errors name the setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tether._core.words import read_duration


class Table:
    """A table of a TOML file: `name` is what errors call it, "" for the file itself."""

    def __init__(self, name: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise ValueError(f"[{name}] must be a table, got {values!r:.80}")
        self.name, self._values = name, dict(values)

    def full(self, key: str) -> str:
        """The name of a setting, as errors show it."""
        return f"{self.name}.{key}" if self.name else key

    def has(self, key: str) -> bool:
        """Whether a setting is given and was not taken yet."""
        return key in self._values

    def peek(self, key: str) -> Any:
        """A value as it is, which can still be taken; None where it is not given."""
        return self._values.get(key)

    def take(self, key: str) -> Any:
        """A value as it is; None where it is not given."""
        return self._values.pop(key, None)

    def table(self, key: str) -> Table:
        """A table inside of this one; empty where it is not given."""
        given = self.take(key)
        return Table(self.full(key), {} if given is None else given)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty; needed where there is no default."""
        value = self._values.pop(key, default)
        if value is None:
            raise ValueError(f"{self.full(key)} is missing")
        if not isinstance(value, str) or not value or not value.isprintable():
            raise ValueError(f"{self.full(key)} must be a text in one line, got {value!r:.80}")
        return value

    def optional_text(self, key: str) -> str | None:
        """A text that is not empty, or None where it is not given."""
        return self.text(key) if self.has(key) else None

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where it is not given."""
        given = self._values.pop(key, [])
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise ValueError(f"{self.full(key)} must be a list of texts, got {given!r:.80}")
        return tuple(given)

    def flag(self, key: str) -> bool:
        """True or false; false where it is not given."""
        value = self._values.pop(key, False)
        if not isinstance(value, bool):
            raise ValueError(f"{self.full(key)} must be true or false, got {value!r:.80}")
        return value

    def integer(self, key: str, default: int, *, least: int, most: int) -> int:
        """An integer between two limits, both included."""
        value = self._values.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(
                f"{self.full(key)} must be an integer from {least} to {most}, got {value!r:.80}"
            )
        return value

    def number(self, key: str, default: float, *, least: float, most: float) -> float:
        """A number between two limits, both included."""
        value = self._values.pop(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not least <= value <= most:
            raise ValueError(
                f"{self.full(key)} must be a number from {least:g} to {most:g}, got {value!r:.80}"
            )
        return float(value)

    def duration(self, key: str) -> timedelta | None:
        """A number of seconds, or a text such as "15m" or "12h"; None where it is not given."""
        value = self.take(key)
        if value is None:
            return None
        wanted = 'a number of seconds, or a text with a unit such as "90s", "15m", "12h" or "7d"'
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{self.full(key)} must be {wanted}, got {value!r:.80}")
        return read_duration(self.full(key), value, wanted)

    def finish(self, known: Sequence[str]) -> None:
        """Refuse what nobody has taken; `known` are the names that are accepted."""
        if self._values:
            key, value = next(iter(self._values.items()))
            raise ValueError(
                f"{self.full(key)} is no setting, got {value!r:.80}; there are {', '.join(known)}"
            )
