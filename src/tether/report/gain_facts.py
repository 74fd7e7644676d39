"""What a round buys, in the user's terms: rewards, traffic, and what its calibration estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.number_format import format_interval, format_number, format_percent

if TYPE_CHECKING:
    from tether.control.weighted_means import WeightedMean
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
    if found.optimized_share is not None:
        facts.append(("Traffic to optimized", format_percent(found.optimized_share)))
    gain = found.saved_gain
    if gain is not None:
        if gain.reward is not None:
            facts.append(("Reward gained, estimated", _estimate(gain.reward.difference)))
        facts.append(("Decisions that change", _estimate(gain.changed)))
    return facts


def _estimate(estimate: WeightedMean) -> str:
    if estimate.mean is None or estimate.lower is None or estimate.upper is None:
        return f"unknown: {estimate.unknown}"
    ends = f"{format_number(estimate.lower)} to {format_number(estimate.upper)}"
    return f"{format_number(estimate.mean)} ({ends})"
