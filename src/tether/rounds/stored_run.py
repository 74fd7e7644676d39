"""What an open run has, whatever it does: its store, its settings, and an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

from tether._core.words import Columns
from tether.rounds.limits import listed_limits
from tether.rounds.recording import Recorder
from tether.rounds.run_settings import RunSettings
from tether.rounds.store.database import Store

if TYPE_CHECKING:
    from tether.rounds.history import History
    from tether.rounds.releases.release_history import ReleaseHistory

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

    def history(self) -> History | ReleaseHistory:
        """What has happened so far, as frozen records.

        Returns
        -------
        History or ReleaseHistory
            The records.
        """
        raise NotImplementedError

    def to_frame(self) -> Columns:
        """Return what has happened so far as a table: `history().to_frame()`.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: one row per round or step.
        """
        return self.history().to_frame()

    def _repr_html_(self) -> str:
        """What a notebook shows: what has happened so far."""
        return self.history()._repr_html_()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        named = f"{self.settings.target}={listed_limits(self.settings.limits)}"
        return f"{type(self).__name__}({named}, store={self._store.name!r})"
