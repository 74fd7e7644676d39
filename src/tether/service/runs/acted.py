"""What comes of actions: errors that a client is told of, and what is counted and logged."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tether.rounds.errors import ClosedError, KeyUsedError, StoreError
from tether.rounds.returned_rows import TakenActions
from tether.service.api_errors import ApiError
from tether.service.service import Service

log = logging.getLogger("tether.service")


def without_bodies(message: str) -> str:
    """An error without what a server says about it, which may repeat what it was asked."""
    return _SAID_BY_SERVER.sub(r"\1", message)


_SAID_BY_SERVER = re.compile(r"(\bstatus \d{3}): .*", re.DOTALL)


class Acted:
    """Counts the actions of a service, and logs when failures begin and end."""

    def __init__(self, service: Service) -> None:
        self._service, self._fails = service, False

    def note(self, taken: TakenActions) -> None:
        """Count actions; the store is unavailable if they were spooled."""
        by_safe = int(np.sum(np.broadcast_to(taken.served, len(taken)) == 0))
        failed = bool(taken.failure)
        self._service.metrics.actions(
            by_safe, len(taken) - by_safe, stored=taken.stored, failed=failed
        )
        self._service.takes_rows = taken.stored
        if failed != self._fails:
            self._fails = failed
            if failed:
                log.warning(
                    "the safe policy acts instead of the round's: %s", without_bodies(taken.failure)
                )
            else:
                log.info("the policy of the round acts again")

    @contextmanager
    def refused(self, hidden: str = "") -> Iterator[None]:
        """Errors of `act` as a client is told of them, without the text that is `hidden`."""
        try:
            yield
        except ApiError:
            raise
        except ClosedError:
            raise ApiError(503, "the service is shutting down") from None
        except StoreError as error:
            self._service.takes_rows = False
            log.error("actions could not be stored: %s", error)
            raise ApiError(503, "the store is unavailable: repeat the request") from error
        except KeyUsedError as error:
            raise ApiError(409, str(error)) from None
        except (ValueError, TypeError, RecursionError) as error:
            text = str(error)
            raise ApiError(400, text.replace(hidden, "the upstream") if hidden else text) from None
        except RuntimeError as error:
            log.error("the safe policy is unavailable: %s", without_bodies(str(error)))
            raise ApiError(502, "the safe policy is unavailable") from error
