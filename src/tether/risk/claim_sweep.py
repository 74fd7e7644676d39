"""The sweep of claims: every distinct score, or thresholds chosen beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tether._core.types import Booleans, Floats
from tether.risk.claim_losses import ClaimLoss
from tether.risk.claim_steps import Pieces, claim_steps, dense_losses, event_index, loss_pieces
from tether.risk.claims import Claims
from tether.risk.item_weights import ItemWeights
from tether.risk.risk_curve import CELLS, NAMED, Sweep, given_thresholds
from tether.risk.running_sums import Order, binned_sums


def sweep_claims(
    claims: Claims,
    thresholds: Any,
    loss: ClaimLoss,
    bound: float,
    weights: ItemWeights,
    *,
    envelope: bool,
) -> Sweep:
    """Sums of the losses, and of their envelopes where asked, at every candidate."""
    larger = loss.safer == "larger"
    total = weights.total(claims.items)
    shares = None
    if weights.values is not None:
        shares = np.repeat(weights.values, np.diff(claims.offsets))
    exact = thresholds is None
    if exact:
        order = Order.of(claims.scores, larger_is_safer=larger)
        keys, never = claims.scores, None
    else:
        candidates = given_thresholds(thresholds, loss.safer)
        keys = event_index(claims.scores, candidates, larger_is_safer=larger)
        never = len(candidates)

    def summed(above: bool) -> tuple[Floats, Booleans]:
        steps = claim_steps(
            claims, loss, bound, keys, descending=exact and larger, never=never, envelope=above
        )
        start = float(weights.apply(steps.before).sum())
        if shares is not None:
            np.multiply(steps.values, shares, out=steps.values)
        if exact:
            return order.sums(steps.values, start), steps.faulty
        return binned_sums(keys, steps.values, start, len(candidates)), steps.faulty

    sums, faulty = summed(False)
    above = summed(True)[0] if envelope else None
    if exact:
        candidates = order.thresholds(claims.scores)
    at_fault = np.flatnonzero(faulty)

    def dense(where: slice, items: Any = None) -> Iterator[Floats]:
        chosen = candidates[where]
        count = claims.items if items is None else len(items)
        rows = max(1, CELLS // (len(chosen) + 1 + len(claims.scores) // claims.items))
        for first in range(0, count, rows):
            stop = min(first + rows, count)
            part = claims.between(first, stop) if items is None else claims.take(items[first:stop])
            yield dense_losses(part, loss, bound, chosen)

    def pieces(where: slice, items: Any) -> Pieces:
        return loss_pieces(claims.take(items), loss, bound, candidates[where])

    return Sweep(
        thresholds=candidates,
        sums=sums,
        envelope=above,
        total=total,
        test_weight=weights.test,
        items=claims.items,
        effective_sample_size=weights.effective_sample_size(claims.items),
        bound=bound,
        loss=loss.name,
        safer=loss.safer,
        faults=len(at_fault),
        faulty=tuple(int(i) for i in at_fault[:NAMED]),
        exact=exact,
        weighted=weights.values is not None,
        dense=dense,
        claims=claims,
        pieces=pieces,
    )
