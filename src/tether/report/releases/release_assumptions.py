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
            "The keys of a step are independent draws from one population, and like those of the "
            "step before.",
        ),
        Assumption(
            ASSUMED,
            "Both systems keep their distribution of losses until the end of the next step",
            "If the new one becomes worse, its share follows one step later; within the step only "
            "the monitor can help.",
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
