"""Learn then Test: thresholds whose risk is shown to be at most alpha, with high probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.ties import within_limit
from tether._core.types import Floats
from tether.risk.groups import select_grouped
from tether.risk.item_weights import ItemWeights
from tether.risk.p_values import Betting, hoeffding_bentkus, largest_rejected_sum
from tether.risk.risk_curve import BOUND, Sweep
from tether.risk.select import Request, Rule
from tether.risk.selection import Selection, Stability

PROCEDURES = ("fixed_sequence", "bonferroni", "holm")
PVALUES = ("hoeffding_bentkus", "wsr")


def ltt(
    losses: Any,
    thresholds: Any = None,
    *,
    alpha: Any,
    bound: Any = BOUND,
    loss: Any = None,
    delta: float = 0.1,
    procedure: str = "fixed_sequence",
    pvalue: str = "hoeffding_bentkus",
    groups: Any = None,
    minimum_group: int | None = None,
    rng: np.random.Generator | None = None,
) -> Selection:
    """The boldest threshold that testing shows to have risk ≤ alpha.

    Promised: with probability at least 1 − delta over the items at hand, the risk at the threshold
    is at most alpha, for independent, identically distributed items with losses in [0, bound].
    `fixed_sequence` tests from the safest on and stops at the first failure; `bonferroni` and
    `holm` need thresholds chosen before seeing the data. `wsr` looks at every item at every
    candidate (on large data, give it thresholds), in an order that must not depend on the losses:
    it shuffles the items by `rng`, or by a fixed seed.

    >>> import numpy as np, tether
    >>> scores, labels = np.arange(1000) / 1000, np.arange(1000) >= 400
    >>> found = tether.ltt(tether.ScoredLabels(scores, labels), alpha=0.2, loss="false_positive")
    >>> found.threshold, round(found.risk, 3)
    (0.335, 0.163)
    """
    delta = validate.number("delta", delta, above=0, below=1)
    if rng is not None:
        validate.generator("rng", rng)
    procedure = validate.choice("procedure", procedure, PROCEDURES)
    pvalue = validate.choice("pvalue", pvalue, PVALUES)

    def stop(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[int]:
        for sweep in sweeps:
            _testable(sweep, procedure, pvalue)
        pairs = list(zip(sweeps, alphas, strict=True))

        def shuffle(sweep: Sweep) -> Any:
            if pvalue != "wsr":
                return None
            return (rng or np.random.default_rng(0)).permutation(sweep.items)

        if procedure == "fixed_sequence":
            return [_walk(sweep, level, delta, shuffle(sweep)) for sweep, level in pairs]
        count = len(sweeps[0].thresholds)
        if not all(np.array_equal(s.thresholds, sweeps[0].thresholds) for s in sweeps):
            raise ValueError(f"procedure = {procedure!r} needs the same thresholds for every loss")
        values = [
            _pvalues(sweep, level, delta / count, shuffle(sweep), slice(0, count))
            for sweep, level in pairs
        ]
        # A threshold is good only if every loss is in hand: its p-value is the largest of theirs.
        passed = _family(np.max(values, axis=0), delta, procedure)
        boldest = int(np.flatnonzero(passed)[-1]) if passed.any() else -1
        return [boldest] * len(sweeps)

    def promise(sweep: Sweep, level: float, stability: Stability | None) -> str:
        if sweep.share:
            return (
                f"with probability at least {1 - delta:g}, a selected item is false with a "
                f"chance ≤ {level:g}, for independent, identically distributed items"
            )
        return (
            f"with probability at least {1 - delta:g}, risk ≤ {level:g}, for independent, "
            "identically distributed items"
        )

    def too_few(sweep: Sweep, level: float) -> str | None:
        """Even items without any loss have a p-value of (1 − alpha/bound)^n at least."""
        tests = 1 if procedure == "fixed_sequence" else len(sweep.thresholds)
        least = (1 - level / sweep.bound) ** sweep.items
        if within_limit(least, delta / tests):
            return None
        shared = "delta" if tests == 1 else f"delta / {tests} thresholds"
        return (
            f"{sweep.items} items are too few to show anything, even with no loss at all: "
            f"(1 − {level / sweep.bound:g})^{sweep.items} = {least:.4g} is above {shared} = "
            f"{delta / tests:.4g}"
        )

    settings = {"delta": delta, "procedure": procedure, "pvalue": pvalue}
    rule = Rule("LTT", stop, promise, conservative=False, too_few=too_few, settings=settings)
    request = Request(losses, thresholds, alpha, bound, loss, ItemWeights())
    return select_grouped(rule, request, groups, minimum_group)


def _testable(sweep: Sweep, procedure: str, pvalue: str) -> None:
    if sweep.weighted:
        raise ValueError("ltt tests unweighted items; this sweep has weights: use gcrc or crc")
    if sweep.exact and procedure != "fixed_sequence":
        raise ValueError(
            f"procedure = {procedure!r} needs thresholds chosen before seeing the data; only "
            "'fixed_sequence' may try every score"
        )
    sweep.check_walk()
    if pvalue == "wsr" and sweep.dense is None:
        raise ValueError(
            "pvalue = 'wsr' sets its stakes by the number of items, which a passing stream does "
            "not tell: give an array or a list of chunks"
        )


def _pvalues(sweep: Sweep, alpha: float, level: float, shuffle: Any, where: slice) -> Floats:
    """P-values at a stretch of candidates, losses scaled to [0, 1]; bets where shuffled."""
    scaled = alpha / sweep.bound
    total = sweep.total if isinstance(sweep.total, float) else sweep.total[where]
    if shuffle is None:
        return hoeffding_bentkus(sweep.sums[where] / sweep.bound, total, scaled)
    assert sweep.dense is not None
    bets = Betting(scaled, level, total)
    for block in sweep.dense(where, shuffle):
        bets.update(block / sweep.bound)
    return bets.pvalues()


def _walk(sweep: Sweep, alpha: float, delta: float, shuffle: Any) -> int:
    """Test one candidate after another, safest first, until one is not shown to be good."""
    if shuffle is None and isinstance(sweep.total, float):
        # Hoeffding–Bentkus p-values rise with the sum: compare sums with the largest that passes.
        limit = largest_rejected_sum(int(sweep.total), alpha / sweep.bound, delta) * sweep.bound
        failed = ~within_limit(sweep.sums, limit) if limit >= 0 else np.ones(1, dtype=np.bool_)
        return int(np.argmax(failed)) - 1 if failed.any() else len(failed) - 1
    first, width = 0, 64
    while first < len(sweep.thresholds):
        where = slice(first, min(first + width, len(sweep.thresholds)))
        failed = ~within_limit(_pvalues(sweep, alpha, delta, shuffle, where), delta)
        if failed.any():
            return first + int(np.argmax(failed)) - 1
        first, width = where.stop, min(2 * width, 1024)
    return len(sweep.thresholds) - 1


def _family(pvalues: Floats, delta: float, procedure: str) -> Any:
    """Which thresholds are shown to be good, with at most a chance delta of any mistake."""
    count = len(pvalues)
    if procedure == "bonferroni":
        return within_limit(pvalues, delta / count)
    order = np.argsort(pvalues, kind="stable")
    passed = within_limit(pvalues[order], delta / np.arange(count, 0, -1))
    reached = count if passed.all() else int(np.argmin(passed))
    shown = np.zeros(count, dtype=np.bool_)
    shown[order[:reached]] = True
    return shown
