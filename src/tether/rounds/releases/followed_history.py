"""The history of a release that is read again and again, by any thread; each time what is new."""

from __future__ import annotations

from threading import Lock

from tether.rounds.losses_seen import LossesSeen
from tether.rounds.releases.release_history import ReleaseHistory
from tether.rounds.releases.release_history_reader import ReleaseReader
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.store.database import Store


class FollowedHistory:
    """Reads the history of the release in a store; after an error the next read begins anew."""

    def __init__(self, store: Store, settings: ReleaseSettings) -> None:
        self._store, self._settings = store, settings
        self._reader: ReleaseReader | None = None
        self._lock = Lock()

    def read(self) -> ReleaseHistory:
        """The history as it is now."""
        with self._lock:
            reader = self._reader or ReleaseReader(self._store.name, self._settings)
            self._reader = None
            with self._store.reading() as connection:
                losses = LossesSeen(connection, self._settings)
                losses.update(watch=False)
                found = reader.read(connection, losses)
            self._reader = reader
            return found
