"""What each method promises, as a number and in words."""

from __future__ import annotations

from typing import NamedTuple

from tether.risk.risk_curve import MAX_NAMED_ITEMS, Sweep
from tether.risk.selection_stability import Stability


class Promise(NamedTuple):
    """The stated bound on the expected loss, the statement, and the stability term in it."""

    value: float
    statement: str
    stability_term: float = 0.0


def gcrc_promise(
    sweep: Sweep, alpha: float, stability: Stability | None, existence: float
) -> Promise:
    """Alpha, the stability of the threshold (0 where losses are monotone) and existence."""
    items = _assumed_items(sweep)
    if sweep.test_weight_assumed:
        return _unknown_weight(sweep)
    if sweep.among_selected:
        return Promise(
            sweep.bound,
            f"in the long run, a share of at most {alpha:g} of the selected items is false, up to "
            "the stability of the threshold (P(false and selected) ≤ "
            f"{alpha:g} · P(selected) + K·epsilon), for {items}; the expected share is not bounded",
        )
    if sweep.monotone:
        return _monotone_promise(sweep, alpha, existence)
    if stability is None:
        return Promise(
            sweep.bound,
            f"expected loss ≤ {alpha:g} + stability, for {items}; the stability of the threshold "
            "was not measured",
        )
    assumed = f"{items} and any losses in [0, {sweep.bound:g}]"
    if stability.lipschitz is not None:
        assumed = f"{items} and losses {stability.lipschitz:g}-Lipschitz in the threshold"
    return _with_terms(sweep, alpha, stability.term, existence, assumed)


def crc_promise(
    sweep: Sweep, alpha: float, stability: Stability | None, existence: float
) -> Promise:
    """Alpha and existence for monotone losses, nothing otherwise."""
    if sweep.among_selected:
        return Promise(sweep.bound, "none: a rate among the selected is not monotone")
    if not sweep.monotone:
        return Promise(sweep.bound, "none: the losses are not monotone in the threshold")
    if sweep.test_weight_assumed:
        return _unknown_weight(sweep)
    return _monotone_promise(sweep, alpha, existence)


def monotonized_promise(
    sweep: Sweep, alpha: float, stability: Stability | None, existence: float
) -> Promise:
    """Alpha and existence for any losses."""
    if sweep.test_weight_assumed:
        return _unknown_weight(sweep)
    assumed = f"{_assumed_items(sweep)} and any losses in [0, {sweep.bound:g}]"
    return _with_terms(sweep, alpha, 0.0, existence, assumed)


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
    if not sweep.n_nonmonotone:
        return (
            f"the loss {sweep.loss!r} of an item with several claims can fall as the threshold "
            "gets bolder, although it does for none of these items: the promise of CRC does not "
            "hold; use gcrc or monotonized_crc",
        )
    named = ", ".join(map(str, sweep.nonmonotone_items))
    if sweep.n_nonmonotone > MAX_NAMED_ITEMS:
        named += ", …"
    named = f" (items {named})" if sweep.nonmonotone_items else ""
    return (
        f"the loss {sweep.loss!r} of {sweep.n_nonmonotone:,} of {sweep.n_items:,} items falls as "
        f"the threshold gets bolder{named}: the promise of CRC does not hold; use gcrc or "
        "monotonized_crc",
    )


def _unknown_weight(sweep: Sweep) -> Promise:
    """Nothing: items that weigh more than all that were seen may be most of the future ones."""
    return Promise(
        sweep.bound,
        "none: future items may weigh more than all of these, and no data can tell how many do; "
        "pass test_weight (log_test_weight with log_weights), the largest weight that an item can "
        "have",
    )


def _monotone_promise(sweep: Sweep, alpha: float, existence: float) -> Promise:
    assumed = f"{_assumed_items(sweep)} and losses monotone in the threshold"
    return _with_terms(sweep, alpha, 0.0, existence, assumed)


def _with_terms(
    sweep: Sweep, alpha: float, stability: float, existence: float, assumed: str
) -> Promise:
    """The sum of the three terms, which are named where they can be seen."""
    value = min(sweep.bound, alpha + stability + existence)
    statement = f"expected loss ≤ {value:g}"
    if f"{value:g}" != f"{alpha:g}":
        terms = [f"alpha {alpha:g}"]
        if stability > 0:
            terms.append(f"{stability:.3g} for the stability of the threshold")
        if f"{alpha + existence:g}" != f"{alpha:g}":
            terms.append(f"{existence:.3g} for data on which nothing passes")
        statement += f" ({' + '.join(terms)}, estimated from these items)"
    return Promise(value, f"{statement}, for {assumed}", stability)


def _assumed_items(sweep: Sweep) -> str:
    return "items exchangeable after weighting" if sweep.weighted else "exchangeable items"
