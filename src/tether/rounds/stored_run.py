"""What an open run has, whatever it does: its store, its settings, and an end."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

from tether.rounds.limits import listed_limits
from tether.rounds.recording import Recorder
from tether.rounds.run_settings import RunSettings
from tether.rounds.store.database import Store

SettingsT = TypeVar("SettingsT", bound=RunSettings)


class StoredRun(Generic[SettingsT]):
    """A run that is open: a context manager that closes its store."""

    settings: SettingsT
    _store: Store
    _recorder: Recorder

    def close(self) -> None:
        """Close the store; what is asked afterwards raises a StoreError."""
        self._recorder.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        named = f"{self.settings.target}={listed_limits(self.settings.limits)}"
        return f"{type(self).__name__}({named}, store={self._store.name!r})"
