"""What the promise assumes, and what the library or the data say about each assumption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tether.report.number_format import format_count, format_interval, format_number

if TYPE_CHECKING:
    from tether.rounds.history import History

CHECKED, PARTLY_CHECKED, ASSUMED, DOUBTFUL = "checked", "partly checked", "assumed", "doubtful"
STATUS_SYMBOLS = {DOUBTFUL: "✗", CHECKED: "✓", PARTLY_CHECKED: "◐", ASSUMED: "○"}
"""A symbol for every status, in the order in which assumptions are listed."""


@dataclass(frozen=True)
class Assumption:
    """One assumption: whether the library checks it, what it states, and how that is known."""

    status: str
    title: str
    explanation: str


def assumptions(history: History) -> list[Assumption]:
    """List all assumptions of a run: doubtful ones first, then by how far they are checked."""
    unsorted = [*_always_checked(history), *_partly_checked(history), *_not_checked(history)]
    order = list(STATUS_SYMBOLS)
    return sorted(unsorted, key=lambda assumption: order.index(assumption.status))


def _always_checked(history: History) -> list[Assumption]:
    normalizers = (
        "This family needs no normalizing constants."
        if history.family == "mix"
        else "Draws are rejected if the constant that they estimate is clearly above 1: they were "
        "scored under another policy."
    )
    return [
        Assumption(
            CHECKED,
            f"Losses lie between 0 and {format_number(history.bound)}",
            "Any other loss is rejected when it is observed.",
        ),
        Assumption(
            CHECKED,
            "Log-probabilities are valid numbers",
            "NaN and +∞ are rejected, and so is a row that its own policy could not have produced.",
        ),
        Assumption(CHECKED, "Normalizing constants are at most 1", normalizers),
        Assumption(
            CHECKED,
            "Calibration rows are not used for training",
            "Each row is assigned at random, once and permanently, to training or to calibration, "
            "and only training rows are handed out. What a policy learned from other sources is "
            "not visible here.",
        ),
        _safe_policy_unchanged(history),
        Assumption(
            CHECKED,
            "Beta meets its definition",
            "The calibrated risk at beta is recomputed and compared with alpha before use.",
        ),
    ]


def _safe_policy_unchanged(history: History) -> Assumption:
    title = "The safe policy has not changed"
    if history.shortlist is None:
        return Assumption(
            CHECKED,
            title,
            "Its fingerprint and its scores of stored actions are compared whenever the run is "
            "reopened.",
        )
    return Assumption(
        PARTLY_CHECKED,
        title,
        f"It draws {history.shortlist} candidates for each action, of which the policy of the "
        "round picks one. It is not asked for log-probabilities, so only its fingerprint, if it "
        "has one, is compared whenever the run is reopened.",
    )


def _partly_checked(history: History) -> list[Assumption]:
    pending = sum(record.pending for record in history.rounds)
    safe = history.safe_loss
    evidence, status = "The safe policy has no observed losses yet.", ASSUMED
    if safe is not None:
        status = DOUBTFUL if safe.lower > history.alpha else PARTLY_CHECKED
        losses = format_count(safe.count, "loss", "losses")
        evidence = (
            f"Its mean loss is {format_number(safe.mean)} ({format_interval(safe)}) over {losses}."
        )
    return [
        Assumption(
            status, f"The safe policy's risk is at most {format_number(history.alpha)}", evidence
        ),
        _test_weight(history),
        Assumption(
            PARTLY_CHECKED,
            "Log-probabilities match how the policies sample",
            "The optimized policy's mean importance weight over the log is compared with 1, with a "
            "warning if it is larger. A different prompt, temperature or truncation may still go "
            "unnoticed.",
        ),
        Assumption(
            PARTLY_CHECKED if pending else CHECKED,
            "Every loss arrives",
            f"{format_count(pending, 'loss is', 'losses are')} pending.".capitalize(),
        ),
    ]


def _test_weight(history: History) -> Assumption:
    title = "The test weight covers the next action"
    calibrations = [record.calibration for record in history.rounds if record.calibration]
    latest = calibrations[-1] if calibrations else None
    test_weight = history.test_weight if latest is None else latest.test_weight
    if test_weight == "analytic":
        return Assumption(CHECKED, title, "The analytic test weight is an upper bound.")
    if test_weight != "empirical":
        return Assumption(ASSUMED, title, f"It was set to the number {test_weight}.")
    if latest is None:
        return Assumption(PARTLY_CHECKED, title, "It is the largest weight among the draws.")
    rows = f"{format_count(latest.rows_beyond_draws, 'row')} of {latest.rows:,}"
    verb = "has" if latest.rows_beyond_draws == 1 else "have"
    return Assumption(
        PARTLY_CHECKED,
        title,
        f"It is the largest weight among the draws; in the latest calibration, {rows} {verb} a "
        "larger ratio than every draw.",
    )


def _not_checked(history: History) -> list[Assumption]:
    explanations = {
        "New contexts follow the same distribution as past ones": (
            "A shift monitor detects only changes that its score shows."
        ),
        "Actions were carried out as chosen, and losses were measured correctly": (
            "This cannot be checked from the store."
        ),
    }
    if len({record.policy for record in history.rounds}) > 1:
        explanations["Past policies may be treated as one mixture"] = (
            "With several past policies, the mixture replaces a sum over all orders in which the "
            "rows could have come; it is exact for one policy."
        )
    if history.missing == "exclude":
        explanations["Losses are missing at random"] = (
            "Rows without a loss are left out; if large losses are the ones that go missing, the "
            "risk is underestimated."
        )
    if history.against == "last":
        explanations["The last tethered policy is safe"] = (
            "Beta is relative to that policy rather than to the safe policy, so the promise "
            "depends on every earlier round."
        )
    return [Assumption(ASSUMED, title, text) for title, text in explanations.items()]
