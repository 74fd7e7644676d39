"""`tether release status`: the steps of a release, and of nothing else."""

from __future__ import annotations

from tether.cli.status import FollowOption, IntervalOption, status
from tether.cli.terminal import JsonOption, StoreName, report_errors


@report_errors
def release_status(
    store: StoreName,
    follow: FollowOption = False,
    every: IntervalOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Show the steps of a release, with losses and alarms.

    Exit code 4 while an alarm stands.
    """
    from tether.rounds.run_settings import RELEASE_KIND, check_kind
    from tether.rounds.store.opened_store import opened_store
    from tether.rounds.store.queries import read_settings

    with opened_store(store) as opened, opened.reading() as connection:
        if stored := read_settings(connection):
            check_kind(stored, RELEASE_KIND, opened.name)
    status(store, follow=follow, every=every, as_json=as_json)
