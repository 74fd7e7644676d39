"""Using a store that is open already, or one that has to be opened and closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tether.rounds.store.database import Store


@contextmanager
def opened_store(store: str | Path | Store) -> Iterator[Store]:
    """An open store as it is; an existing one, by its path or URL, is closed at the end."""
    if isinstance(store, Store):
        yield store
        return
    opened = Store(store, create=False)
    try:
        yield opened
    finally:
        opened.close()
