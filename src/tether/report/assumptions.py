"""What the promise rests on, who vouches for it, and what has been seen of it."""

from __future__ import annotations

from dataclasses import dataclass

from tether.report.number_format import count, interval, number
from tether.rounds.history import History

CHECKED, PARTLY, ASSUMED, DOUBTFUL = "checked", "partly checked", "assumed", "doubtful"
GLYPHS = {CHECKED: "✓", PARTLY: "◐", ASSUMED: "○", DOUBTFUL: "✗"}


@dataclass(frozen=True)
class Assumption:
    """One assumption: whether the library checks it, what it says, and how that is known."""

    status: str
    title: str
    how: str


def assumptions(history: History) -> list[Assumption]:
    """All assumptions of a run, the checked ones first."""
    every = [*_checked(history), *_partly(history), *_assumed(history)]
    order = [DOUBTFUL, CHECKED, PARTLY, ASSUMED]
    return sorted(every, key=lambda each: order.index(each.status))


def _checked(history: History) -> list[Assumption]:
    normalizers = (
        "This family needs none."
        if history.family == "mix"
        else "Draws that clearly say more are refused: they were scored under another policy."
    )
    return [
        Assumption(
            CHECKED,
            f"Losses lie between 0 and {number(history.bound)}",
            "Any other loss is refused when it is reported.",
        ),
        Assumption(
            CHECKED,
            "Log-probabilities are numbers",
            "NaN and +∞ are refused, and so is a row that its own policy could not have produced.",
        ),
        Assumption(CHECKED, "Normalizers are at most 1", normalizers),
        Assumption(
            CHECKED,
            "No calibration row was trained on",
            "Each row is given to one share at random, once and durably; the run hands out "
            "training rows only. What a policy learned elsewhere is not seen here.",
        ),
        Assumption(
            CHECKED,
            "The safe policy is the one the run began with",
            "Its fingerprint, and its scores of stored actions, are compared whenever the run is "
            "taken up again.",
        ),
        Assumption(
            CHECKED,
            "Beta meets its definition",
            "The calibrated risk at beta is computed afresh and compared with alpha before use.",
        ),
    ]


def _partly(history: History) -> list[Assumption]:
    pending = sum(each.pending for each in history.rounds)
    safe = history.safe_loss
    seen, status = "Its own losses have not been seen yet.", ASSUMED
    if safe is not None:
        status = DOUBTFUL if safe.lower > history.alpha else PARTLY
        seen = f"{number(safe.mean)} ({interval(safe)}) over {count(safe.count, 'loss', 'losses')}."
    return [
        Assumption(status, f"The safe policy's risk is at most {number(history.alpha)}", seen),
        _coverage(history),
        Assumption(
            PARTLY,
            "Log-probabilities are those of the policies as they sample",
            "What they sum to over the log is compared with 1, and a warning says if it is more. "
            "Another prompt, temperature or truncation may still go unnoticed.",
        ),
        Assumption(
            PARTLY if pending else CHECKED,
            "Every loss arrives",
            f"{count(pending, 'loss is', 'losses are')} awaited now.".capitalize(),
        ),
    ]


def _coverage(history: History) -> Assumption:
    title = "The test weight covers the next action"
    found = next((e.calibration for e in reversed(history.rounds) if e.calibration), None)
    way = history.test_weight if found is None else found.test_weight
    if way == "analytic":
        return Assumption(CHECKED, title, "The analytic weight cannot be exceeded.")
    if way != "empirical":
        return Assumption(ASSUMED, title, f"It is the number {way} that was given.")
    if found is None:
        return Assumption(PARTLY, title, "It is the heaviest among the draws.")
    beyond = f"{count(found.rows_beyond_draws, 'row')} of {found.rows:,}"
    return Assumption(
        PARTLY,
        title,
        f"It is the heaviest among the draws; {beyond} in the latest calibration "
        f"{'lies' if found.rows_beyond_draws == 1 else 'lie'} beyond all of them.",
    )


def _assumed(history: History) -> list[Assumption]:
    assumed = {
        "Contexts keep coming from where they came": (
            "A shift monitor sees what its score shows of them, and no more."
        ),
        "Actions were carried out as chosen, and losses are what they cost": (
            "Nothing inside a store can tell."
        ),
    }
    if len({each.policy for each in history.rounds}) > 1:
        assumed["Past policies may be taken as one mixture"] = (
            "With several past policies this stands in for all orders in which the rows could have "
            "come; it is exact for one."
        )
    if history.missing == "exclude":
        assumed["Losses that never arrive are missing by chance"] = (
            "Their rows are left out; if bad news is what goes missing, the risk looks too small."
        )
    if history.against == "last":
        assumed["The last tethered policy is safe"] = (
            "Beta is measured against it rather than against the safe policy, so what is promised "
            "rests on each round before."
        )
    return [Assumption(ASSUMED, title, how) for title, how in assumed.items()]
