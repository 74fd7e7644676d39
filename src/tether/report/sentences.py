"""What a run has come to, in sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tether.control.calibration import Calibration
from tether.report.number_format import beta, count, moment, number
from tether.rounds.history import History, RoundRecord

MISSING = {
    "wait": "nothing is calibrated until enough losses of every round have arrived, and those "
    "still missing then count as the worst possible",
    "worst_case": "a loss that has not arrived counts as the worst possible",
    "exclude": "rows without a loss are left out, as if their absence said nothing",
}


@dataclass(frozen=True)
class State:
    """Where a run stands: a word for it, a sentence, and what to do or to know about it."""

    kind: str
    """"running", "alarm", "safe" or "empty"."""
    word: str
    sentence: str
    more: str


def state(history: History) -> State:
    """Where the run stands now."""
    if not history.rounds:
        return State("empty", "Not begun", "No round has begun.", "The safe policy serves.")
    last, alarm = history.rounds[-1], history.alarm
    if alarm is not None:
        return State(
            "alarm",
            "Alarm standing",
            f"The safe policy serves since an alarm in round {alarm.round}.",
            f"Raised {moment(alarm.raised)} by the {alarm.monitor} monitor: {alarm.message}. "
            "It stands until a person clears it with a reason.",
        )
    if last.calibration is None or not last.calibration.exists:
        why = f" {sentence(last.note)}" if last.note else ""
        return State(
            "safe", "Safe only", f"The safe policy serves round {last.number} alone.", why.strip()
        )
    name = policy_name(last) or "the optimized policy"
    if math.isinf(last.calibration.log_beta):
        how = f"Round {last.number} serves {name} whole."
    else:
        how = f"Round {last.number} follows {name} as far as beta = {written_beta(last)}."
    return State("running", "Running", how, sentence(last.note))


def promise(found: Calibration | None) -> tuple[str, str]:
    """What is promised for a round, in a sentence, and how it comes about."""
    if found is None:
        return (
            "Nothing is promised by calibration.",
            "The safe policy serves; its risk is its own, and is assumed to be at most alpha.",
        )
    if not found.exists:
        return (
            "Nothing is promised: no beta passes.",
            f"Even at the safe policy the calibrated risk is {number(found.risk)}, above "
            f"alpha = {number(found.alpha)}; so the safe policy serves.",
        )
    return (
        f"The expected loss of the next action is at most {number(found.promise)}.",
        f"That is alpha = {number(found.alpha)} plus what exchanging one row of the log can do to "
        f"beta: max(alpha, bound − alpha)·ε̂ with bound = {number(found.bound)} and "
        f"ε̂ = {number(found.stability)}, measured by leaving each row out. It is an average over "
        "logs, and it holds if the assumptions below do.",
    )


def waiting(history: History) -> str:
    """How many losses are awaited, what became of the others, and how that is treated."""
    pending = sum(each.pending for each in history.rounds)
    withdrawn = sum(each.withdrawn for each in history.rounds)
    rows = sum(each.rows for each in history.rounds)
    where = [each.number for each in history.rounds if each.pending]
    listed = ", ".join(map(str, where[-8:])) + (", and before" if len(where) > 8 else "")
    first = (
        f"Of {count(rows, 'action')}, {count(pending, 'loss is', 'losses are')} awaited"
        f"{f' (round {listed})' if where else ''} and {count(withdrawn, 'row was', 'rows were')} "
        "withdrawn, never carried out."
    )
    return (
        f"{first} With missing = “{history.missing}”, {MISSING.get(history.missing, 'as stated')}."
    )


def policy_name(each: RoundRecord) -> str | None:
    """The name of a round's optimized policy, where it has one that says more than its number."""
    return None if each.policy == f"round {each.number}" else each.policy


def round_label(each: RoundRecord) -> str:
    """A round by its number and its policy."""
    if each.policy is None:
        return f"Round {each.number}, the safe policy"
    return f"Round {each.number}" + (f", {each.policy}" if policy_name(each) else "")


def written_beta(each: RoundRecord) -> str:
    """The beta of a round, from its log."""
    return "0" if each.calibration is None else beta(each.calibration.log_beta)


def sentence(text: str) -> str:
    """Text as a sentence: a capital first, a full stop last."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?…" else ".")
