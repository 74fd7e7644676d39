"""Conformal risk control: for losses that are monotone in the threshold, and only for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tether.risk.curve import BOUND, Sweep
from tether.risk.driver import Request, Rule
from tether.risk.groups import select_grouped
from tether.risk.search import boldest_passing
from tether.risk.selection import Selection, Stability
from tether.risk.weights import item_weights


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

    def stop(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[int]:
        return [
            boldest_passing(sweep, sweep.sums, level)
            for sweep, level in zip(sweeps, alphas, strict=True)
        ]

    shared = item_weights(weights, log_weights, test_weight, log_test_weight)
    request = Request(losses, thresholds, alpha, bound, loss, shared)
    rule = Rule("CRC", stop, _promise, caution=_caution)
    return select_grouped(rule, request, groups, minimum_group)


def _promise(sweep: Sweep, alpha: float, stability: Stability | None) -> str:
    if sweep.share:
        return "none: a share of the selected is not monotone in the threshold"
    if not sweep.monotone:
        return "none: the losses are not monotone in the threshold"
    items = "items exchangeable after weighting" if sweep.weighted else "exchangeable items"
    return f"expected loss ≤ {alpha:g}, for {items} and losses monotone in the threshold"


def _caution(sweep: Sweep) -> tuple[str, ...]:
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
