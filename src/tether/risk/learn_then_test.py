"""Learn then Test: thresholds whose risk is at most alpha with high probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.counted import counted
from tether._core.ties import TIE_TOLERANCE, within_limit
from tether._core.types import Booleans, Floats, Integers
from tether.risk.groups import select_by_group
from tether.risk.item_weights import ItemWeights
from tether.risk.loss_inputs import LossInputs, LossNames, PerLoss
from tether.risk.p_values import Betting, hoeffding_bentkus, largest_rejected_sum
from tether.risk.per_item import PerItem
from tether.risk.promises import Promise, ltt_promise
from tether.risk.risk_curve import DEFAULT_BOUND, Sweep, require_selected_start
from tether.risk.rule import Request, Rule, Target
from tether.risk.selection import Selection
from tether.risk.selection_stability import Stability

PROCEDURES = ("fixed_sequence", "bonferroni", "holm")
P_VALUES = ("hoeffding_bentkus", "betting")
FIRST_BATCH, LARGEST_BATCH = 64, 1024  # candidates tested at once along a fixed sequence


def ltt(
    losses: LossInputs,
    thresholds: ArrayLike | None = None,
    *,
    alpha: PerLoss | None = None,
    promise: PerLoss | None = None,
    bound: PerLoss = DEFAULT_BOUND,
    loss: LossNames = None,
    confidence: float = 0.9,
    procedure: str = "fixed_sequence",
    pvalue: str = "hoeffding_bentkus",
    groups: PerItem | None = None,
    minimum_group_size: int | None = None,
    rng: np.random.Generator | None = None,
) -> Selection:
    """Choose the boldest threshold that testing shows to have risk ≤ alpha (Learn then Test).

    Promised: with probability at least `confidence` over the calibration items, the risk at the
    threshold is at most alpha, for independent, identically distributed items with losses in
    [0, bound]; where no threshold passes, nothing is promised about the safest.

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
        The tolerated risk, the expected loss: one for all losses, or one per loss, in order or by
        name.
    promise : float, sequence or mapping, optional
        The bound to be stated, instead of `alpha`; for this method they are the same number.
    bound : float, sequence or mapping, optional
        The largest possible loss, 1 by default; one for all losses, or one per loss.
    loss : str, callable or sequence, optional
        The loss of claims ("fdr", "any_false", "miss", `FalseAmongShown`, or a function of two
        boolean arrays, `loss(supported, kept)`) or of labels ("false_discovery", "false_positive",
        "false_negative"), or several of them. The first of each is the default.
    confidence : float, default 0.9
        The probability, over the calibration items, with which the promise holds.
    procedure : str, default "fixed_sequence"
        How the tests are combined: "fixed_sequence" tests from the safest threshold on and stops at
        the first failure; "bonferroni" and "holm" need thresholds chosen before seeing the data.
    pvalue : str, default "hoeffding_bentkus"
        "hoeffding_bentkus", from the mean loss alone, or "betting" (Waudby-Smith and Ramdas), which
        is often sharper where losses vary little but reads every item at every candidate: on large
        data, pass thresholds.
    groups : array_like or mapping, optional
        The group of each item, for one threshold and one promise per group. By item name for claims
        whose items have names, such as `claims.groups` of those from a table.
    minimum_group_size : int, optional
        Groups with fewer items are pooled. By default those in which bound / (n + 1) > alpha, so
        that no threshold could pass.
    rng : numpy.random.Generator, optional
        Shuffles the items for "betting", whose order must not depend on the losses. By default a
        generator with a fixed seed.

    Returns
    -------
    Selection
        The threshold and what is promised for it. Where no threshold passes, `exists` is False.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an argument is out of range, a loss lies outside [0, bound], or an option does not
        suit the losses.

    References
    ----------
    "Learn then Test: Calibrating Predictive Algorithms to Achieve Risk Control".

    "Estimating means of bounded random variables by betting".

    Examples
    --------
    >>> import numpy as np, tether
    >>> scores, labels = np.arange(1000) / 1000, np.arange(1000) >= 400
    >>> found = tether.ltt(tether.ScoredLabels(scores, labels), alpha=0.2, loss="false_positive")
    >>> found.threshold, round(found.risk, 3)
    (0.335, 0.163)
    """
    confidence = validate.number("confidence", confidence, above=0, below=1)
    error = 1 - confidence  # the probability with which the promise may fail
    if rng is not None:
        validate.generator("rng", rng)
    procedure = validate.choice("procedure", procedure, PROCEDURES)
    pvalue = validate.choice("pvalue", pvalue, P_VALUES)

    def stop(sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[int]:
        for sweep in sweeps:
            _require_testable(sweep, procedure, pvalue)
        pairs = list(zip(sweeps, alphas, strict=True))

        def shuffle(sweep: Sweep) -> Integers | None:
            if pvalue != "betting":
                return None
            return (rng or np.random.default_rng(0)).permutation(sweep.n_items)

        if procedure == "fixed_sequence":
            return [_walk(sweep, level, error, shuffle(sweep)) for sweep, level in pairs]
        count = len(sweeps[0].thresholds)
        if not all(np.array_equal(s.thresholds, sweeps[0].thresholds) for s in sweeps):
            raise ValueError(f"procedure = {procedure!r} needs the same thresholds for every loss")
        p_values = [
            _p_values(sweep, level, error / count, shuffle(sweep), slice(0, count))
            for sweep, level in pairs
        ]
        # A threshold passes only if every loss does: its p-value is the largest of theirs.
        passed = _passed_tests(np.max(p_values, axis=0), error, procedure)
        boldest = int(np.flatnonzero(passed)[-1]) if passed.any() else -1
        return [boldest] * len(sweeps)

    def stated(
        sweep: Sweep, level: float, stability: Stability | None, existence: float
    ) -> Promise:
        return ltt_promise(sweep, level, confidence)

    def too_few(sweep: Sweep, level: float) -> str | None:
        """Even items without any loss have a p-value of at least (1 − alpha/bound)^n."""
        tests = 1 if procedure == "fixed_sequence" else len(sweep.thresholds)
        total = sweep.total_weight  # of a rate among the selected, of those at each threshold
        count = sweep.n_items
        if not isinstance(total, float):
            count = int(total[0] if tests == 1 else total.max())
        smallest = (1 - level / sweep.bound) ** count
        if within_limit(smallest, error / tests):
            return None
        available = "1 − confidence" if tests == 1 else f"(1 − confidence) / {tests} thresholds"
        return (
            f"{counted(count, 'item')} cannot show anything, even with no loss at all: "
            f"(1 − {level / sweep.bound:g})^{count} = {smallest:.4g} is above {available} "
            f"= {error / tests:.4g}"
        )

    settings = {"confidence": confidence, "procedure": procedure, "pvalue": pvalue}

    def largest_sum(total: float, test: float, bound: float, level: float) -> float:
        rejected = largest_rejected_sum(int(total), level / bound, error)
        return rejected * bound * (1 + TIE_TOLERANCE) if rejected >= 0 else -bound

    rule = Rule(
        "LTT",
        stop,
        stated,
        conservative=False,
        too_few=too_few,
        settings=settings,
        largest_sum=largest_sum,
    )
    target = Target.of(alpha, promise, thresholds)
    request = Request(losses, thresholds, target, bound, loss, ItemWeights())
    return select_by_group(rule, request, groups, minimum_group_size)


def _require_testable(sweep: Sweep, procedure: str, pvalue: str) -> None:
    if sweep.weighted:
        raise ValueError("ltt needs unweighted items; this sweep has weights: use gcrc or crc")
    if sweep.exact and procedure != "fixed_sequence":
        raise ValueError(
            f"procedure = {procedure!r} needs thresholds chosen before seeing the data; only "
            "'fixed_sequence' may test every score"
        )
    require_selected_start(sweep)
    if pvalue == "betting" and sweep.read_losses is None:
        raise ValueError(
            "pvalue = 'betting' reads every item at every candidate, which a stream or claims in "
            "parts do not provide: pass an array, a list of chunks or claims in memory"
        )


def _p_values(
    sweep: Sweep, alpha: float, level: float, shuffle: Integers | None, where: slice
) -> Floats:
    """P-values at some candidates, losses scaled to [0, 1]; by betting where shuffled."""
    scaled = alpha / sweep.bound
    total = sweep.total_weight
    total = total if isinstance(total, float) else total[where]
    if shuffle is None:
        return hoeffding_bentkus(sweep.sums[where] / sweep.bound, total, scaled)
    assert sweep.read_losses is not None
    bets = Betting(scaled, level, total)
    for block in sweep.read_losses(where, shuffle):
        bets.update(block / sweep.bound)
    return bets.p_values()


def _walk(sweep: Sweep, alpha: float, error: float, shuffle: Integers | None) -> int:
    """Test one candidate after another, safest first, until one is not shown to pass."""
    if shuffle is None and isinstance(sweep.total_weight, float):
        # Hoeffding–Bentkus p-values increase with the sum: compare with the largest that passes.
        n_items = int(sweep.total_weight)
        limit = largest_rejected_sum(n_items, alpha / sweep.bound, error) * sweep.bound
        failed = ~within_limit(sweep.sums, limit) if limit >= 0 else np.ones(1, dtype=np.bool_)
        return int(np.argmax(failed)) - 1 if failed.any() else len(failed) - 1
    first, width = 0, FIRST_BATCH
    while first < len(sweep.thresholds):
        where = slice(first, min(first + width, len(sweep.thresholds)))
        failed = ~within_limit(_p_values(sweep, alpha, error, shuffle, where), error)
        if failed.any():
            return first + int(np.argmax(failed)) - 1
        first, width = where.stop, min(2 * width, LARGEST_BATCH)
    return len(sweep.thresholds) - 1


def _passed_tests(p_values: Floats, error: float, procedure: str) -> Booleans:
    """Which thresholds pass, with a probability of at most `error` of any false one."""
    count = len(p_values)
    if procedure == "bonferroni":
        return np.asarray(within_limit(p_values, error / count))
    order = np.argsort(p_values, kind="stable")
    in_order = within_limit(p_values[order], error / np.arange(count, 0, -1))
    n_passed = count if in_order.all() else int(np.argmin(in_order))
    passed = np.zeros(count, dtype=np.bool_)
    passed[order[:n_passed]] = True
    return passed
