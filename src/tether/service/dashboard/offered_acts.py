"""What people may do on the page: each is a button, a dialog that asks for a reason, a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class OfferedAct:
    """An act that a person with the role operate may do.

    Parameters
    ----------
    name : str
        The name of its endpoint, such as "halt".
    title : str
        What the button and the dialog are called.
    text : str
        What it does.
    confirm : str
        The words of the button that does it.
    is_open : bool
        Whether it can be done now.
    style : str, default ""
        How its button looks: "danger", "primary" or plain.
    number_name : str or None, default None
        Under which name the request has the number of the present step or round.
    """

    name: str
    title: str
    text: str
    confirm: str
    is_open: bool
    style: str = ""
    number_name: str | None = None


def release_acts(*, is_halted: bool, can_advance: bool) -> Sequence[OfferedAct]:
    """What people may do to a release."""
    texts = (
        "The old system answers all keys, in every process, until somebody resumes.",
        "This clears the alarm. The monitors start again, and the ramp begins anew with its "
        "smallest share.",
        "The next step begins with a share from the rows so far. The moment must not depend on "
        "losses.",
    )
    advance = OfferedAct(
        "advance", "End this step", texts[2], "End the step", True, number_name="step"
    )
    return [*_halt_and_resume(texts[0], texts[1], is_halted), *([advance] if can_advance else [])]


def run_acts(
    *, is_halted: bool, is_ramp: bool, can_begin: bool, is_beginning: bool
) -> Sequence[OfferedAct]:
    """What people may do to a run."""
    halt = "The safe policy takes all actions, in every process, until somebody resumes."
    resume = "This clears the alarm. The monitors start again, and "
    resume += (
        "the ramp begins anew with its smallest share."
        if is_ramp
        else "the policy of the present round, if it has one, acts again."
    )
    begin = OfferedAct(
        "begin",
        "Begin a round",
        "An optimized policy is made from the training rows and calibrated, and the next round "
        "begins with it. Actions go on meanwhile. While an alarm stands, the next round is one of "
        "the safe policy. The moment must not depend on losses of calibration rows.",
        "Begin the round",
        not is_beginning,
        number_name="round",
    )
    return [*_halt_and_resume(halt, resume, is_halted), *([begin] if can_begin else [])]


def _halt_and_resume(halt: str, resume: str, is_halted: bool) -> list[OfferedAct]:
    return [
        OfferedAct("halt", "Halt", halt, "Halt now", not is_halted, "danger"),
        OfferedAct("resume", "Resume", resume, "Resume now", is_halted, "primary"),
    ]
