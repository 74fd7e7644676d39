"""What the losses that come with the package measure, and their promises, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tether.risk.selection import Selection

LOSS_WORDS = {
    "fdr": "mean over all items of the share of an item's shown claims that are false (0 where "
    "nothing is shown)",
    "any_false": "share of all items that show a false claim",
    "miss": "mean over all items of the share of an item's true claims that are not shown (0 where "
    "it has none)",
    "false_among_shown": "number of false claims shown, as a share of the expected number of all "
    "claims shown,",
    "false_discovery": "share of selected items that are negative",
    "false_positive": "share of negative items that are selected",
    "false_negative": "share of positive items that are not selected",
}
"""What the average of each loss of claims and of labels is.

Losses of claims are averaged over all items, those that show nothing included: the share of false
claims among all claims shown is another number, and can be larger: "false_among_shown" is about
that one. Its loss is share + (false − share · shown) / most_claims; a mean of v ≤ share says that
false ≤ share · shown − most_claims · (share − v) ≤ v · shown, in expectation, since an item shows
at most most_claims.
"""


def loss_in_words(selection: Selection) -> str | None:
    """What the loss is, where it is one of the package; a table's own losses have no words."""
    return LOSS_WORDS.get(selection.loss) if selection.kept is not None else None


def named_loss(selection: Selection) -> str:
    """The name of the loss, and what it is."""
    words = loss_in_words(selection)
    if words is not None and (share := selection.settings.get("share")) is not None:
        words = (
            f"{share:g} + (false − {share:g} · shown) / {selection.settings['most_claims']:g} for "
            f"an item, so that a mean of at most {share:g} says that at most {share:g} of all "
            "claims shown are false; other values are no shares"
        )
    return selection.loss if words is None else f"{selection.loss}: {words.rstrip(',')}"


def in_words(statement: str, loss: str) -> str:
    """A statement about the expected loss, with the loss in words where it is of the package."""
    if (words := LOSS_WORDS.get(loss)) is None:
        return statement
    for general in ("expected loss ≤", "risk ≤"):
        if general in statement:
            return statement.replace(general, f"expected {words} ≤", 1)
    return statement
