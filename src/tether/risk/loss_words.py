"""What the losses that come with the package measure, and their promises, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tether.risk.selection import Selection

LOSS_WORDS = {
    "fdr": "share of claims shown that are false",
    "any_false": "share of items that show a false claim",
    "miss": "share of true claims that are not shown",
    "false_discovery": "share of selected items that are negative",
    "false_positive": "share of negative items that are selected",
    "false_negative": "share of positive items that are not selected",
}
"""Each loss of claims and of labels, averaged over items."""


def loss_in_words(selection: Selection) -> str | None:
    """What the loss is, where it is one of the package; a table's own losses have no words."""
    return LOSS_WORDS.get(selection.loss) if selection.kept is not None else None


def named_loss(selection: Selection) -> str:
    """The name of the loss, and what it is."""
    words = loss_in_words(selection)
    return selection.loss if words is None else f"{selection.loss}: {words}"


def promise_in_words(selection: Selection) -> str:
    """The statement of the promise, with the loss in words."""
    if selection.by_loss:
        parts = (f"{part.loss}: {promise_in_words(part)}" for part in selection.by_loss)
        return f"each loss separately: {'; '.join(parts)}"
    if selection.groups or (words := loss_in_words(selection)) is None:
        return selection.statement
    for general in ("expected loss ≤", "risk ≤"):
        if general in selection.statement:
            return selection.statement.replace(general, f"expected {words} ≤", 1)
    return selection.statement
