"""What the promise of a release assumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether.report.assumptions import ASSUMED, CHECKED, PROVEN, Assumption

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory


def release_assumptions(history: ReleaseHistory) -> list[Assumption]:
    """List them, those that the library checks or ensures first.

    With a confidence a step may end at any time, and the old system's rows may be any.
    """
    checked = [
        Assumption(
            CHECKED,
            "Losses lie between 0 and their bounds",
            "Others are refused when they are observed. A loss that is not known when a share is "
            "computed counts as the bound.",
        ),
        Assumption(
            PROVEN,
            "Which system answers a key does not depend on its losses",
            "It is decided by a hash of the key with a salt; “tether verify” computes it again for "
            "every key.",
        ),
    ]
    assumed = [
        Assumption(
            ASSUMED,
            "Keys are alike",
            "The keys of a step are independent draws from one population, and like those of "
            f"{_deciding_steps(history)}.",
        ),
        Assumption(
            ASSUMED,
            "Both systems keep their distribution of losses until the end of the steps that their "
            "rows decide",
            _if_worse(history),
        ),
        Assumption(
            ASSUMED,
            "Each key was answered by the system that it was assigned to",
            "This cannot be checked from the store.",
        ),
    ]
    if history.confidence is None:
        assumed.append(
            Assumption(
                ASSUMED,
                "The number of the old system's rows was fixed without looking at their losses",
                "They were collected before the release, or in its first step.",
            )
        )
    length = [] if history.confidence is not None else [_length_of_steps(history)]
    return [*checked, *length, *assumed]


def _deciding_steps(history: ReleaseHistory) -> str:
    """The steps whose rows decide the share of a step, as seen from it."""
    if history.confidence is not None:
        last = "the last" if history.wait == 1 else f"the last {history.wait}"
        until = f" but {last}" if history.wait else ""
        return f"all steps before it{until}, whose rows decide its share"
    which = "one before" if history.wait == 0 else f"one {_later(history)} before"
    return (
        f"the step whose rows decide its share: the {which}, or an earlier one where few keys "
        "have come since"
    )


def _if_worse(history: ReleaseHistory) -> str:
    slowly = "" if history.confidence is None else ", and slowly, since all rows before count too"
    return (
        f"If the new one becomes worse, its share follows {_later(history)} later{slowly}; until "
        "then only the monitor can help."
    )


def _later(history: ReleaseHistory) -> str:
    """How long after a step its rows are used: those of the step before, unless they wait."""
    return "one step" if history.wait == 0 else f"{history.wait + 1} steps"


def _length_of_steps(history: ReleaseHistory) -> Assumption:
    title = "The length of a step does not depend on its losses"
    if history.length != "by hand":
        return Assumption(PROVEN, title, f"A step ends by itself, after {history.length}.")
    return Assumption(
        ASSUMED,
        title,
        "A person or a program ends each step, which must be at times that were fixed before, such "
        "as once a day.",
    )
