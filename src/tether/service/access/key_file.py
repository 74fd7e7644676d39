"""A file of API keys that a service follows: keys are added and revoked without a restart."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from tether.service.access.api_keys import ApiKey, ApiKeys

KEY_FILE_SECONDS = 1.0
"""How old what is known of the file may be when a request arrives."""

log = logging.getLogger("tether.service")


class KeyFile:
    """The keys of a file, as `ApiKeys`, read again when a request comes and a second has passed.

    A file that cannot be read, or is none of keys, leaves the keys as they were and is logged.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    clock : callable
        Tells the seconds.

    Raises
    ------
    ValueError
        If it is no file of keys.
    OSError
        If it cannot be read.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock, self._read_at = Path(path), clock, clock()
        self._content = self._path.read_bytes()
        self._known = ApiKeys.from_json(self._content, str(path))
        self._problem = ""

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """The keys that are accepted now."""
        self._follow()
        return self._known.keys

    def find(self, secret: str) -> ApiKey | None:
        """Find the key of a secret; None if there is none."""
        self._follow()
        return self._known.find(secret)

    def _follow(self) -> None:
        """Look at the file if a second has passed."""
        if self._clock() - self._read_at >= KEY_FILE_SECONDS:
            self._read_at = self._clock()
            self._look()

    def _look(self) -> None:
        """Take the file's keys if it has changed."""
        try:
            content = self._path.read_bytes()
            if content == self._content and not self._problem:
                return
            known = ApiKeys.from_json(content, str(self._path))
        except (OSError, ValueError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("the API keys stay as they were: %s", error)
            return
        self._content, self._problem = content, ""
        before, now = set(self._known.keys), set(known.keys)
        self._known = known
        if now != before:
            fields = {
                "added": sorted(key.name for key in now - before),
                "removed": sorted(key.name for key in before - now),
            }
            log.info("the API keys have changed", extra={"fields": fields})
