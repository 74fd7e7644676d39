"""How many false claims a share among all that is shown leaves room for, and what needs the room.

The loss of `FalseAmongShown` is share + (false − share · shown) / most_claims, so a mean loss is
hard to read: near the share it is near the share, whatever part of the claims is false. Counted in
claims, with n items, S claims shown and F of them false, the conservative risk and the further
terms of a promise are together at most the share exactly where

    share · S − F  ≥  (1 − share) · most_claims + most_claims · (n + 1) · (stability + existence)

On the left is the room: how many more of the claims shown could be false. On the right is what the
next item takes of it at worst, showing `most_claims` claims that are all false, and what the two
terms take. The left is most_claims · (n · share − Σ losses), at every threshold.

A lower largest threshold shows more claims, and more false ones: the room can grow or shrink. So it
is advised only where a lower threshold of the same data has enough room.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether._core.counted import counted
from tether._core.safe_excess import NEAR_STANDARD_ERRORS, SafeMean
from tether.risk.claim_losses import FALSE_AMONG_SHOWN, false_among_shown
from tether.risk.risk_curve import Sweep

ITEMS_FACTOR = 3.0
"""How many times `most_claims` / (room per item) items are usually enough."""


@dataclass(frozen=True)
class ShownRoom:
    """What the safest threshold shows, and the room that it leaves for false claims.

    `best` is the threshold with the most room, and `best_room` that room.
    """

    threshold: float
    n_items: int
    shown: int
    false: int
    share: float
    most_claims: int
    best: float
    best_room: float

    @property
    def room(self) -> float:
        """How many more of the claims shown could be false."""
        return round(self.share * self.shown - self.false, 9)

    @property
    def next_item(self) -> float:
        """What the next item takes of the room at worst."""
        return round((1 - self.share) * self.most_claims, 9)

    def in_claims(self, loss: float) -> float:
        """A difference of conservative risks, as a number of false claims."""
        return self.most_claims * (self.n_items + 1) * loss

    def __str__(self) -> str:
        return (
            f"the largest threshold, {self.threshold:g}, shows {counted(self.shown, 'claim')}, "
            f"{self.false:,} of them false, which leaves room for {self.room:,.4g} more at a share "
            f"of {self.share:g}"
        )


def safest_room(sweep: Sweep) -> ShownRoom | None:
    """The room at the safest threshold; None for another loss, or where claims are weighted."""
    counts = sweep.kept_counts
    if sweep.loss != FALSE_AMONG_SHOWN or counts is None or sweep.weighted:
        return None
    share, most = sweep.loss_settings["share"], int(sweep.loss_settings["most_claims"])
    threshold = float(sweep.thresholds[0])
    shown = counts.at(0, threshold).kept
    false = false_among_shown(float(sweep.sums[0]), sweep.n_items, shown, share, most)
    rooms = most * (sweep.n_items * share - sweep.sums)
    best = int(np.argmax(rooms))
    ends = float(sweep.thresholds[best]), round(float(rooms[best]), 9)
    return ShownRoom(threshold, sweep.n_items, shown, false, share, most, *ends)


def items_for_room(share: float, safe_loss: float) -> float:
    """How many items are usually enough, by the mean loss of the safest threshold; may be inf.

    The room per item is most_claims · (share − mean loss). About most_claims / room items leave
    room for the next item at its worst, and twice so many more for chance and the other terms
    (`benchmarks.labels_for_shown_share`).
    """
    return math.inf if safe_loss >= share else math.ceil(ITEMS_FACTOR / (share - safe_loss))


def missing_room(room: ShownRoom, stability: float, existence: float) -> str:
    """Why the safest threshold cannot be promised, in claims."""
    needed = f"the next item needs {room.next_item:,.4g} of them at worst"
    if room.room >= room.next_item:
        needed += (
            f", data on which nothing passes {room.in_claims(existence):,.3g}, and the stability "
            f"of the threshold {room.in_claims(stability):,.3g}"
        )
    return f"{room}; {needed}. {_more_room(room)}"


def _more_room(room: ShownRoom) -> str:
    """What would leave more room."""
    if room.best_room > max(room.room, room.next_item):
        return (
            f"There is more at lower ones, {room.best_room:,.4g} at {room.best:g}: let the grid "
            "start lower for other items, whose labels were not seen when it was chosen"
        )
    if room.room <= 0:
        return "It shows too many false claims: better scores or a larger share are needed"
    return "More items, or a smaller limit most_claims, help"


def scarce_room(room: ShownRoom, safest: SafeMean) -> str:
    """Say that the room at the safest threshold may be chance."""
    error = room.most_claims * room.n_items * safest.standard_error
    return (
        f"{room} (standard error {error:,.2g}; it should be more than {NEAR_STANDARD_ERRORS:g} of "
        f"these): on other data nothing might pass, and nothing would be shown. {_more_room(room)}"
    )
