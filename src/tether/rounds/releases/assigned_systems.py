"""The systems that keys of a release were assigned to so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tether.rounds.releases.key_rows import Key, key_content, read_key_rows

if TYPE_CHECKING:
    from tether.rounds.releases.release import Release


def assigned_systems(release: Release, keys: Sequence[Key]) -> list[tuple[str, ...]]:
    """The systems that have a row of each key: none, one or both. Rows stay, so what is here stays.

    An outcome of another system has no row, and `Release.observe` refuses it.
    """
    contents = [key_content(key) for key in keys]
    with release._store.reading() as connection:
        known = read_key_rows(connection, contents)
    return [tuple(sorted(known.get(key, ()))) for key in contents]
