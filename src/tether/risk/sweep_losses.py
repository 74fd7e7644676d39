"""Sort and sweep once, whatever form the losses come in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether.risk.claim_losses import claim_loss, require_bound, require_thresholds
from tether.risk.claim_sweep import sweep_claims
from tether.risk.claims import Claims
from tether.risk.item_weights import ItemWeights, item_weights
from tether.risk.label_sweep import sweep_labels
from tether.risk.loss_inputs import LossInput, LossName
from tether.risk.loss_matrix import matrix_sums
from tether.risk.risk_curve import DEFAULT_BOUND, MAX_NAMED_ITEMS, Sweep
from tether.risk.scored_labels import ScoredLabels


def sweep(
    losses: LossInput,
    thresholds: ArrayLike | None = None,
    *,
    loss: LossName | None = None,
    bound: float = 1.0,
    weights: ArrayLike | None = None,
    log_weights: ArrayLike | None = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    envelope: bool = True,
) -> Sweep:
    """Sort and sum the losses at every candidate threshold once, for several methods or levels.

    O(N log N) for N claims or labels, without a table of items × thresholds.

    Parameters
    ----------
    losses : array_like, Claims or ScoredLabels
        A loss matrix (items × thresholds: an array, a table, a list of chunks or an iterator of
        them), claims, or scored labels.
    thresholds : array_like, optional
        Candidate thresholds, strictly increasing. By default every distinct score, and for a
        matrix the column numbers.
    loss : str or callable, optional
        The loss of claims ("fdr", "any_false", "miss", `FalseAmongShown`, or a function of two
        boolean arrays, `loss(supported, kept)`) or of labels ("false_discovery", "false_positive",
        "false_negative"). The first of each is the default.
    bound : float, default 1.0
        The largest possible loss.
    weights : array_like, optional
        One importance weight per item, for a known shift; only proportions matter.
    log_weights : array_like, optional
        The logarithms of the weights, instead of `weights`.
    test_weight : float, optional
        An upper bound on the weight of the test item, on the scale of `weights`. By default the
        largest of them, and then nothing is promised.
    log_test_weight : float, optional
        Its logarithm, on the scale of `log_weights`.
    envelope : bool, default True
        Whether to sum the monotone envelopes too, which `monotonized_crc` needs.

    Returns
    -------
    Sweep
        The sums at every candidate, to pass to any of the four methods in place of the losses.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument is out of range, or a loss lies outside [0, bound].

    Examples
    --------
    >>> claims = Claims([0.9, 0.4, 0.7], [1, 0, 1], offsets=[0, 2, 3])
    >>> swept = sweep(claims)
    >>> swept.thresholds, swept.sums
    (array([inf, 0.9, 0.7, 0.4]), array([0. , 0. , 0. , 0.5]))
    """
    checked = item_weights(weights, log_weights, test_weight, log_test_weight)
    return prepare(losses, thresholds, loss, bound, checked, envelope=envelope)


def prepare(
    losses: LossInput,
    thresholds: ArrayLike | None,
    loss: LossName | None,
    bound: float,
    weights: ItemWeights,
    *,
    envelope: bool = False,
) -> Sweep:
    """The sweep of any kind of input, with only the sums that a method needs."""
    if isinstance(losses, Sweep):
        _refuse_fixed_arguments(losses, thresholds, loss, bound, weights)
        return losses
    bound = validate.number("bound", bound, above=0, below=np.inf)
    if isinstance(losses, Claims):
        named: LossName = "fdr" if loss is None else loss
        chosen = claim_loss(named)
        require_bound(named, bound)
        require_thresholds(named, thresholds)
        return sweep_claims(losses, thresholds, chosen, bound, weights, envelope=envelope)
    if isinstance(losses, ScoredLabels):
        return sweep_labels(losses, thresholds, loss, bound, weights)
    if loss is not None:
        raise ValueError(
            f"loss = {loss!r} is for Claims and ScoredLabels; a loss matrix holds the losses"
        )
    table = matrix_sums(losses, thresholds, bound, weights, envelope=envelope)
    return Sweep(
        thresholds=table.thresholds,
        sums=table.sums,
        envelope=table.envelope,
        total_weight=weights.total(table.n_items),
        test_weight=weights.test,
        n_items=table.n_items,
        effective_sample_size=weights.effective_sample_size(table.n_items),
        bound=bound,
        loss="loss matrix",
        safer="larger",
        n_nonmonotone=len(table.nonmonotone_items),
        nonmonotone_items=tuple(table.nonmonotone_items[:MAX_NAMED_ITEMS]),
        exact=False,
        weighted=weights.values is not None,
        test_weight_assumed=weights.is_test_assumed,
        read_losses=table.read_losses,
    )


def _refuse_fixed_arguments(
    swept: Sweep,
    thresholds: ArrayLike | None,
    loss: LossName | None,
    bound: float,
    weights: ItemWeights,
) -> None:
    """Raise for arguments that a sweep has already fixed, rather than ignore them."""
    passed = {
        "thresholds": thresholds is not None,
        "loss": loss is not None,
        "bound": bound is not DEFAULT_BOUND and bound != swept.bound,
        "weights": weights.values is not None,
    }
    for name, is_passed in passed.items():
        if is_passed:
            raise ValueError(f"{name} cannot be passed with a sweep, which fixes it: {swept!r}")
