"""What each method promises, as a number and in words."""

from __future__ import annotations

from typing import NamedTuple

from tether.risk.risk_curve import MAX_NAMED_ITEMS, Sweep
from tether.risk.selection import Stability


class Promise(NamedTuple):
    """The stated bound on the expected loss, and the statement with its assumptions."""

    value: float
    statement: str


def gcrc_promise(sweep: Sweep, alpha: float, stability: Stability | None) -> Promise:
    """Alpha where losses are monotone; otherwise alpha + K·epsilon, a number where K is known."""
    items = _assumed_items(sweep)
    if sweep.among_selected:
        return Promise(
            sweep.bound,
            f"in the long run, a share of at most {alpha:g} of the selected items is false, up to "
            "the stability of the threshold (P(false and selected) ≤ "
            f"{alpha:g} · P(selected) + K·epsilon), for {items}; the expected share is not bounded",
        )
    if sweep.monotone:
        return _monotone_promise(alpha, items)
    if stability is not None and stability.promise is not None:
        return Promise(
            stability.promise,
            f"expected loss ≤ {stability.promise:.4g} (alpha + K·epsilon, with epsilon estimated "
            f"from these items), for {items} and losses "
            f"{stability.lipschitz:g}-Lipschitz in the threshold",
        )
    return Promise(
        sweep.bound,
        f"expected loss ≤ {alpha:g} + K·epsilon, for {items} and losses K-Lipschitz in the "
        "threshold; epsilon is the true stability, which can only be estimated",
    )


def crc_promise(sweep: Sweep, alpha: float, stability: Stability | None) -> Promise:
    """Alpha for monotone losses, nothing otherwise."""
    if sweep.among_selected:
        return Promise(sweep.bound, "none: a rate among the selected is not monotone")
    if not sweep.monotone:
        return Promise(sweep.bound, "none: the losses are not monotone in the threshold")
    return _monotone_promise(alpha, _assumed_items(sweep))


def monotonized_promise(sweep: Sweep, alpha: float, stability: Stability | None) -> Promise:
    """Alpha for any losses."""
    items = _assumed_items(sweep)
    return Promise(
        alpha, f"expected loss ≤ {alpha:g}, for {items} and any losses in [0, {sweep.bound:g}]"
    )


def ltt_promise(sweep: Sweep, alpha: float, confidence: float) -> Promise:
    """Alpha with high probability."""
    promised = f"risk ≤ {alpha:g}"
    if sweep.among_selected:
        promised = f"a selected item is false with probability ≤ {alpha:g}"
    return Promise(
        alpha,
        f"with probability at least {confidence:g}, {promised}, for independent, identically "
        "distributed items",
    )


def crc_warnings(sweep: Sweep) -> tuple[str, ...]:
    """Why the promise of CRC does not hold, where it does not."""
    if sweep.monotone:
        return ()
    if sweep.among_selected:
        return (
            f"{sweep.loss} is a rate among the selected, which falls whenever a true item is "
            "selected: the promise of CRC does not hold; use gcrc or ltt, with thresholds",
        )
    named = ", ".join(map(str, sweep.nonmonotone_items))
    if sweep.n_nonmonotone > MAX_NAMED_ITEMS:
        named += ", …"
    return (
        f"the loss {sweep.loss!r} of {sweep.n_nonmonotone:,} of {sweep.n_items:,} items falls as "
        f"the threshold gets bolder (items {named}): the promise of CRC does not hold; use gcrc or "
        "monotonized_crc",
    )


def _monotone_promise(alpha: float, items: str) -> Promise:
    return Promise(
        alpha, f"expected loss ≤ {alpha:g}, for {items} and losses monotone in the threshold"
    )


def _assumed_items(sweep: Sweep) -> str:
    return "items exchangeable after weighting" if sweep.weighted else "exchangeable items"
