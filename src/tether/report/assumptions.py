"""What the promise assumes, and what the library or the data say about each assumption.

An assumption is called checked only if code compared it with something in this run, and partly
checked if that comparison can miss a violation. What has not happened yet (no losses, no
calibration) has not been checked either. What holds by mathematics is called proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tether.report.number_format import format_count, format_interval, format_number
from tether.report.sentences import loss_suffix

if TYPE_CHECKING:
    from tether.control.calibration import Calibration
    from tether.rounds.history import History

CHECKED, PARTLY_CHECKED, ASSUMED, DOUBTFUL = "checked", "partly checked", "assumed", "doubtful"
PROVEN = "proven"
HIGH_RATIO_WORDS = "should be at most 1"
"""Words by which a warning that the mean ratio is too high is recognized."""
STATUS_SYMBOLS = {DOUBTFUL: "✗", CHECKED: "✓", PROVEN: "∎", PARTLY_CHECKED: "◐", ASSUMED: "○"}
"""A symbol for every status, in the order in which assumptions are listed."""


@dataclass(frozen=True)
class Assumption:
    """One assumption: whether the library checked it, what it states, and how that is known."""

    status: str
    title: str
    explanation: str


def assumptions(history: History) -> list[Assumption]:
    """List all assumptions of a run: doubtful ones first, then by how far they were checked."""
    calibrations = [record.calibration for record in history.rounds if record.calibration]
    about_weights = [
        *_about_calibrations(calibrations, history.shortlist),
        _test_weight(calibrations),
    ]
    unsorted = [
        *_about_rows(history),
        *(_about_ramps() if history.is_ramp else about_weights),
        *(_safe_risk(history, name) for name in history.limits),
        *_not_checked(history),
    ]
    order = list(STATUS_SYMBOLS)
    return sorted(unsorted, key=lambda assumption: order.index(assumption.status))


def _about_rows(history: History) -> list[Assumption]:
    """What is checked whenever actions are taken and losses observed."""
    rows = sum(record.rows for record in history.rounds)
    observed = sum(record.observed for record in history.rounds)
    pending = sum(record.pending for record in history.rounds)
    withdrawn = sum(record.withdrawn for record in history.rounds)
    bounds = " and ".join(
        f"Losses{loss_suffix(history, name)} lie between 0 and {format_number(limit.bound)}"
        for name, limit in history.limits.items()
    )
    numbers = "Log-probabilities are valid numbers"
    arrive = "Every loss arrives"
    if not rows:
        nothing = "There are no actions yet, so nothing has been checked."
        titles = (bounds, arrive) if history.is_ramp else (bounds, numbers, arrive)
        return [Assumption(ASSUMED, title, nothing) for title in titles]
    of_which = ", counting the scarcest loss" if len(history.limits) > 1 else ""
    arrival = f"{format_count(pending, 'loss is', 'losses are')} pending{of_which}.".capitalize()
    if withdrawn:
        arrival += (
            f" {format_count(withdrawn, 'action was', 'actions were')} withdrawn as never carried "
            f"out, which cannot be checked."
        )
    scores = Assumption(
        CHECKED,
        numbers,
        "NaN and +∞ were rejected before an action was stored, and so was an action that its own "
        "policy could not have taken. Whether the numbers are true is another assumption.",
    )
    return [
        Assumption(
            CHECKED if observed else ASSUMED,
            bounds,
            f"Each of the {observed:,} observed losses was checked when it was stored; any other "
            "loss is rejected."
            if observed
            else "No loss has been observed yet.",
        ),
        *([] if history.is_ramp else [scores]),
        Assumption(PARTLY_CHECKED if pending or withdrawn else CHECKED, arrive, arrival),
    ]


def _about_calibrations(
    calibrations: list[Calibration], candidates: int | None
) -> list[Assumption]:
    """What each calibration checks, about its scores and about its result."""
    unchanged = "The safe policy has not changed"
    matching = "Log-probabilities match how the policies sample"
    if not calibrations:
        return [
            Assumption(
                ASSUMED,
                unchanged,
                "It is checked before each calibration and when the run is reopened. There has "
                "been no calibration yet.",
            ),
            Assumption(
                ASSUMED, matching, "It is examined by calibrations, and there has been none yet."
            ),
        ]
    times = format_count(len(calibrations), "calibration")
    suspicious = any(HIGH_RATIO_WORDS in warning for warning in calibrations[-1].warnings)
    compared = (
        f"Before each calibration ({times} so far) its scores of some stored actions were compared "
        "with those stored. A policy that samples differently and scores alike would not be "
        "noticed."
    )
    if candidates is not None:
        compared = (
            f"It draws {candidates} candidates for each action, of which the policy of the round "
            "picks one. It is not asked for log-probabilities, so only its fingerprint, if it has "
            "one, is compared when the run is reopened."
        )
    found = [
        Assumption(PARTLY_CHECKED, unchanged, compared),
        Assumption(
            DOUBTFUL if suspicious else PARTLY_CHECKED,
            matching,
            "In the latest calibration, the optimized policy's mean importance weight over the log "
            "is clearly above 1, which is impossible if they match."
            if suspicious
            else "Each calibration compared the optimized policy's mean importance weight over the "
            "log with 1, and refused draws whose normalizing constant came out clearly above 1 and "
            "tables that do not sum to 1. A different prompt, temperature or truncation may still "
            "go unnoticed.",
        ),
    ]
    betas = sum(calibration.exists for calibration in calibrations)
    if betas:
        found.append(
            Assumption(
                CHECKED,
                "Beta meets its definition",
                f"The calibrated risk was recomputed and compared with alpha before use, for "
                f"{format_count(betas, 'beta')}.",
            )
        )
    return found


def _about_ramps() -> list[Assumption]:
    """What a ramp of policies rests on instead of importance weights."""
    return [
        Assumption(
            PROVEN,
            "Which policy answers does not depend on the loss",
            "It is decided for each action by a random number that is drawn before.",
        ),
        Assumption(
            ASSUMED,
            "The length of a step is decided without looking at its losses",
            "It holds by itself if steps end after a number of actions.",
        ),
        Assumption(
            PARTLY_CHECKED,
            "The policies have not changed",
            "Their fingerprints, where they have any, are compared at each step and when the run "
            "is reopened. Log-probabilities are not used.",
        ),
    ]


def _safe_risk(history: History, name: str) -> Assumption:
    safe, alpha = history.safe_losses.get(name), history.limits[name].alpha
    of = loss_suffix(history, name)
    title = f"The safe policy's risk{of} is at most {format_number(alpha)}"
    if safe is None:
        return Assumption(ASSUMED, title, "The safe policy has no observed losses yet.")
    return Assumption(
        DOUBTFUL if safe.lower > alpha else PARTLY_CHECKED,
        title,
        f"Its mean loss is {format_number(safe.mean)} ({format_interval(safe)}) over "
        f"{format_count(safe.count, 'loss', 'losses')}.",
    )


def _test_weight(calibrations: list[Calibration]) -> Assumption:
    title = "The test weight covers the next action"
    if not calibrations:
        return Assumption(ASSUMED, title, "There has been no calibration yet.")
    latest = calibrations[-1]
    weight = latest.measured.test_weight
    if latest.rule != "alpha":
        return Assumption(PROVEN, title, "This rule needs no test weight.")
    if weight == "analytic" and not latest.contextual:
        return Assumption(
            PROVEN,
            title,
            "The analytic test weight is an upper bound for every action, provided that the "
            "log-probabilities are right.",
        )
    if weight == "analytic":
        return Assumption(
            ASSUMED,
            title,
            "The analytic test weight is an upper bound in the contexts of the log. A new context "
            "may have a smaller normalizing constant, which cannot be checked.",
        )
    if weight == "max_ratio":
        return Assumption(
            ASSUMED,
            title,
            "It follows from the largest ratio that was stated with the log. No row of the log "
            "exceeds that ratio; new actions cannot be checked.",
        )
    if weight != "empirical":
        return Assumption(ASSUMED, title, f"It was set to the number {weight}.")
    beyond = latest.measured.rows_beyond_draws
    rows = f"{format_count(beyond, 'row')} of {latest.rows:,}"
    verb = "has" if beyond == 1 else "have"
    return Assumption(
        PARTLY_CHECKED,
        title,
        f"It is the largest weight among the draws; in the latest calibration, {rows} {verb} a "
        "larger ratio than every draw.",
    )


def _not_checked(history: History) -> list[Assumption]:
    explanations = {
        "Calibration rows are not used for training": (
            "Each row is assigned at random, once and permanently, to training or to calibration, "
            "and only training rows are handed out. What a policy really learned from is not "
            "visible here."
        ),
        "New contexts follow the same distribution as past ones": (
            "A shift monitor, if there is one, detects only changes that its score shows."
        ),
        "Actions were carried out as chosen, and losses were measured correctly": (
            "This cannot be checked from the store."
        ),
    }
    if len({record.policy for record in history.rounds}) > 1 and not history.is_ramp:
        explanations["Past policies may be treated as one mixture"] = (
            "With several past policies, the mixture replaces a sum over all orders in which the "
            "rows could have come; it is exact for one policy."
        )
    if history.missing == "exclude":
        explanations["Losses are missing at random"] = (
            "Rows without a loss are left out; if large losses are the ones that go missing, the "
            "risk is underestimated."
        )
    if history.against == "last" and history.is_ramp:
        explanations["The policy that reached a share of 1 keeps its risk"] = (
            "It answers beside later policies, and its own rows say how good it is."
        )
    elif history.against == "last":
        explanations["The last tethered policy is safe"] = (
            "Beta is relative to that policy rather than to the safe policy, so the promise "
            "depends on every earlier round."
        )
    return [Assumption(ASSUMED, title, text) for title, text in explanations.items()]
