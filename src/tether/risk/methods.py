"""Three methods in expectation: CRC, its generalization, and CRC on losses made monotone.

They differ in which sums they read and where they stop; all count the test item at the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Floats
from tether.risk.groups import select_by_group
from tether.risk.item_weights import item_weights
from tether.risk.loss_inputs import LossInputs, LossNames, PerLoss
from tether.risk.per_item import PerItem, in_item_order
from tether.risk.promises import crc_promise, crc_warnings, gcrc_promise, monotonized_promise
from tether.risk.risk_curve import (
    DEFAULT_BOUND,
    Sweep,
    before_first_violation,
    boldest_passing,
    require_selected_start,
)
from tether.risk.rule import Request, Rule, Target
from tether.risk.selection import Selection
from tether.risk.selection_stability import Stability
from tether.risk.stability import replace_one


def gcrc(
    losses: LossInputs,
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss | None = None,
    promise: PerLoss | None = None,
    bound: PerLoss = DEFAULT_BOUND,
    loss: LossNames = None,
    weights: PerItem | None = None,
    log_weights: PerItem | None = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    groups: PerItem | None = None,
    minimum_group_size: int | None = None,
    measure_stability: bool = True,
    lipschitz: float | None = None,
) -> Selection:
    """Choose the boldest threshold such that it and every safer one have conservative risk ≤ alpha.

    The conservative risk counts the test item at the bound: (Σ loss + bound) / (n + 1). Promised,
    for exchangeable items with losses in [0, bound]: expected loss ≤ alpha + stability + existence.
    Stability pays for the dependence of the threshold on single items: how much an item's loss
    rises when the item itself is left out (0 where losses are monotone), or K·epsilon where K is
    passed. Existence pays for data on which nothing passes, so that the safest threshold is served.
    Both are estimated from the items, without bias or too large on average. With `promise` the
    level is chosen from the same items, and the bound holds up to the error of that estimate.

    Parameters
    ----------
    losses : array_like, Claims, ScannedClaims, ScoredLabels, Sweep or mapping
        A loss matrix (items × thresholds, with the safest threshold last: an array, a table, a list
        of chunks or an iterator of them), claims in memory or in parts, scored labels, a sweep of
        any of these, or several of them by name.
    thresholds : array_like, optional
        Candidate thresholds, strictly increasing. By default every distinct score, and for a matrix
        the column numbers.
    alpha : float, sequence or mapping, optional
        The tolerated expected loss: one for all losses, or one per loss, in order or by name.
    promise : float, sequence or mapping, optional
        The whole bound to be stated, instead of `alpha`: the boldest threshold whose stated promise
        is at most this. Several losses must be monotone, unless by `monotonized_crc`.
    bound : float, sequence or mapping, optional
        The largest possible loss, 1 by default; one for all losses, or one per loss.
    loss : str, callable or sequence, optional
        The loss of claims ("fdr", "any_false", "miss", `FalseAmongShown`, or a function of two
        boolean arrays, `loss(supported, kept)`) or of labels ("false_discovery", "false_positive",
        "false_negative"), or several of them. The first of each is the default.
    weights : array_like or mapping, optional
        One importance weight per item, for a known shift; only proportions matter. By item name for
        claims whose items have names, such as those from a table.
    log_weights : array_like or mapping, optional
        The logarithms of the weights, instead of `weights`.
    test_weight : float, optional
        An upper bound on the weight of the test item, on the scale of `weights`. By default the
        largest of them, and then nothing is promised.
    log_test_weight : float, optional
        Its logarithm, on the scale of `log_weights`.
    groups : array_like or mapping, optional
        The group of each item, for one threshold and one promise per group. By item name for claims
        whose items have names, such as `claims.groups` of those from a table.
    minimum_group_size : int, optional
        Groups with fewer items are pooled. By default those in which bound / (n + 1) > alpha, so
        that no threshold could pass.
    measure_stability : bool, default True
        Whether to measure the stability of the threshold, in O(N log N).
    lipschitz : float, optional
        K, if it is known: the stability term is then K·epsilon, with epsilon the mean move of the
        threshold when one item is replaced.

    Returns
    -------
    Selection
        The threshold and what is promised for it. Where no threshold passes, `exists` is False.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument is out of range, both or neither of `alpha` and `promise` are passed, a loss
        lies outside [0, bound], or `lipschitz` is passed while the stability is not measured.

    References
    ----------
    "Conformal Policy Control", ICML 2026.

    Examples
    --------
    >>> import numpy as np, tether
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(5000)
    >>> claims = tether.Claims(scores, rng.random(5000) < scores, np.arange(0, 5001, 5))
    >>> found = tether.gcrc(claims, alpha=0.1)
    >>> bool(0.7 < found.threshold < 0.9), found.risk <= 0.1, found.monotone
    (True, True, False)
    """
    if lipschitz is not None:
        lipschitz = validate.number("lipschitz", lipschitz, above=0, below=float("inf"))
        if not measure_stability:
            raise ValueError(f"lipschitz = {lipschitz:g} needs measure_stability=True")

    def stability(sweeps: Sequence[Sweep], levels: Sequence[float]) -> list[Stability | None]:
        if not measure_stability:
            return [None] * len(sweeps)
        return replace_one(sweeps, levels, lipschitz)

    stop = _for_each_loss(before_first_violation, _sums_from_selected)
    levels = _levels(np.maximum.accumulate, _sums_from_selected)
    rule = Rule(
        "gCRC",
        stop,
        gcrc_promise,
        levels,
        stability=stability,
        lipschitz=lipschitz,
        reads_items=measure_stability,
    )
    shared = item_weights(
        in_item_order("weights", weights, losses),
        in_item_order("log_weights", log_weights, losses),
        test_weight,
        log_test_weight,
    )
    target = Target.of(alpha, promise, thresholds)
    request = Request(losses, thresholds, target, bound, loss, shared)
    return select_by_group(rule, request, groups, minimum_group_size)


def crc(
    losses: LossInputs,
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss | None = None,
    promise: PerLoss | None = None,
    bound: PerLoss = DEFAULT_BOUND,
    loss: LossNames = None,
    weights: PerItem | None = None,
    log_weights: PerItem | None = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    groups: PerItem | None = None,
    minimum_group_size: int | None = None,
) -> Selection:
    """Choose the boldest threshold with conservative risk ≤ alpha, whether or not safer ones pass.

    Promised: expected loss ≤ alpha for exchangeable items whose losses, in [0, bound], never fall
    as the threshold gets bolder, plus an existence term for data on which nothing passes, so that
    the safest threshold is served. Where some losses fall, the result names the items and warns:
    then nothing is promised; use `gcrc` or `monotonized_crc` instead.

    Parameters
    ----------
    losses : array_like, Claims, ScannedClaims, ScoredLabels, Sweep or mapping
        A loss matrix (items × thresholds, with the safest threshold last: an array, a table, a list
        of chunks or an iterator of them), claims in memory or in parts, scored labels, a sweep of
        any of these, or several of them by name.
    thresholds : array_like, optional
        Candidate thresholds, strictly increasing. By default every distinct score, and for a matrix
        the column numbers.
    alpha : float, sequence or mapping, optional
        The tolerated expected loss: one for all losses, or one per loss, in order or by name.
    promise : float, sequence or mapping, optional
        The whole bound to be stated, instead of `alpha`: the boldest threshold whose stated promise
        is at most this. Several losses must be monotone, unless by `monotonized_crc`.
    bound : float, sequence or mapping, optional
        The largest possible loss, 1 by default; one for all losses, or one per loss.
    loss : str, callable or sequence, optional
        The loss of claims ("fdr", "any_false", "miss", `FalseAmongShown`, or a function of two
        boolean arrays, `loss(supported, kept)`) or of labels ("false_discovery", "false_positive",
        "false_negative"), or several of them. The first of each is the default.
    weights : array_like or mapping, optional
        One importance weight per item, for a known shift; only proportions matter. By item name for
        claims whose items have names, such as those from a table.
    log_weights : array_like or mapping, optional
        The logarithms of the weights, instead of `weights`.
    test_weight : float, optional
        An upper bound on the weight of the test item, on the scale of `weights`. By default the
        largest of them, and then nothing is promised.
    log_test_weight : float, optional
        Its logarithm, on the scale of `log_weights`.
    groups : array_like or mapping, optional
        The group of each item, for one threshold and one promise per group. By item name for claims
        whose items have names, such as `claims.groups` of those from a table.
    minimum_group_size : int, optional
        Groups with fewer items are pooled. By default those in which bound / (n + 1) > alpha, so
        that no threshold could pass.

    Returns
    -------
    Selection
        The threshold and what is promised for it. Where no threshold passes, `exists` is False.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument is out of range, both or neither of `alpha` and `promise` are passed, or a
        loss lies outside [0, bound].

    References
    ----------
    "Conformal Risk Control", ICLR 2024.

    Examples
    --------
    >>> import numpy as np, tether
    >>> scores, labels = np.arange(100) / 100, np.arange(100) >= 40
    >>> tether.crc(tether.ScoredLabels(scores, labels), alpha=0.2, loss="false_positive").threshold
    0.33
    """
    stop = _for_each_loss(boldest_passing, _all_sums)
    levels = _levels(_minimum_from_the_end, _all_sums)
    rule = Rule("CRC", stop, crc_promise, levels, crc_warnings, boldest=True)
    shared = item_weights(
        in_item_order("weights", weights, losses),
        in_item_order("log_weights", log_weights, losses),
        test_weight,
        log_test_weight,
    )
    target = Target.of(alpha, promise, thresholds)
    request = Request(losses, thresholds, target, bound, loss, shared)
    return select_by_group(rule, request, groups, minimum_group_size)


def monotonized_crc(
    losses: LossInputs,
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss | None = None,
    promise: PerLoss | None = None,
    bound: PerLoss = DEFAULT_BOUND,
    loss: LossNames = None,
    weights: PerItem | None = None,
    log_weights: PerItem | None = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    groups: PerItem | None = None,
    minimum_group_size: int | None = None,
) -> Selection:
    """Apply CRC to each item's largest loss at any threshold at least as safe.

    Promised: expected loss ≤ alpha for exchangeable items and any losses in [0, bound], plus an
    existence term for data on which nothing passes, so that the safest threshold is served. The
    price is that an item counts with its largest loss so far: a false claim at the top is never
    made up for by true ones below it.

    Parameters
    ----------
    losses : array_like, Claims, ScannedClaims, ScoredLabels, Sweep or mapping
        A loss matrix (items × thresholds, with the safest threshold last: an array, a table, a list
        of chunks or an iterator of them), claims in memory or in parts, scored labels, a sweep of
        any of these, or several of them by name.
    thresholds : array_like, optional
        Candidate thresholds, strictly increasing. By default every distinct score, and for a matrix
        the column numbers.
    alpha : float, sequence or mapping, optional
        The tolerated expected loss: one for all losses, or one per loss, in order or by name.
    promise : float, sequence or mapping, optional
        The whole bound to be stated, instead of `alpha`: the boldest threshold whose stated promise
        is at most this. Several losses must be monotone, unless by `monotonized_crc`.
    bound : float, sequence or mapping, optional
        The largest possible loss, 1 by default; one for all losses, or one per loss.
    loss : str, callable or sequence, optional
        The loss of claims ("fdr", "any_false", "miss", `FalseAmongShown`, or a function of two
        boolean arrays, `loss(supported, kept)`) or of labels ("false_discovery", "false_positive",
        "false_negative"), or several of them. The first of each is the default.
    weights : array_like or mapping, optional
        One importance weight per item, for a known shift; only proportions matter. By item name for
        claims whose items have names, such as those from a table.
    log_weights : array_like or mapping, optional
        The logarithms of the weights, instead of `weights`.
    test_weight : float, optional
        An upper bound on the weight of the test item, on the scale of `weights`. By default the
        largest of them, and then nothing is promised.
    log_test_weight : float, optional
        Its logarithm, on the scale of `log_weights`.
    groups : array_like or mapping, optional
        The group of each item, for one threshold and one promise per group. By item name for claims
        whose items have names, such as `claims.groups` of those from a table.
    minimum_group_size : int, optional
        Groups with fewer items are pooled. By default those in which bound / (n + 1) > alpha, so
        that no threshold could pass.

    Returns
    -------
    Selection
        The threshold and what is promised for it. Where no threshold passes, `exists` is False.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument is out of range, both or neither of `alpha` and `promise` are passed, a loss
        lies outside [0, bound], or the losses have no monotone envelope (a rate among
        the selected).

    References
    ----------
    "Conformal Risk Control", ICLR 2024.

    Examples
    --------
    >>> import numpy as np, tether
    >>> losses = np.tile([0.1, 0.3, 0.0], (99, 1))  # safest last
    >>> tether.crc(losses, alpha=0.2).threshold, tether.monotonized_crc(losses, alpha=0.2).threshold
    (0.0, 2.0)
    """
    stop = _for_each_loss(boldest_passing, _envelope)
    levels = _levels(_minimum_from_the_end, _envelope)
    rule = Rule("monotonized CRC", stop, monotonized_promise, levels, envelope=True, boldest=True)
    shared = item_weights(
        in_item_order("weights", weights, losses),
        in_item_order("log_weights", log_weights, losses),
        test_weight,
        log_test_weight,
    )
    target = Target.of(alpha, promise, thresholds)
    request = Request(losses, thresholds, target, bound, loss, shared)
    return select_by_group(rule, request, groups, minimum_group_size)


def _for_each_loss(
    search: Callable[[Sweep, Floats, float], int], read: Callable[[Sweep], Floats]
) -> Callable[[Sequence[Sweep], Sequence[float]], list[int]]:
    """Search the sums of each loss at its own alpha."""

    def stop(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[int]:
        pairs = zip(sweeps, alphas, strict=True)
        return [search(sweep, read(sweep), level) for sweep, level in pairs]

    return stop


def _levels(
    extreme: Callable[[Floats], Floats], read: Callable[[Sweep], Floats]
) -> Callable[[Sweep], Floats]:
    """The smallest alpha at which each candidate is chosen, given how a method walks."""
    return lambda sweep: extreme(replace(sweep, sums=read(sweep)).risks())


def _minimum_from_the_end(risks: Floats) -> Floats:
    return np.asarray(np.minimum.accumulate(risks[::-1])[::-1])


def _all_sums(sweep: Sweep) -> Floats:
    return sweep.sums


def _sums_from_selected(sweep: Sweep) -> Floats:
    require_selected_start(sweep)
    return sweep.sums


def _envelope(sweep: Sweep) -> Floats:
    if sweep.envelope is None:
        raise ValueError(
            "monotonized_crc needs the monotone envelope of each item's loss, and the sweep of "
            f"{sweep.loss!r} has none (a rate among the selected is not a loss of single items; a "
            "sweep made with envelope=False leaves it out)"
        )
    return sweep.envelope
