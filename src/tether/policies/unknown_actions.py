"""Actions that are not among those of a policy, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.shown import few
from tether._core.types import Booleans

TO_KNOW_MORE_ACTIONS = (
    "If it is a classifier that never saw them in its training rows, it takes them with "
    "probability 0: pass tether.Categorical.from_classifier(model, actions=all_actions)"
)
"""What to do about a model that knows too few actions."""


class UnknownActionsError(ValueError):
    """Actions that are not among those of a policy; `advice` says what to do in a log."""

    def __init__(
        self, known: NDArray[Any], actions: NDArray[Any], unknown: Booleans, advice: str = ""
    ) -> None:
        self.known, self.actions, self.unknown = known, actions, unknown
        first = int(np.argmax(unknown))
        shown = ", ".join(map(repr, known[:5].tolist())) + (", …" if len(known) > 5 else "")
        super().__init__(
            f"actions[{first}] is {actions[first].item()!r}: expected one of {shown}"
            f"{outcome_hint(known, actions)}{advice}"
        )

    def of_policy(self, name: str) -> UnknownActionsError:
        """The same, with the policy that lacks them, how many rows have one, and what to do."""
        lacking = np.unique(self.actions[self.unknown])
        advice = (
            f", which are all {len(self.known)} actions of the {name} policy. It lacks "
            f"{few(lacking)}, in {int(self.unknown.sum()):,} of {len(self.actions):,} rows"
        )
        if lacking.dtype.kind == "U":
            written = {each.strip().casefold() for each in self.known.astype(str).tolist()}
            if any(each.strip().casefold() in written for each in lacking.tolist()):
                advice += ". Some differ by upper and lower case or spaces only: write them alike"
        advice += f". {TO_KNOW_MORE_ACTIONS}"
        return UnknownActionsError(self.known, self.actions, self.unknown, advice)


def outcome_hint(known: NDArray[Any], actions: NDArray[Any]) -> str:
    """Whether a model of an outcome, yes or no, was taken for a policy over named actions."""
    if known.dtype.kind not in "iubf" or known.tolist() != [0, 1] or actions.dtype.kind not in "US":
        return ""
    return (
        ". A model that predicts an outcome is no policy: predict it for each action, and pass "
        "tether.Categorical.from_probabilities with a function that returns 1 for the best action "
        "and 0 for the others"
    )
