"""How large the new system's share of the keys may be: pure functions of counts and losses.

Losses lie in [0, B]; everything here is written for B = 1, and callers divide. A key is answered by
the new system if its position, a hash that is uniform on [0, 1), is below the share. R1 is the new
system's risk, r a bound on the old one's. docs/explanation/release.md has the proofs.

**The exact share.** What a share s risks is r + s·(R1 − r). With n rows of the new system, n chosen
without their losses, let

    Q = (n + 1)·∫₀¹ Π(1 − y·l_i) / (1 − y·r)^(n+2) dy.

E[Q] ≤ 1/(R1 − r), so s = min(1, (p − r)·Q) has an expected loss of at most p. It also holds for
rows drawn without replacement from units with different means.

**Returning keys.** What is served next is mostly keys that have been there before. Let `low` be the
smaller of the shares of the last two steps. Of the last step's units of the new system, those with
a position below low are *inside*: earlier losses selected them and they are served again. Those
from low up to the last share are *added*: chance chose them among all that were outside. With R_in
= (L + 1)/(n + 1) of the inside, slack = p − low·R_in − (1 − low)·r, the next share is

    low + slack·Q(added)               if slack ≥ 0
    min(low, (p − r)·Q(inside))        otherwise, and 0 if r ≥ p.

Only the slack is spent on keys of which nothing is known.

**Relative guardrails.** Tolerated is R0 + m with m = δ + γ·R0, R0 the old system's risk at the same
time. With n1 rows of the new system that sum to L1 and n0 of the old one that sum to L0, all of the
same steps,

    T_k = Π_{j ≤ k+1} (n1 + j)/(L1 + j),   U_k = C(L0, k)/C(n0, k), linear between whole L0,
    s = min(1, Σ_k (δ·U_k + γ·U_{k+1})·T_k).

If the numbers of rows do not depend on their losses, E[s·(R1 − R0)] ≤ m. Nothing is asked of the
old system's risk, and it starts at δ without any rows. Where keys return, let x be this share from
the inside rows and g that from the added ones, each against one half of the old system's rows, cut
by chance; the next share is x if x ≤ low, else low + (1 − low/x)·g.

**With confidence.** Upper bounds on the mean losses of inside, added and old rows each fail with a
small probability, which is divided over all steps; the share is the largest whose expected loss is
tolerated if they hold.

A share that is never larger than one of these, and does not fall where it rises, keeps its promise:
the limit on growth, the smallest of several guardrails, 0 after a stop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats

GROWTH_FACTOR, GROWTH_STEP = 3.0, 0.02
"""The next share is at most so many times the last one plus so much."""
LARGEST_RELATIVE = 0.8
"""The largest share of a relative guardrail before the finish: the old system keeps rows, without
which windows that look too good would stay in use for good."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_BOUND_STAKES = np.concatenate([0.5 ** np.arange(1, 9), 1 - 0.5 ** np.arange(2, 9)])


@dataclass(frozen=True)
class Guardrail:
    """What is tolerated of one loss of the new system.

    Parameters
    ----------
    tolerated : float, optional
        The expected loss that is tolerated of what is served: an absolute guardrail.
    bound : float, default 1.0
        The largest possible loss.
    delta : float, default 0.0
        Without `tolerated`: how much worse than the old system, measured at the same time, the new
        one may be.
    ratio : float, default 0.0
        The same as a part of the old system's mean loss.

    Examples
    --------
    >>> Guardrail(0.02).is_relative, relative(0.005).is_relative
    (False, True)
    """

    tolerated: float | None = None
    bound: float = 1.0
    delta: float = 0.0
    ratio: float = 0.0

    def __post_init__(self) -> None:
        validate.number("bound", self.bound, above=0, below=np.inf)
        if self.tolerated is not None:
            validate.number("tolerated", self.tolerated, above=0, below=self.bound)
            if self.delta or self.ratio:
                raise ValueError("a guardrail has either tolerated, or delta and ratio")
            return
        validate.number("delta", self.delta, above=0, below=self.bound, including=(0,))
        validate.number("ratio", self.ratio, above=0, below=np.inf, including=(0,))
        if not self.delta and not self.ratio:
            raise ValueError("a relative guardrail needs delta or ratio above 0, got 0 for both")

    @property
    def is_relative(self) -> bool:
        """Whether the new system is compared with the old one at the same time."""
        return self.tolerated is None


def relative(delta: float = 0.0, *, ratio: float = 0.0, bound: float = 1.0) -> Guardrail:
    """A guardrail against the old system at the same time, for a `Release`.

    Parameters
    ----------
    delta, ratio, bound : float
        As for `Guardrail`; one of the first two is above 0.

    Examples
    --------
    >>> relative(ratio=0.1, bound=30.0)
    Guardrail(tolerated=None, bound=30.0, delta=0.0, ratio=0.1)
    """
    return Guardrail(None, bound, delta, ratio)


def inverse_gap(losses: Floats, old: float) -> float:
    """Q: at most 1/(R1 − old) in expectation; `losses` of the rows, unknown ones as 1.

    >>> round(inverse_gap(np.array([]), 0.01), 4)
    1.0101
    >>> round(inverse_gap(np.repeat([0.0, 1.0], [97, 3]), 0.01), 1)
    31.4
    """
    rows = len(losses)
    kinds, counts = np.unique(losses, return_counts=True)
    panels = np.concatenate([[0.0], 0.5 ** np.arange(math.ceil(math.log2(rows + 2)) + 3, -1, -1)])
    half = np.diff(panels)[:, None] / 2
    y = (panels[:-1, None] + half + half * _NODES).ravel()
    with np.errstate(divide="ignore"):
        logs = np.log1p(-np.minimum(np.outer(y, kinds), 1.0)) @ counts
    logs -= (rows + 2) * np.log1p(-y * old)
    values = np.exp(np.minimum(logs, 700.0)).reshape(len(half), -1)
    return (rows + 1) * float((values * half * _WEIGHTS).sum())


def fresh_share(losses: Floats, old: float, tolerated: float) -> float:
    """The exact share where every row is a fresh key; `old` bounds the old system's risk."""
    if old >= tolerated:
        return 0.0
    return min(1.0, (tolerated - old) * inverse_gap(losses, old))


def sticky_share(inside: Floats, added: Floats, low: float, old: float, tolerated: float) -> float:
    """The share where keys return, from the losses of the last step's units; unknown ones as 1.

    >>> nothing = np.array([])
    >>> inside, added = (np.repeat([0.0, 1.0], counts) for counts in ([73, 9], [159, 24]))
    >>> round(sticky_share(nothing, nothing, 0.0, 0.02, 0.1), 4)
    0.0816
    >>> round(sticky_share(inside, added, 0.0816, 0.02, 0.1), 4)
    0.6972
    """
    if old >= tolerated:
        return 0.0
    mean = (float(inside.sum()) + 1) / (len(inside) + 1)
    slack = tolerated - low * mean - (1 - low) * old
    if slack < 0:
        return min(low, (tolerated - old) * inverse_gap(inside, old))
    return min(1.0, low + slack * inverse_gap(added, old))


def relative_share(new: Floats, old: Floats, delta: float, ratio: float) -> float:
    """The relative share; an unknown loss is 1 in `new` and 0 in `old`.

    >>> nothing, old = np.array([]), np.repeat([0.0, 1.0], [89, 10])
    >>> relative_share(nothing, nothing, 0.01, 0), round(relative_share(nothing, old, 0.01, 0), 5)
    (0.01, 0.01111)
    """
    total, rows = float(old.sum()), len(old)
    whole = min(math.floor(total), max(rows - 1, 0))
    counts = len(new), float(new.sum()), rows
    low, high = (_series(*counts, each, delta, ratio) for each in (whole, whole + 1))
    return min(1.0, low + (total - whole) * (high - low) if rows else low)


def relative_sticky_share(within: float, beyond: float, low: float) -> float:
    """The relative share where keys return, from those of the inside and of the added rows."""
    if low == 0:
        return beyond
    return within if within <= low else low + (1 - low / within) * beyond


def _series(n1: int, l1: float, n0: int, l0: int, delta: float, ratio: float) -> float:
    product, u, total = (n1 + 1) / (l1 + 1), 1.0, 0.0
    for k in range(n0 + 1):
        following = u * (l0 - k) / (n0 - k) if k < min(l0, n0) else 0.0
        total += (delta * u + ratio * following) * product
        if following == 0 or total >= 1e6:
            break
        u, product = following, product * (n1 + k + 2) / (l1 + k + 2)
    return total


def grown(share: float, last: float, factor: float) -> float:
    """The share after the limit on growth; not for the first step."""
    return min(share, factor * last + GROWTH_STEP)


def upper_bound(losses: Floats, error: float) -> float:
    """The mean of independent losses is at most this, but for the probability `error`.

    For every mean μ bets against "at least μ" multiply 1 − y·(l − μ)/(1 − μ); the mean over stakes
    y has an expectation of at most 1, also where the losses have different means that average μ.

    >>> round(upper_bound(np.zeros(1000), 0.05), 4), upper_bound(np.array([]), 0.05)
    (0.0039, 1.0)
    """
    kinds, counts = np.unique(losses, return_counts=True)
    limit = math.log(len(_BOUND_STAKES) / error)

    def is_refuted(mean: float) -> bool:
        logs = np.log1p(-np.outer(_BOUND_STAKES, (kinds - mean) / (1 - mean))) @ counts
        return bool(np.logaddexp.reduce(logs) >= limit)

    refuted, kept = 1.0, float(np.mean(losses)) if len(losses) else 1.0
    while refuted - kept > 1e-9:
        middle = (refuted + kept) / 2
        refuted, kept = (middle, kept) if is_refuted(middle) else (refuted, middle)
    return refuted


def confident_share(
    inside: Floats, added: Floats, low: float, old: float, tolerated: float, error: float
) -> float:
    """The largest share whose expected loss is tolerated if all bounds hold."""
    if old >= tolerated:
        return 0.0
    within, beyond = upper_bound(inside, error), upper_bound(added, error)
    slack = tolerated - low * within - (1 - low) * old
    if slack < 0:
        return min(low, (tolerated - old) / (within - old))
    return 1.0 if beyond <= old else min(1.0, low + slack / (beyond - old))
