"""The four methods by their definitions, in exact fractions: slow, simple and independent."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

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


def conservative(rows, column, bound=1, weights=None, test=1):
    weights = weights or [1] * len(rows)
    total = sum(w * row[column] for w, row in zip(weights, rows, strict=True))
    return Fraction(total + test * bound) / Fraction(sum(weights) + test)


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


def nonmonotone_items(rows):
    return [i for i, row in enumerate(rows) if any(b < a for a, b in pairwise(row))]


def hoeffding_bentkus(total, count, alpha):
    """From the textbook: binomial sums term by term."""
    if count == 0:
        return 1.0
    mean, alpha = min(float(Fraction(total) / count), float(alpha)), float(alpha)
    entropy = (1 - mean) * math.log((1 - mean) / (1 - alpha))
    if mean > 0:
        entropy += mean * math.log(mean / alpha)
    rounded_up = math.ceil(Fraction(total))
    tail = sum(
        math.comb(count, k) * alpha**k * (1 - alpha) ** (count - k) for k in range(rounded_up + 1)
    )
    return min(math.exp(-count * entropy), math.e * tail, 1.0)


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


def holm(p_values, error):
    """Which hypotheses Holm's procedure rejects."""
    left, rejected = set(range(len(p_values))), set()
    while left:
        j = min(left, key=lambda k: p_values[k])
        if p_values[j] > error / len(left) * (1 + 1e-10):
            break
        left.remove(j)
        rejected.add(j)
    return rejected


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
