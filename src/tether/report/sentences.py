"""The state of a run, its promise and its missing losses, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tether.control.calibration import Calibration
from tether.control.promise import PromiseTerms
from tether.report.number_format import format_beta, format_count, format_number, format_time

if TYPE_CHECKING:
    from tether.rounds.history import History, RoundRecord

MISSING_LOSS_SENTENCES = {
    "wait": "calibration waits until enough losses of every round have arrived, and those still "
    "missing then count as the largest possible loss",
    "worst_case": "a loss that has not arrived counts as the largest possible loss",
    "exclude": "rows without a loss are left out, as if losses were missing at random",
}
"""What each value of the setting `missing` means."""
MAX_ROUNDS_LISTED = 12


@dataclass(frozen=True)
class RunState:
    """The state of a run: a heading, a sentence, and details for whoever has to act on it.

    `notes` are sentences about what holds it back or looks wrong; a run that goes on with one is
    "held".
    """

    kind: Literal["running", "held", "alarm", "safe", "empty"]
    heading: str
    sentence: str
    details: str
    notes: tuple[str, ...] = ()


def run_state(history: History) -> RunState:
    """Describe the present state of a run."""
    if not history.rounds:
        return RunState(
            "empty", "Not started", "No round has started yet.", "The safe policy is in use."
        )
    last, alarm = history.rounds[-1], history.alarm
    if alarm is not None:
        return RunState(
            "alarm",
            "Active alarm",
            f"The safe policy has been in use since an alarm in round {alarm.round}.",
            f"The {alarm.monitor} monitor raised it on {format_time(alarm.raised)} with the "
            f"message “{alarm.message}”. It stays active until a person clears it and "
            "gives a reason.",
        )
    if last.retired:
        sentence = f"Round {last.number} uses the safe policy only."
        return RunState("safe", "Safe policy only", sentence, "Its own policy was retired.")
    if last.over:
        sentence = f"Round {last.number} is over."
        return RunState("safe", "Ramp begins anew", sentence, as_sentence(last.note))
    if history.is_ramp and last.share > 0:
        return ramp_state(last)
    if last.calibration is None or not last.calibration.exists:
        sentence = f"Round {last.number} uses the safe policy only."
        return RunState("safe", "Safe policy only", sentence, as_sentence(last.note))
    name = policy_name(last) or "the optimized policy"
    if math.isinf(last.calibration.log_beta):
        sentence = f"Round {last.number} uses {name} without restriction."
    else:
        sentence = f"Round {last.number} follows {name} up to beta = {round_beta(last)}."
    heading = "Running" if last.calibration.useful else "Running without a useful promise"
    return RunState("running", heading, sentence, as_sentence(last.note))


def ramp_state(last: RoundRecord) -> RunState:
    """Describe a ramp that goes on."""
    name = policy_name(last) or "the optimized policy"
    heading = "Running"
    if last.ramp_share is not None and not last.ramp_share.useful:
        heading = "Running without a useful promise"
    sentence = f"Round {last.number} gives {name} {round_beta(last)} of the actions."
    return RunState("running", heading, sentence, as_sentence(last.why))


def ramp_promise_sentences(last: RoundRecord | None, target: str) -> tuple[str, str]:
    """State what is promised for a round of a ramp, and where the number comes from."""
    share = None if last is None else last.ramp_share
    if share is None or not share.share:
        return promise_sentences(None, target)
    stated = ", ".join(f"{name} ≤ {format_number(each)}" for name, each in share.promises.items())
    if share.confidence is not None:
        return (
            f"With probability {share.confidence:g}, at all steps of this ramp: {stated}.",
            "The share follows from upper bounds on the risks of both policies that hold at all "
            "times simultaneously.",
        )
    binding = share.guardrails[share.binding]
    return (
        f"In expectation: {stated}.",
        f"That of {share.binding}, which limits the share, is alpha = "
        f"{format_number(binding.alpha)}, plus {format_number(binding.stability)} for stability, "
        f"plus {format_number(binding.existence)} for logs on which the reference policy alone does"
        f" not pass. The bound on the risk of the reference policy is "
        f"{format_number(binding.old_bound)} from {format_count(binding.old.rows, 'row')}, that of "
        f"the new one {format_number(binding.new_bound)} from "
        f"{format_count(binding.new.rows, 'row')}. The promise is an average over logs.",
    )


def run_promise(history: History) -> tuple[str, str]:
    """State what a run promises now, and explain where the number comes from."""
    last = history.rounds[-1] if history.rounds else None
    if history.alarm is not None or (last is not None and (last.retired or last.over)):
        last = None
    if history.is_ramp:
        return ramp_promise_sentences(last, history.target)
    return promise_sentences(None if last is None else last.calibration, history.target)


def target_name(target: str) -> str:
    """What a run compares its risk with, in a sentence: alpha, or the promise that was named."""
    return "the promise" if target == "promise" else target


def promise_sentences(calibration: Calibration | None, target: str = "alpha") -> tuple[str, str]:
    """State what is promised for a round, and explain where the number comes from."""
    named = target_name(target)
    if calibration is None:
        return (
            "No promise from calibration applies.",
            f"The safe policy is in use; its risk is assumed to be at most {named}.",
        )
    if not calibration.exists and calibration.confidence is not None:
        return (
            f"No promise: no beta is certified with confidence {calibration.confidence:g}.",
            f"The safe policy is used; its risk is assumed to be at most {named}.",
        )
    binding = calibration.binding
    if not calibration.exists and calibration.rule == "promise":
        return (
            f"The soft chain serves the safe policy, at a promise of {binding.alpha:.4g}.",
            f"Its risk is assumed to be at most {named}.",
        )
    if not calibration.exists:
        return (
            "No promise: no beta passes.",
            f"Even for the safe policy the calibrated risk is {format_number(binding.risk)}, "
            f"above alpha = {format_number(binding.alpha)}; so the safe policy is used.",
        )
    statement = as_sentence(calibration.statement)
    if calibration.confidence is not None:
        return (
            statement,
            f"The probability is over logs: a share of at most {1 - calibration.confidence:.3g} "
            "of all logs leads to a policy whose expected loss is above alpha. It holds under the "
            "assumptions below.",
        )
    terms = binding.terms
    if terms is None:
        return (
            statement,
            "The promise is an average over logs and over the recorded draw. It has no estimated "
            "term, and holds under the assumptions below.",
        )
    this = "This"
    if len(calibration.losses) > 1:
        this = f"That of {binding.name}, which limits beta,"
    return (
        statement,
        f"{this} is alpha = {format_number(terms.alpha)}, plus {format_number(terms.stability)} "
        f"for stability, plus {format_number(terms.safe_excess)} for the excess of the safe "
        f"policy{_unforeseen(terms)}. "
        "The stability term covers how much the policy changes when one row of the log is "
        "replaced, and is estimated by leaving out each row in turn. The excess covers logs on "
        "which no beta passes, where the safe policy is served with its own risk. The promise is "
        "an average over logs, and holds under the assumptions below.",
    )


def _unforeseen(terms: PromiseTerms) -> str:
    """The fourth term, where there is one."""
    if not terms.unforeseen:
        return ""
    return f", plus {format_number(terms.unforeseen)} for actions that no draw foresees"


def missing_losses_sentences(history: History) -> str:
    """State how many losses are pending or withdrawn, and how missing ones are treated."""
    pending = sum(record.pending for record in history.rounds)
    withdrawn = sum(record.withdrawn for record in history.rounds)
    rows = sum(record.rows for record in history.rounds)
    pending_rounds = [record.number for record in history.rounds if record.pending]
    where = f" (in {list_rounds(pending_rounds[::-1])})" if pending_rounds else ""
    rule = MISSING_LOSS_SENTENCES.get(history.missing, "as stated")
    return (
        f"Of {format_count(rows, 'action')}, {format_count(pending, 'loss is', 'losses are')} "
        f"pending{where}, and {format_count(withdrawn, 'row was', 'rows were')} withdrawn because "
        f"the action was not carried out. With missing = “{history.missing}”, {rule}."
    )


def loss_suffix(history: History, name: str) -> str:
    """What follows "risk" in a heading: nothing, or which of several losses it is of."""
    return f" of {name}" if len(history.limits) > 1 else ""


def list_rounds(numbers: Sequence[int]) -> str:
    """List rounds by number, at most a dozen of them.

    >>> list_rounds([3]), list_rounds([3, 5])
    ('round 3', 'rounds 3, 5')
    """
    text = ", ".join(map(str, numbers[:MAX_ROUNDS_LISTED]))
    if len(numbers) > MAX_ROUNDS_LISTED:
        text += f" and {len(numbers) - MAX_ROUNDS_LISTED} more"
    return f"round {text}" if len(numbers) == 1 else f"rounds {text}"


def policy_name(record: RoundRecord) -> str | None:
    """The name of a round's optimized policy, unless it only repeats the round's number."""
    return None if record.policy == f"round {record.number}" else record.policy


def round_label(record: RoundRecord) -> str:
    """A round by its number and its policy."""
    if record.policy is None:
        return f"Round {record.number}, safe policy"
    return f"Round {record.number}" + (f", {record.policy}" if policy_name(record) else "")


def round_beta(record: RoundRecord) -> str:
    """The beta of a round as text; in a ramp its share."""
    if record.ramp_share is not None:
        return f"{record.share:.3%}"
    return "0" if record.calibration is None else format_beta(record.calibration.log_beta)


def as_sentence(text: str) -> str:
    """Make a sentence of a text: with a capital first and a full stop last."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?…" else ".")
