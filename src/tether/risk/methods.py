"""Three methods in expectation: CRC, its generalization, and CRC on losses made monotone.

They differ in which sums they read and where they stop; all count the item to come at the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tether._core import validate
from tether._core.types import Floats
from tether.risk.groups import select_grouped
from tether.risk.item_weights import item_weights
from tether.risk.risk_curve import BOUND, Sweep, before_first_violation, boldest_passing
from tether.risk.select import Request, Rule
from tether.risk.selection import Selection, Stability
from tether.risk.stability import replace_one


def gcrc(
    losses: Any,
    thresholds: Any = None,
    *,
    alpha: Any,
    bound: Any = BOUND,
    loss: Any = None,
    weights: Any = None,
    log_weights: Any = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    groups: Any = None,
    minimum_group: int | None = None,
    stability: bool = True,
    lipschitz: float | None = None,
) -> Selection:
    """The boldest threshold such that it and every safer one have conservative risk ≤ alpha.

    Promised: expected loss ≤ alpha + K·epsilon for exchangeable items whose losses, in [0, bound],
    are K-Lipschitz in the threshold (`lipschitz`, if you know it); epsilon is the replace-one
    stability of the threshold. Losses need not be monotone; where they are, the promise is alpha.

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
        if not stability:
            raise ValueError(f"lipschitz = {lipschitz:g} needs the stability that is turned off")

    def stable(sweep: Sweep, level: float, index: int) -> Stability | None:
        return replace_one(sweep, level, index, lipschitz) if stability else None

    stop = _each(before_first_violation, _walked)
    rule = Rule("gCRC", stop, _gcrc_promise, stability=stable, lipschitz=lipschitz)
    shared = item_weights(weights, log_weights, test_weight, log_test_weight)
    request = Request(losses, thresholds, alpha, bound, loss, shared)
    return select_grouped(rule, request, groups, minimum_group)


def crc(
    losses: Any,
    thresholds: Any = None,
    *,
    alpha: Any,
    bound: Any = BOUND,
    loss: Any = None,
    weights: Any = None,
    log_weights: Any = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    groups: Any = None,
    minimum_group: int | None = None,
) -> Selection:
    """The boldest threshold with conservative risk ≤ alpha, whatever safer ones do.

    Promised: expected loss ≤ alpha for exchangeable items whose losses, in [0, bound], never fall
    as the threshold gets bolder. Where some do, the record names the items and warns: then nothing
    is promised, and `gcrc` or `monotonized_crc` is what you want.

    >>> import numpy as np, tether
    >>> scores, labels = np.arange(100) / 100, np.arange(100) >= 40
    >>> tether.crc(tether.ScoredLabels(scores, labels), alpha=0.2, loss="false_positive").threshold
    0.33
    """
    stop = _each(boldest_passing, lambda sweep: sweep.sums)
    rule = Rule("CRC", stop, _crc_promise, caution=_crc_caution)
    shared = item_weights(weights, log_weights, test_weight, log_test_weight)
    request = Request(losses, thresholds, alpha, bound, loss, shared)
    return select_grouped(rule, request, groups, minimum_group)


def monotonized_crc(
    losses: Any,
    thresholds: Any = None,
    *,
    alpha: Any,
    bound: Any = BOUND,
    loss: Any = None,
    weights: Any = None,
    log_weights: Any = None,
    test_weight: float | None = None,
    log_test_weight: float | None = None,
    groups: Any = None,
    minimum_group: int | None = None,
) -> Selection:
    """CRC on each item's largest loss at any threshold at least as safe.

    Promised: expected loss ≤ alpha for exchangeable items and any losses in [0, bound]. The price
    is that an item pays for its worst moment: a false claim at the top is never forgiven.

    >>> import numpy as np, tether
    >>> losses = np.tile([0.1, 0.3, 0.0], (99, 1))  # safest last
    >>> tether.crc(losses, alpha=0.2).threshold, tether.monotonized_crc(losses, alpha=0.2).threshold
    (0.0, 2.0)
    """
    stop = _each(boldest_passing, _envelope)
    rule = Rule("monotonized CRC", stop, _monotonized_promise, envelope=True)
    shared = item_weights(weights, log_weights, test_weight, log_test_weight)
    request = Request(losses, thresholds, alpha, bound, loss, shared)
    return select_grouped(rule, request, groups, minimum_group)


def _each(
    search: Callable[[Sweep, Floats, float], int], read: Callable[[Sweep], Floats]
) -> Callable[[Sequence[Sweep], Sequence[float]], list[int]]:
    """Search the sums of each loss at its own alpha."""

    def stop(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[int]:
        pairs = zip(sweeps, alphas, strict=True)
        return [search(sweep, read(sweep), level) for sweep, level in pairs]

    return stop


def _walked(sweep: Sweep) -> Floats:
    sweep.check_walk()
    return sweep.sums


def _envelope(sweep: Sweep) -> Floats:
    if sweep.envelope is None:
        raise ValueError(
            f"monotonized_crc needs the monotone envelope of each item's loss, and the sweep of "
            f"{sweep.loss!r} has none (a rate among the selected is no item's own loss; a sweep "
            "made with envelope=False leaves it out)"
        )
    return sweep.envelope


def _items(sweep: Sweep) -> str:
    return "items exchangeable after weighting" if sweep.weighted else "exchangeable items"


def _gcrc_promise(sweep: Sweep, alpha: float, stability: Stability | None) -> str:
    if sweep.share:
        return (
            f"in the long run, a share of at most {alpha:g} of what is selected is false, up to "
            "the stability of the threshold (P(false and selected) ≤ "
            f"{alpha:g} · P(selected) + K·epsilon), for {_items(sweep)}; not the expected share"
        )
    if sweep.monotone:
        return (
            f"expected loss ≤ {alpha:g}, for {_items(sweep)} and losses monotone in the threshold"
        )
    if stability is not None and stability.bound is not None:
        return (
            f"expected loss ≤ {stability.bound:.4g} (alpha + K·epsilon, with epsilon estimated "
            f"from these items), for {_items(sweep)} and losses "
            f"{stability.lipschitz:g}-Lipschitz in the threshold"
        )
    return (
        f"expected loss ≤ {alpha:g} + K·epsilon, for {_items(sweep)} and losses K-Lipschitz in the "
        "threshold; epsilon is its true stability, which can only be estimated"
    )


def _crc_promise(sweep: Sweep, alpha: float, stability: Stability | None) -> str:
    if sweep.share:
        return "none: a share of the selected is not monotone in the threshold"
    if not sweep.monotone:
        return "none: the losses are not monotone in the threshold"
    return f"expected loss ≤ {alpha:g}, for {_items(sweep)} and losses monotone in the threshold"


def _monotonized_promise(sweep: Sweep, alpha: float, stability: Stability | None) -> str:
    return f"expected loss ≤ {alpha:g}, for {_items(sweep)} and any losses in [0, {sweep.bound:g}]"


def _crc_caution(sweep: Sweep) -> tuple[str, ...]:
    if sweep.monotone:
        return ()
    if sweep.share:
        return (
            f"{sweep.loss} is a share of the selected and falls whenever a true item is selected: "
            "CRC's guarantee does not hold; use gcrc or ltt, with thresholds",
        )
    named = ", ".join(map(str, sweep.faulty)) + (", …" if sweep.faults > 5 else "")
    return (
        f"the loss {sweep.loss!r} of {sweep.faults:,} of {sweep.items:,} items falls as the "
        f"threshold gets bolder (items {named}): CRC's guarantee does not hold; use gcrc or "
        "monotonized_crc",
    )
