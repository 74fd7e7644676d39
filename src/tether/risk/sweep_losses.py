"""Sort and sweep once, whatever the losses come as."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core import validate
from tether.risk.claim_losses import claim_loss
from tether.risk.claim_sweep import sweep_claims
from tether.risk.claims import Claims
from tether.risk.item_weights import ItemWeights, item_weights
from tether.risk.label_sweep import sweep_labels
from tether.risk.loss_matrix import matrix_sums
from tether.risk.risk_curve import BOUND, NAMED, Sweep
from tether.risk.scored_labels import ScoredLabels


def sweep(
    losses: Any,
    thresholds: Any = None,
    *,
    loss: Any = None,
    bound: float = 1.0,
    weights: Any = None,
    log_weights: Any = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    envelope: bool = True,
) -> Sweep:
    """Sort and sweep once, for several methods or alphas; `envelope` serves `monotonized_crc`.

    >>> claims = Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3])
    >>> found = sweep(claims)
    >>> found.thresholds, found.sums
    (array([inf, 0.9, 0.7, 0.4]), array([0. , 0. , 0. , 0.5]))
    """
    shared = item_weights(weights, log_weights, test_weight, log_test_weight)
    return prepare(losses, thresholds, loss, bound, shared, envelope=envelope)


def prepare(
    losses: Any,
    thresholds: Any,
    loss: Any,
    bound: float,
    weights: ItemWeights,
    *,
    envelope: bool = False,
) -> Sweep:
    """The sweep of any kind of input, with the sums a method needs and no others."""
    if isinstance(losses, Sweep):
        _settled(losses, thresholds, loss, bound, weights)
        return losses
    bound = validate.number("bound", bound, above=0, below=np.inf)
    if isinstance(losses, Claims):
        chosen = claim_loss("fdr" if loss is None else loss)
        return sweep_claims(losses, thresholds, chosen, bound, weights, envelope=envelope)
    if isinstance(losses, ScoredLabels):
        return sweep_labels(losses, thresholds, loss, bound, weights)
    if loss is not None:
        raise ValueError(f"loss = {loss!r} is for Claims and ScoredLabels; a matrix holds its own")
    table = matrix_sums(losses, thresholds, bound, weights, envelope=envelope)
    return Sweep(
        thresholds=table.thresholds,
        sums=table.sums,
        envelope=table.envelope,
        total=weights.total(table.items),
        test_weight=weights.test,
        items=table.items,
        effective_sample_size=weights.effective_sample_size(table.items),
        bound=bound,
        loss="loss matrix",
        safer="larger",
        faults=len(table.faulty),
        faulty=tuple(table.faulty[:NAMED]),
        exact=False,
        weighted=weights.values is not None,
        dense=table.dense,
    )


def _settled(given: Sweep, thresholds: Any, loss: Any, bound: Any, weights: ItemWeights) -> None:
    """Refuse arguments that a sweep has settled already, rather than ignore them."""
    asked = {
        "thresholds": thresholds is not None,
        "loss": loss is not None,
        "bound": bound is not BOUND and bound != given.bound,
        "weights": weights.values is not None,
    }
    for name, wanted in asked.items():
        if wanted:
            raise ValueError(f"{name} cannot be given with a sweep, which has its own: {given!r}")
