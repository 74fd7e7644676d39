"""The sweep of scored labels: error rates of a yes-or-no decision."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Floats, Integers
from tether.risk.claim_losses import CLAIM_LOSSES, LossFunction
from tether.risk.claim_steps import LossPieces, event_index, loss_pieces
from tether.risk.claims import Claims
from tether.risk.item_weights import ItemWeights
from tether.risk.kept_share import KeptCounts, counts_from_events, counts_from_order
from tether.risk.risk_curve import (
    CELLS_PER_BLOCK,
    MAX_NAMED_ITEMS,
    ItemEvents,
    Sweep,
    checked_thresholds,
    costs_nothing,
)
from tether.risk.running_sums import SweepOrder, binned_sums
from tether.risk.scored_labels import ScoredLabels

# Each rate and its safe direction: among the selected, the negative and the positive items.
LABEL_LOSSES = {
    "false_discovery": "larger",
    "false_positive": "larger",
    "false_negative": "smaller",
}


def sweep_labels(
    items: ScoredLabels,
    thresholds: ArrayLike | None,
    loss: str | LossFunction | None,
    bound: float,
    weights: ItemWeights,
) -> Sweep:
    """Rates of a yes-or-no decision, each among the items that it is a rate of."""
    loss = validate.choice("loss", "false_discovery" if loss is None else loss, LABEL_LOSSES)
    if bound < 1:
        raise ValueError(f"bound must be at least 1 for {loss!r}, got {bound:g}")
    weights.total(items.n_items)  # checks the number of weights
    safer = LABEL_LOSSES[loss]
    larger = safer == "larger"
    among = np.arange(items.n_items)
    if loss != "false_discovery":
        among = np.flatnonzero(items.labels == (loss == "false_negative"))
    if len(among) == 0:
        raise ValueError(
            f"labels has no {int(loss == 'false_negative')}: the {loss} rate is undefined"
        )
    part, weights = items.take(among), weights.take(among)
    mass = weights.apply(np.ones(part.n_items))
    wrong = mass * ~part.labels if loss == "false_discovery" else mass
    exact = thresholds is None
    if thresholds is None:
        # Every score is a candidate: one of the other class costs this class nothing.
        order = SweepOrder.of(items.scores, larger_is_safer=larger)
        candidates = order.thresholds(items.scores)
        read_kept = counts_from_order(order.run_ends, larger_is_safer=larger)
        sums, counts = (
            order.sums(_over_all_items(step, among, items.n_items), 0.0) for step in (wrong, mass)
        )
    else:
        candidates = checked_thresholds(thresholds, safer)
        keys = event_index(part.scores, candidates, larger_is_safer=larger)
        events = event_index(items.scores, candidates, larger_is_safer=larger)
        read_kept = counts_from_events(events, len(candidates), larger_is_safer=larger)
        sums, counts = (binned_sums(keys, step, 0.0, len(candidates)) for step in (wrong, mass))

    def read_losses(where: slice, named: Integers | None = None) -> Iterator[Floats]:
        """Losses; NaN where an item is not among those that the rate is of."""
        chosen = candidates[where]
        named = np.arange(part.n_items) if named is None else named
        rows = max(1, CELLS_PER_BLOCK // (len(chosen) + 1))
        for first in range(0, len(named), rows):
            block = named[first : first + rows]
            keys = event_index(part.scores[block], chosen, larger_is_safer=larger)
            crossed = keys[:, None] <= np.arange(len(chosen))
            if loss == "false_discovery":
                false = ~part.labels[block, None]
                yield np.where(crossed, false.astype(np.float64), np.nan)
            else:
                yield crossed.astype(np.float64)

    among_selected = loss == "false_discovery"
    # A rate among one class is a loss of items with one claim each.
    single = Claims(part.scores, part.labels, np.arange(part.n_items + 1))
    single_loss = CLAIM_LOSSES["miss" if loss == "false_negative" else "any_false"]

    def read_pieces(where: slice, named: Integers) -> LossPieces:
        return loss_pieces(single.take(named), single_loss, bound, candidates[where])

    # What is controlled is the mean of (false − alpha)·selected, which falls when a true item is
    # selected: every positive item is one whose loss is not monotone.
    falls = np.flatnonzero(part.labels) if among_selected else np.zeros(0, dtype=np.int64)
    return Sweep(
        thresholds=candidates,
        sums=sums,
        envelope=None if among_selected else sums,
        total_weight=counts if among_selected else weights.total(part.n_items),
        test_weight=weights.test,
        n_items=part.n_items,
        effective_sample_size=weights.effective_sample_size(part.n_items),
        bound=bound,
        loss=loss,
        safer=safer,
        n_nonmonotone=len(falls),
        nonmonotone_items=tuple(int(i) for i in falls[:MAX_NAMED_ITEMS]),
        exact=exact,
        weighted=weights.values is not None,
        test_weight_assumed=weights.is_test_assumed,
        read_losses=read_losses,
        events=None if among_selected else ItemEvents(single.scores, single.offsets),
        read_pieces=None if among_selected else read_pieces,
        harmless_start=not among_selected and costs_nothing(candidates[0], safer, exact=exact),
        kept_counts=KeptCounts("items", items.scores, np.arange(items.n_items + 1), read_kept),
    )


def _over_all_items(steps: Floats, among: Integers, n_items: int) -> Floats:
    """Steps of all items: 0 for those that the rate is not of."""
    padded = np.zeros(n_items)
    padded[among] = steps
    return padded
