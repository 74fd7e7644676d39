"""The condition of clip as a function of log beta, piece by piece.

Divide g(β) of the marginal condition by β and write t for log β. What is left is

    h(t) = Σ_i a_i · min(ρ_i/β, 1)  +  max_j u_j · min(ρ_j/β, 1)

with a_i = (l_i − α)·safe/mix at row i and u_j = (B − α)·safe/mix at proposal j. Between two
neighbouring log ratios h is the larger of c + d·e^−t for two pairs (c, d): rows with a ratio above
β contribute to c, rows below it to d. Each of the two is monotone, so h is positive somewhere in a
piece exactly when it is positive at one of its ends, and its root has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

WIDEST = 500.0
"""The widest block of log ratios on one linear scale: e^500 is still a number."""


@dataclass(frozen=True)
class Terms:
    """What h is made of: signed rows (ratio, a) and non-negative tops (ratio, u), in log ratios."""

    ratio: Floats
    amount: Floats
    top_ratio: Floats
    top_amount: Floats

    def __len__(self) -> int:
        return len(self.ratio) + len(self.top_ratio)


def kept(terms: Terms) -> Terms:
    """Only the terms that matter to clip at some beta."""
    row = (terms.amount != 0) & (terms.ratio > -np.inf)
    top = (terms.top_amount > 0) & (terms.top_ratio > -np.inf)
    if row.all() and top.all():
        return terms
    return Terms(terms.ratio[row], terms.amount[row], terms.top_ratio[top], terms.top_amount[top])


@dataclass(frozen=True)
class Carry:
    """What the terms outside an interval [lo, hi] contribute inside it.

    `above` and `top_above` belong to ratios past hi and are constant; `below` and `top_below`
    belong to ratios before lo, are stated at lo and fade as e^(lo − t).
    """

    above: float = 0.0
    below: float = 0.0
    top_above: float = 0.0
    top_below: float = 0.0


NO_CARRY = Carry()


@dataclass(frozen=True)
class Segments:
    """h on an interval: its edges, and the constants of the piece that starts at each edge.

    At a point t past edge k, with s = e^(edge_k − t), h is the larger of
    above + top_above + below·s and above + (below + top_below)·s.
    """

    edge: Floats
    above: Floats
    below: Floats
    top_above: Floats
    top_below: Floats

    @classmethod
    def build(cls, terms: Terms, lo: float, hi: float, carry: Carry) -> Segments:
        """Sort the terms of [lo, hi] and accumulate."""
        edge = np.concatenate(([lo], terms.ratio, terms.top_ratio, [hi]))
        return cls.at(np.unique(np.clip(edge, lo, hi)), terms, carry)

    @classmethod
    def at(cls, edge: Floats, terms: Terms, carry: Carry = NO_CARRY) -> Segments:
        """The same at edges of one's own, in rising order; h is exact there, if not between."""
        order = np.argsort(terms.ratio)
        ratio, amount = terms.ratio[order], terms.amount[order]
        order = np.argsort(terms.top_ratio)
        top_ratio, top_amount = terms.top_ratio[order], terms.top_amount[order]
        passed = np.searchsorted(ratio, edge, side="right")
        top_passed = np.searchsorted(top_ratio, edge, side="right")
        still = np.cumsum(amount[::-1])[::-1]
        highest = np.maximum.accumulate(top_amount[::-1])[::-1]
        return cls(
            edge=edge,
            above=carry.above + np.append(still, 0.0)[passed],
            below=_faded(np.add, ratio, amount, edge, passed, carry.below),
            top_above=np.maximum(np.append(highest, 0.0)[top_passed], carry.top_above),
            top_below=_faded(np.maximum, top_ratio, top_amount, edge, top_passed, carry.top_below),
        )

    @property
    def value(self) -> Floats:
        """H at the edges."""
        return self.above + self.below + np.maximum(self.top_above, self.top_below)

    def roots(
        self,
        end: NDArray[np.int64],
        less_above: Floats | float = 0.0,
        less_below: Floats | float = 0.0,
    ) -> Floats:
        """Where h first turns positive in the pieces that end at the given edges; +inf where never.

        The piece past the last edge ends at the number of edges. `less_above` and `less_below`,
        stated where the piece starts, are taken off the constants first: h without one row.
        """
        start = self.edge[end - 1]
        stop = np.append(self.edge, np.inf)[end]
        above, below = self.above[end - 1] - less_above, self.below[end - 1] - less_below
        top_above, top_below = self.top_above[end - 1], self.top_below[end - 1]
        return np.minimum(
            _root(above + top_above, below, start, stop),
            _root(above, below + top_below, start, stop),
        )


def _faded(
    combine: np.ufunc,
    ratio: Floats,
    amount: Floats,
    edge: Floats,
    passed: NDArray[np.int64],
    first: float,
) -> Floats:
    """At each edge, amount·e^(ratio − edge) combined over the ratios it has passed.

    `first` is what came before the first edge, stated there. Works through blocks of edges that
    lie close enough together for e^distance to be a number.
    """
    faded = np.empty(len(edge))
    done, start, at, carried = 0, 0, edge[0], first
    while start < len(edge):
        stop = int(np.searchsorted(edge, edge[start] + WIDEST, side="right"))
        reference = edge[stop - 1]
        new = slice(done, passed[stop - 1])
        terms = amount[new] * np.exp(np.minimum(ratio[new] - reference, 0.0))
        run = combine.accumulate(np.append(carried * np.exp(at - reference), terms))
        faded[start:stop] = run[passed[start:stop] - done] * np.exp(reference - edge[start:stop])
        done, start, at, carried = passed[stop - 1], stop, reference, run[-1]
    return faded


def _root(constant: Floats, fading: Floats, start: Floats, stop: Floats) -> Floats:
    """First t in [start, stop] with constant + fading·e^(start − t) > 0; +inf where there is none.

    The function is monotone: it is positive in the piece if it is so at one of its ends.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = (fading < 0) & (constant > 0)
        crossing = start + np.log(-fading / constant)
    at_stop = constant + fading * np.exp(start - stop)
    found = np.where(rising, np.clip(crossing, start, stop), start)
    return np.where((at_stop > 0) | (constant + fading > 0), found, np.inf)
