"""What a service says of itself while its store is unavailable."""

from __future__ import annotations

from dataclasses import dataclass

from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.served_release import ReleaseState
from tether.rounds.run_settings import RunSettings
from tether.service.served import ServedState

OLD_ANSWERS = "the old system answers all keys"
SAFE_ACTS = "the safe policy acts, where the run may act without its store"
NO_PROMISE = "No promise applies: {} while the store is unavailable."


@dataclass(frozen=True)
class Outage:
    """What holds without the store, and what held when it last answered.

    Parameters
    ----------
    holds : str
        Who answers now.
    before : str
        What held when the store last answered; empty if it has not answered yet.
    """

    holds: str
    before: str

    @property
    def told(self) -> str:
        """All of it, without a full stop."""
        last = f"; when it last answered: {self.before}" if self.before else ""
        return f"the store is unavailable: {self.holds}{last}"

    @property
    def page(self) -> dict[str, str]:
        """What leads a live page, in sentences."""
        return {
            "heading": "Store unavailable",
            "sentence": f"The store is unavailable: {self.holds}.",
            "details": f"When it last answered: {self.before}." if self.before else "",
            "promise": NO_PROMISE.format(self.holds),
        }


def outage_of(state: ServedState | None, settings: RunSettings) -> Outage:
    """What is said of a state that was read before the store was lost."""
    if isinstance(settings, ReleaseSettings):
        return Outage(OLD_ANSWERS, state.told(settings) if isinstance(state, ReleaseState) else "")
    return Outage(SAFE_ACTS, "" if state is None else f"round {state.number}, {state.sentence}")
