"""What a round buys, in the user's terms: rewards, traffic, and what its calibration estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.number_format import format_interval, format_number, format_percent

if TYPE_CHECKING:
    from tether.rounds.history import History, RoundRecord


def gain_facts(history: History, record: RoundRecord) -> list[tuple[str, str]]:
    """Labels and values; none where no rewards are known and nothing was calibrated."""
    facts = []
    reward, safe = record.reward, history.safe_reward
    if reward is not None:
        against = "" if safe is None else f"; safe policy {format_number(safe.mean)}"
        facts.append(
            ("Mean reward", f"{format_number(reward.mean)} ({format_interval(reward)}){against}")
        )
    found = record.calibration
    if found is None:
        return facts
    if found.exists:
        facts.append(("Decisions that change", format_percent(found.measured.changed)))
    return facts
