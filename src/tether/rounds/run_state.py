"""The state of a run behind a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tether.rounds.history import Alarm
from tether.rounds.json_rows import json_number


@dataclass(frozen=True)
class RunState:
    """What holds now, which every process that serves the run follows.

    Parameters
    ----------
    number : int
        The number of the present round.
    begun : str
        When it began, in UTC, as ISO 8601.
    policy : str or None
        The name of its optimized policy; None if it began without one.
    note : str
        Why the safe policy serves, or how missing losses were counted; often empty.
    level : mapping of str to float
        How far the optimized policy may go: "beta", or in a ramp "share".
    promises : mapping of str to float
        What is promised of each loss; empty where the safe policy serves.
    alarm : Alarm or None
        The alarm that stands.
    beginning : bool, default False
        Whether this process calibrates the next round now.
    begin_failure : str, default ""
        Why the last attempt of this process to begin a round failed; empty if it did not.
    """

    number: int
    begun: str
    policy: str | None
    note: str
    level: Mapping[str, float]
    promises: Mapping[str, float] = field(default_factory=dict)
    alarm: Alarm | None = None
    beginning: bool = False
    begin_failure: str = ""

    unit = "round"
    stopped = "the safe policy acts alone"

    @property
    def sentence(self) -> str:
        """How far the policy of the round goes."""
        name, level = next(iter(self.level.items()))
        return f"its {name} is {level:.4g}"

    @property
    def shown_level(self) -> dict[str, float | str]:
        """The level as JSON can have it."""
        return {name: json_number(level) for name, level in self.level.items()}

    @property
    def begun_details(self) -> dict[str, Any]:
        """What webhooks are told of the present round."""
        return {"number": self.number, **self.shown_level, "begun": self.begun, "note": self.note}

    @property
    def figures(self) -> dict[str, float]:
        """What is measured and logged."""
        return {"round": self.number, **self.level}
