"""The sweep of scored labels: error rates of a yes or no decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Floats
from tether.risk.claim_losses import CLAIM_LOSSES
from tether.risk.claim_steps import Pieces, event_index, loss_pieces
from tether.risk.claims import Claims
from tether.risk.item_weights import ItemWeights
from tether.risk.risk_curve import CELLS, NAMED, Sweep, given_thresholds
from tether.risk.running_sums import Order, binned_sums
from tether.risk.scored_labels import ScoredLabels

# Each rate and its safe direction: of the selected, of the negative, of the positive.
LABEL_LOSSES = {
    "false_discovery": "larger",
    "false_positive": "larger",
    "false_negative": "smaller",
}


def sweep_labels(
    given: ScoredLabels, thresholds: Any, loss: Any, bound: float, weights: ItemWeights
) -> Sweep:
    """Rates of a yes or no decision: each among the items that it is a rate of."""
    loss = validate.choice("loss", "false_discovery" if loss is None else loss, LABEL_LOSSES)
    if bound < 1:
        raise ValueError(f"bound must be at least 1 for {loss!r}, got {bound:g}")
    weights.total(given.items)  # one weight an item, or an error
    safer = LABEL_LOSSES[loss]
    larger = safer == "larger"
    among = np.arange(given.items)
    if loss != "false_discovery":
        among = np.flatnonzero(given.labels == (loss == "false_negative"))
    if len(among) == 0:
        raise ValueError(
            f"labels hold no {int(loss == 'false_negative')}: the {loss} rate is undefined"
        )
    part, weights = given.take(among), weights.take(among)
    mass = weights.apply(np.ones(part.items))
    wrong = mass * ~part.labels if loss == "false_discovery" else mass
    exact = thresholds is None
    if exact:
        # Every score is a candidate: one of the other class admits its own at no cost to this one.
        order = Order.of(given.scores, larger_is_safer=larger)
        candidates = order.thresholds(given.scores)
        sums, counts = (
            order.sums(_spread(step, among, given.items), 0.0) for step in (wrong, mass)
        )
    else:
        candidates = given_thresholds(thresholds, safer)
        keys = event_index(part.scores, candidates, larger_is_safer=larger)
        sums, counts = (binned_sums(keys, step, 0.0, len(candidates)) for step in (wrong, mass))

    def dense(where: slice, items: Any = None) -> Iterator[Floats]:
        """Losses; NaN where an item is not among those the rate is of."""
        chosen = candidates[where]
        named = np.arange(part.items) if items is None else items
        rows = max(1, CELLS // (len(chosen) + 1))
        for first in range(0, len(named), rows):
            some = named[first : first + rows]
            keys = event_index(part.scores[some], chosen, larger_is_safer=larger)
            moved = keys[:, None] <= np.arange(len(chosen))
            if loss == "false_discovery":
                lost = ~part.labels[some, None]
                yield np.where(moved, lost.astype(np.float64), np.nan)
            else:
                yield moved.astype(np.float64)

    ratio = loss == "false_discovery"
    # A rate of one class is a loss of items with one claim each.
    single = Claims(part.scores, part.labels, np.arange(part.items + 1))
    alike = CLAIM_LOSSES["miss" if loss == "false_negative" else "any_false"]

    def pieces(where: slice, items: Any) -> Pieces:
        return loss_pieces(single.take(items), alike, bound, candidates[where])

    # Held down is the mean of (false − alpha) · selected, which falls as a true item is selected.
    falls = np.flatnonzero(part.labels) if ratio else np.zeros(0, dtype=np.int64)
    return Sweep(
        thresholds=candidates,
        sums=sums,
        envelope=None if ratio else sums,
        total=counts if ratio else weights.total(part.items),
        test_weight=weights.test,
        items=part.items,
        effective_sample_size=weights.effective_sample_size(part.items),
        bound=bound,
        loss=loss,
        safer=safer,
        faults=len(falls),
        faulty=tuple(int(i) for i in falls[:NAMED]),
        exact=exact,
        weighted=weights.values is not None,
        dense=dense,
        claims=None if ratio else single,
        pieces=None if ratio else pieces,
    )


def _spread(steps: Floats, among: Any, items: int) -> Floats:
    """Steps of all items: 0 for those the rate is not of."""
    found = np.zeros(items)
    found[among] = steps
    return found
