"""What a service stands in front of: a release or a run, as far as all of the service needs it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any, Protocol

from tether.rounds.history import Alarm
from tether.rounds.run_settings import RunSettings


class ServedState(Protocol):
    """What holds now."""

    @property
    def unit(self) -> str:
        """What it goes on in: "step" or "round"."""
        ...

    @property
    def number(self) -> int:
        """The number of the present step or round."""
        ...

    @property
    def figures(self) -> Mapping[str, float]:
        """What is measured and logged, by name: the number, and how far it may go."""
        ...

    @property
    def promises(self) -> Mapping[str, float]:
        """What is promised of each loss; empty where nothing is."""
        ...

    @property
    def sentence(self) -> str:
        """How far the new system or policy goes now."""
        ...

    @property
    def stopped(self) -> str:
        """What holds while an alarm stands."""
        ...

    @property
    def begun_details(self) -> dict[str, Any]:
        """What webhooks are told of the present step or round."""
        ...

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that stands."""
        ...


class Served(Protocol):
    """What is served; several threads use it."""

    due: Event
    """Set where something is due that `follow` begins."""

    @property
    def settings(self) -> RunSettings:
        """The settings, with the limits of each loss."""
        ...

    def follow(self) -> ServedState:
        """Begin what is due, and read what holds now."""
        ...

    def halt(self, reason: str, *, actor: str) -> Any:
        """Let the old system, or the safe policy, answer everything."""
        ...

    def resume(self, reason: str, *, actor: str) -> Any:
        """Clear the alarms that stand."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...
