"""The sweep of claims: every distinct score, or thresholds chosen beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_losses import CLAIM_LOSSES, ClaimLoss
from tether.risk.claim_steps import LossPieces, claim_steps, event_index, loss_pieces, losses_at
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


def sweep_claims(
    claims: Claims,
    thresholds: ArrayLike | None,
    loss: ClaimLoss,
    bound: float,
    weights: ItemWeights,
    *,
    envelope: bool,
) -> Sweep:
    """Sums of the losses, and on request of their envelopes, at every candidate."""
    larger = loss.safer == "larger"
    _require_sizes(claims, loss)
    total_weight = weights.total(claims.n_items)
    weight_of_claim = None
    if weights.values is not None:
        weight_of_claim = np.repeat(weights.values, np.diff(claims.offsets))
    exact = thresholds is None
    keys: Floats | Integers
    if thresholds is None:
        order = SweepOrder.of(claims.scores, larger_is_safer=larger)
        keys, unreached = claims.scores, None
        read_kept = counts_from_order(order.run_ends, larger_is_safer=larger)
    else:
        candidates = checked_thresholds(thresholds, loss.safer)
        keys = event_index(claims.scores, candidates, larger_is_safer=larger)
        unreached = len(candidates)
        read_kept = counts_from_events(keys, unreached, larger_is_safer=larger)

    def summed(of_envelope: bool) -> tuple[Floats, Booleans]:
        steps = claim_steps(
            claims,
            loss,
            bound,
            keys,
            descending=exact and larger,
            unreached=unreached,
            envelope=of_envelope,
        )
        start = float(weights.apply(steps.before).sum())
        if weight_of_claim is not None:
            np.multiply(steps.values, weight_of_claim, out=steps.values)
        if exact:
            return order.sums(steps.values, start), steps.nonmonotone
        return binned_sums(keys, steps.values, start, len(candidates)), steps.nonmonotone

    sums, nonmonotone = summed(False)
    envelope_sums = summed(True)[0] if envelope else None
    if exact:
        candidates = order.thresholds(claims.scores)
    nonmonotone_items = np.flatnonzero(nonmonotone)

    def read_losses(where: slice, items: Integers | None = None) -> Iterator[Floats]:
        chosen = candidates[where]
        count = claims.n_items if items is None else len(items)
        mean_size = len(claims.scores) // claims.n_items
        rows = max(1, CELLS_PER_BLOCK // (len(chosen) + 1 + mean_size))
        for first in range(0, count, rows):
            stop = min(first + rows, count)
            part = claims.between(first, stop) if items is None else claims.take(items[first:stop])
            yield losses_at(part, loss, bound, chosen)

    def read_pieces(where: slice, items: Integers) -> LossPieces:
        return loss_pieces(claims.take(items), loss, bound, candidates[where])

    return Sweep(
        thresholds=candidates,
        sums=sums,
        envelope=envelope_sums,
        total_weight=total_weight,
        test_weight=weights.test,
        n_items=claims.n_items,
        effective_sample_size=weights.effective_sample_size(claims.n_items),
        bound=bound,
        loss=loss.name,
        safer=loss.safer,
        n_nonmonotone=len(nonmonotone_items),
        nonmonotone_items=tuple(int(i) for i in nonmonotone_items[:MAX_NAMED_ITEMS]),
        exact=exact,
        weighted=weights.values is not None,
        test_weight_assumed=weights.is_test_assumed,
        read_losses=read_losses,
        events=ItemEvents(claims.scores, claims.offsets),
        read_pieces=read_pieces,
        harmless_start=loss in CLAIM_LOSSES.values()
        and costs_nothing(candidates[0], loss.safer, exact=exact),
        kept_counts=KeptCounts("claims", claims.scores, claims.offsets, read_kept),
        loss_settings=loss.settings,
        can_fall=loss.can_fall and bool((np.diff(claims.offsets) > 1).any()),
    )


def _require_sizes(claims: Claims, loss: ClaimLoss) -> None:
    """Raise for a named item with more claims than the loss is defined for."""
    sizes, most = np.diff(claims.offsets), loss.settings.get("most_claims", np.inf)
    longest = int(np.argmax(sizes))
    if claims.items is not None and sizes[longest] > most:
        raise ValueError(
            f"most_claims = {most:g}, but {np.count_nonzero(sizes > most):,} of "
            f"{claims.n_items:,} items have more, item {claims.items[longest].item()!r} "
            f"{sizes[longest]}: name the largest number that an item can have, and enforce it "
            "where claims are shown; or leave out the items that would not be shown either"
        )
