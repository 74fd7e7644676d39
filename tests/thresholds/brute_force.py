"""The methods by their definitions, in exact fractions: slow, simple and independent."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import strategies as st

INF = math.inf


def fdr(item, threshold):
    kept = [true for score, true in item if score >= threshold]
    return Fraction(kept.count(False), len(kept)) if kept else Fraction(0)


def any_false(item, threshold):
    return Fraction(any(score >= threshold and not true for score, true in item))


def miss(item, threshold):
    true = [score for score, label in item if label]
    return Fraction(sum(score < threshold for score in true), len(true)) if true else Fraction(0)


LOSSES = {"fdr": fdr, "any_false": any_false, "miss": miss}


def candidates(items, loss):
    """Every distinct score and +inf, safest first."""
    scores = sorted({score for item in items for score, _ in item})
    return [*scores, INF] if loss == "miss" else [INF, *reversed(scores)]


def table(items, loss, thresholds):
    """Rows of losses, one per item, at thresholds from the safest on."""
    return [[LOSSES[loss](item, t) for t in thresholds] for item in items]


def conservative(rows, column, weights=None, test=1):
    weights = weights or [1] * len(rows)
    total = sum(w * row[column] for w, row in zip(weights, rows, strict=True))
    return Fraction(total + test) / Fraction(sum(weights) + test)


def gcrc(rows, alpha, **more):
    """Index of the last column such that it and all before it pass; −1 if the first fails."""
    passing = [conservative(rows, j, **more) <= alpha for j in range(len(rows[0]))]
    return max((j for j in range(len(passing)) if all(passing[: j + 1])), default=-1)


def crc(rows, alpha, **more):
    """Index of the last column that passes."""
    passing = [j for j in range(len(rows[0])) if conservative(rows, j, **more) <= alpha]
    return max(passing, default=-1)


def monotonized(rows):
    return [[max(row[: j + 1]) for j in range(len(row))] for row in rows]


def gap(items, loss, alpha):
    """The stability of gCRC by its definition: every item left out, three sets, the largest."""
    n, everything = len(items), candidates(items, loss)

    def stop(group, limit, extra):
        thresholds = candidates(group, loss)
        for j, t in enumerate(thresholds):
            if sum(LOSSES[loss](item, t) for item in group) + extra > limit:
                return thresholds[max(j - 1, 0)]
        return thresholds[-1]

    largest = Fraction(0)
    for limit in (alpha * n, alpha * (n + 1), alpha * (n + 1) - 1):
        together, total = stop(items, limit, 0), Fraction(0)
        for i, item in enumerate(items):
            others = items[:i] + items[i + 1 :]
            at = stop(others, limit, 1) if any(others) else everything[0]
            total += LOSSES[loss](item, at) - LOSSES[loss](item, together)
        largest = max(largest, total / n)
    return largest


def betting(losses, alpha, level, count):
    """One game, one loss at a time."""
    seen, total, squares, wealth, best = 0, 0.0, 0.0, 1.0, 1.0
    for loss in losses:
        variance = (0.25 + squares) / (1 + seen)
        stake = min(1.0, math.sqrt(2 * math.log(1 / level) / (count * variance)))
        wealth *= 1 - stake * (loss - alpha)
        best = max(best, wealth)
        seen, total = seen + 1, total + loss
        squares += (loss - (0.5 + total) / (1 + seen)) ** 2
    return 1 / best


# Few distinct scores, so that ties are common; empty items, all-true and all-false ones.
SCORES = st.integers(-3, 4).map(lambda k: k / 4)
ITEMS = st.lists(
    st.one_of(
        st.lists(st.tuples(SCORES, st.booleans()), max_size=5),
        st.lists(st.tuples(SCORES, st.just(True)), max_size=3),
        st.lists(st.tuples(SCORES, st.just(False)), max_size=3),
    ),
    min_size=1,
    max_size=12,
).filter(lambda items: any(items))
ALPHAS = st.integers(1, 39).map(lambda k: Fraction(k, 40))


def flat(items):
    """The arguments of `tether.Claims`."""
    scores = [score for item in items for score, _ in item]
    labels = [label for item in items for _, label in item]
    offsets = [0]
    for item in items:
        offsets.append(offsets[-1] + len(item))
    return scores, labels, offsets
