"""The history of a run of either kind."""

from __future__ import annotations

from tether.rounds.history import History
from tether.rounds.history_reader import read_history
from tether.rounds.releases.release_history import ReleaseHistory
from tether.rounds.releases.release_history_reader import read_release
from tether.rounds.run_settings import KIND_SETTING, RELEASE_KIND
from tether.rounds.store.opened_store import opened_store
from tether.rounds.store.queries import read_settings


def read_any_history(store: str) -> History | ReleaseHistory:
    """The rounds of a controller, or a release, whichever an existing store holds."""
    with opened_store(store) as opened:
        with opened.reading() as connection:
            kind = read_settings(connection).get(KIND_SETTING)
        return read_release(opened) if kind == RELEASE_KIND else read_history(opened)
