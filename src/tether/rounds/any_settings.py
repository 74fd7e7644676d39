"""The settings of a run of either kind, as its store has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.run_settings import KIND_SETTING, RELEASE_KIND, RunSettings
from tether.rounds.settings import Settings


def any_settings(stored: Mapping[str, Any]) -> RunSettings:
    """The stored settings, with everything in them checked."""
    is_release = stored.get(KIND_SETTING) == RELEASE_KIND
    return (ReleaseSettings if is_release else Settings).from_dict(stored)
