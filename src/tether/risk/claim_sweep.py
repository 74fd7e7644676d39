"""The sweep of claims: every distinct score, or thresholds chosen beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tether._check import Floats
from tether.risk import events
from tether.risk.claims import Claims
from tether.risk.curve import CELLS, NAMED, Sweep, given_thresholds
from tether.risk.losses import ClaimLoss
from tether.risk.weights import ItemWeights


def sweep_claims(
    claims: Claims,
    thresholds: Any,
    loss: ClaimLoss,
    bound: float,
    weights: ItemWeights,
    *,
    plain: bool,
    envelope: bool,
) -> Sweep:
    """Sums of the losses (`plain`) and of their envelopes at every candidate."""
    larger = loss.safer == "larger"
    total = weights.total(claims.items)
    exact = thresholds is None
    if exact:
        keys, count, descending = claims.scores, None, larger
    else:
        candidates = given_thresholds(thresholds, loss.safer)
        count, descending = len(candidates), False
        keys = events.event_index(claims.scores, candidates, larger_is_safer=larger)
    steps = events.claim_steps(
        claims,
        loss,
        bound,
        keys,
        descending=descending,
        never=count,
        plain=plain,
        envelope=envelope,
    )
    before = steps.before if weights.values is None else steps.before * weights.values
    start = float(before.sum())
    used = [step for step in (steps.plain, steps.envelope) if step is not None]
    if weights.values is not None:
        spread = np.repeat(weights.values, np.diff(claims.offsets))
        for step in used:
            step *= spread
    if exact:
        candidates, sums = events.running_sums(
            claims.scores, used, [start] * len(used), larger_is_safer=larger
        )
    else:
        sums = [events.binned_sums(keys, step, start, len(candidates)) for step in used]
    faulty = np.flatnonzero(steps.faulty)

    def dense(where: slice, items: Any = None) -> Iterator[Floats]:
        chosen = candidates[where]
        named = np.arange(claims.items) if items is None else items
        rows = max(1, CELLS // (len(chosen) + 1))
        for first in range(0, len(named), rows):
            part = claims.take(named[first : first + rows])
            yield np.clip(events.dense_losses(part, loss, bound, chosen), 0, bound)

    return Sweep(
        thresholds=candidates,
        sums=sums[0],
        envelope=sums[-1] if envelope else None,
        total=total,
        test_weight=weights.test,
        items=claims.items,
        effective=weights.effective(claims.items),
        bound=bound,
        loss=loss.name,
        safer=loss.safer,
        faults=len(faulty),
        faulty=tuple(int(i) for i in faulty[:NAMED]),
        exact=exact,
        weighted=weights.values is not None,
        dense=dense,
        claims=claims,
    )
