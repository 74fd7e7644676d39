"""Generalized conformal risk control: stop before the first violation, from the safest on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tether import _check
from tether.risk.curve import BOUND, Sweep
from tether.risk.driver import Request, Rule
from tether.risk.groups import select_grouped
from tether.risk.search import before_first_violation
from tether.risk.selection import Selection, Stability
from tether.risk.stability import replace_one
from tether.risk.weights import item_weights


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
        lipschitz = _check.number("lipschitz", lipschitz, above=0, below=float("inf"))
        if not stability:
            raise ValueError(f"lipschitz = {lipschitz:g} needs the stability that is turned off")

    def stop(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[int]:
        for sweep in sweeps:
            sweep.check_walk()
        return [
            before_first_violation(sweep, sweep.sums, level)
            for sweep, level in zip(sweeps, alphas, strict=True)
        ]

    def stable(sweep: Sweep, level: float, index: int) -> Stability | None:
        return replace_one(sweep, level, index, lipschitz) if stability else None

    rule = Rule("gCRC", stop, _promise, stability=stable, lipschitz=lipschitz)
    shared = item_weights(weights, log_weights, test_weight, log_test_weight)
    request = Request(losses, thresholds, alpha, bound, loss, shared)
    return select_grouped(rule, request, groups, minimum_group)


def _promise(sweep: Sweep, alpha: float, stability: Stability | None) -> str:
    items = "items exchangeable after weighting" if sweep.weighted else "exchangeable items"
    if sweep.share:
        return (
            f"in the long run, a share of at most {alpha:g} of what is selected is false, up to "
            "the stability of the threshold (P(false and selected) ≤ "
            f"{alpha:g} · P(selected) + K·epsilon), for {items}; not the expected share"
        )
    if sweep.monotone:
        return f"expected loss ≤ {alpha:g}, for {items} and losses monotone in the threshold"
    if stability is not None and stability.bound is not None:
        return (
            f"expected loss ≤ {stability.bound:.4g} (alpha + K·epsilon, with epsilon estimated "
            f"from these items), for {items} and losses {stability.lipschitz:g}-Lipschitz in the "
            "threshold"
        )
    return (
        f"expected loss ≤ {alpha:g} + K·epsilon, for {items} and losses K-Lipschitz in the "
        "threshold; epsilon is its true stability, which can only be estimated"
    )
