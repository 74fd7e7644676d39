"""Conformal risk control on losses made monotone: always valid, often too careful."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tether.risk.curve import BOUND, Sweep
from tether.risk.driver import Request, Rule
from tether.risk.groups import select_grouped
from tether.risk.search import boldest_passing
from tether.risk.selection import Selection, Stability
from tether.risk.weights import item_weights


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

    def stop(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[int]:
        return [
            boldest_passing(sweep, _envelope(sweep), level)
            for sweep, level in zip(sweeps, alphas, strict=True)
        ]

    shared = item_weights(weights, log_weights, test_weight, log_test_weight)
    request = Request(losses, thresholds, alpha, bound, loss, shared)
    rule = Rule("monotonized CRC", stop, _promise, envelope=True)
    return select_grouped(rule, request, groups, minimum_group)


def _envelope(sweep: Sweep) -> Any:
    if sweep.envelope is None:
        raise ValueError(
            f"monotonized_crc needs the monotone envelope of each item's loss, and the sweep of "
            f"{sweep.loss!r} has none (a rate among the selected is no item's own loss; a sweep "
            "made with envelope=False leaves it out)"
        )
    return sweep.envelope


def _promise(sweep: Sweep, alpha: float, stability: Stability | None) -> str:
    items = "items exchangeable after weighting" if sweep.weighted else "exchangeable items"
    return f"expected loss ≤ {alpha:g}, for {items} and any losses in [0, {sweep.bound:g}]"
