"""The state of a release and its promise, in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tether.report.number_format import NO_VALUE, format_count, format_number, format_time
from tether.report.sentences import RunState, as_sentence

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory, StepRecord

NEGLIGIBLE_TERM = 1e-9
"""A term of a promise below this is written as 0."""


def release_state(history: ReleaseHistory) -> RunState:
    """Describe the present state: the share of the new system, why, and what looks wrong.

    A release that runs with a warning looks different from one without.
    """
    found, notes = _state(history), release_notes(history)
    if notes and found.kind == "running":
        return replace(found, kind="held", heading=f"{found.heading}, held back", notes=notes)
    return replace(found, notes=notes)


def release_notes(history: ReleaseHistory) -> tuple[str, ...]:
    """Everything that keeps the share down or looks wrong, as sentences."""
    about = {history.missing: "Missing outcomes: ", history.stalled: "The share does not grow: "}
    return tuple(as_sentence(f"{about.get(told, '')}{told}") for told in history.warnings)


def _state(history: ReleaseHistory) -> RunState:
    step, alarm = history.steps[-1], history.alarm
    if alarm is not None:
        return RunState(
            "alarm",
            "Active alarm",
            f"The old system has answered all keys since an alarm in step {alarm.round}.",
            f"The {alarm.monitor} monitor raised it on {format_time(alarm.raised)} with the "
            f"message “{alarm.message}”. It stays active until a person clears it and gives a "
            f"reason.",
        )
    if history.is_resumed:
        since = f"since an alarm ended step {step.number}"
        if step.calibration.share == 0:
            since = f"in step {step.number}, which began under an alarm"
        return RunState(
            "safe",
            "Old system only",
            f"The old system answers all keys {since}.",
            "The alarm was cleared: with the next key a new ramp begins.",
        )
    if history.share == 0:
        sentence = f"The old system answers all keys in step {step.number}."
        return RunState("safe", "Old system only", sentence, as_sentence(step.why))
    return RunState(
        "running",
        "Running" if step.calibration.useful else "Running without a useful promise",
        f"The new system answers {format_share(step.share)} of the keys in step {step.number}.",
        f"Why this share: {step.why}.",
    )


def unstored_note(history: ReleaseHistory) -> str:
    """How many answers were given while the store was unavailable; empty if none were."""
    if not history.unstored:
        return ""
    return (
        f"While the store was unavailable the old system gave "
        f"{format_count(history.unstored, 'answer')} without it, which count nowhere."
    )


def new_since(history: ReleaseHistory, name: str) -> int | None:
    """The step since which the new system's mean loss is told; None before its first loss."""
    return history.steps[-1].ramp if name in history.new_losses else None


def release_promise(history: ReleaseHistory) -> tuple[str, str]:
    """State what is promised for the present step, and explain where the number comes from."""
    step = history.steps[-1]
    if history.share == 0:
        return (
            "No promise applies: the new system answers no keys.",
            "The old system answers with its own risk.",
        )
    promises, guardrails = step.calibration.promises, step.calibration.guardrails
    binding = step.calibration.binding
    stated = f"the expected loss ({binding}) of a key is at most {format_number(promises[binding])}"
    if len(promises) > 1:
        each = ", ".join(f"{name} {format_number(promises[name])}" for name in history.limits)
        stated = f"the expected loss of a key is at most: {each}"
    holds = (
        "It is about all keys of the step, whichever system answers them, and holds under the "
        "assumptions below."
    )
    if history.confidence is not None:
        return (
            f"With probability at least {history.confidence:g}, in this and all other steps "
            f"{stated}.",
            f"The probability is over releases. {holds}",
        )
    terms = guardrails[binding]
    this = "This" if len(promises) == 1 else f"That of {binding}, which limits the share,"
    return (
        f"In step {step.number} {stated}.",
        f"{this} is alpha = {format_number(terms.alpha)}, plus {format_term(terms.stability)} "
        f"for choosing the share on these rows (stability), plus {format_term(terms.existence)} "
        f"for releases whose old system alone does not pass (existence). The promise is an average "
        f"over releases, those included in which the new system gets no keys. {holds}",
    )


def format_term(term: float) -> str:
    """Write what a promise adds to alpha; 0 where that is too small to matter anywhere.

    >>> format_term(4.55e-53), format_term(0.00021)
    ('0', '0.00021')
    """
    return format_number(0.0 if abs(term) < NEGLIGIBLE_TERM else term)


def format_share(share: float) -> str:
    r"""Write a share of the keys as a percentage with three digits, and a no-break space.

    >>> format_share(0.583468), format_share(0.0096123), format_share(1.0)
    ('58.3\xa0%', '0.961\xa0%', '100\xa0%')
    """
    return f"{format_number(100 * share)}\N{NO-BREAK SPACE}%"


def of_guardrail(history: ReleaseHistory, name: str) -> str:
    """What follows a heading: nothing, or which of several guardrails it is about."""
    return f" of {name}" if len(history.limits) > 1 else ""


def window_text(step: StepRecord, confidence: float | None) -> str:
    """The rows of the new system that a share was computed from."""
    if confidence is not None:
        return "all rows before"
    return step.window_steps or NO_VALUE
