"""Opening what a service serves, as its settings say."""

from __future__ import annotations

from tether.rounds.errors import NoStoreError
from tether.rounds.releases.served_release import ServedRelease
from tether.service.gateway.tethered_run import open_tethered
from tether.service.runs.open_run import open_run
from tether.service.served import Served
from tether.service.settings.service_settings import ServiceSettings


def open_served(settings: ServiceSettings) -> Served:
    """The release or the run of a service, open."""
    if settings.run is not None:
        return open_run(settings.run)
    deadline = settings.limits.store_deadline
    if settings.tethered is not None:
        return open_tethered(settings.tethered, deadline=deadline)
    try:
        return ServedRelease(
            settings.store, **settings.release, deadline=deadline, spool=settings.spool
        )
    except NoStoreError as error:
        raise NoStoreError(f"{error}: name release.guardrails to create one") from error
