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

from tether._check import Floats

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


@dataclass(frozen=True)
class Segments:
    """h on an interval: its edges, and the constants of the piece that ends at each edge.

    At a point t before edge k, with s = e^(edge_k − t), h is the larger of
    above + top_above + below·s and above + (below + top_below)·s.
    """

    edge: Floats
    above: Floats
    below: Floats
    top_above: Floats
    top_below: Floats
    past: Carry
    """The constants past the last edge, stated there."""

    @classmethod
    def build(cls, terms: Terms, lo: float, hi: float, carry: Carry) -> Segments:
        """Sort the terms of [lo, hi] and accumulate."""
        order = np.argsort(terms.ratio)
        ratio, amount = terms.ratio[order], terms.amount[order]
        order = np.argsort(terms.top_ratio)
        top_ratio, top_amount = terms.top_ratio[order], terms.top_amount[order]
        edge = np.unique(np.clip(np.concatenate(([lo], ratio, top_ratio, [hi])), lo, hi))
        still = np.cumsum(amount[::-1])[::-1]
        highest = np.maximum.accumulate(top_amount[::-1])[::-1]
        above = np.append(still, 0.0)[np.searchsorted(ratio, edge)]
        top_above = np.append(highest, 0.0)[np.searchsorted(top_ratio, edge)]
        below = _faded(np.add, ratio, amount, edge, carry.below)
        top_below = _faded(np.maximum, top_ratio, top_amount, edge, carry.top_below)
        return cls(
            edge=edge,
            above=above + carry.above,
            below=below,
            top_above=np.maximum(top_above, carry.top_above),
            top_below=top_below,
            past=Carry(
                above=carry.above,
                below=float(below[-1] + above[-1]),
                top_above=carry.top_above,
                top_below=float(max(top_below[-1], top_above[-1])),
            ),
        )

    @property
    def value(self) -> Floats:
        """H at the edges."""
        return self.above + self.below + np.maximum(self.top_above, self.top_below)

    def roots(
        self,
        piece: NDArray[np.int64],
        less_above: Floats | float = 0.0,
        less_below: Floats | float = 0.0,
    ) -> Floats:
        """Where h first turns positive inside the pieces that end at the given edges.

        `less_above` and `less_below` are taken off the constants first: h without one row.
        """
        above, below = self.above[piece] - less_above, self.below[piece] - less_below
        start, end = self.edge[piece - 1], self.edge[piece]
        first = np.minimum(
            _root(above + self.top_above[piece], below, end, above + self.top_above[piece] + below),
            _root(above, below + self.top_below[piece], end, above + below + self.top_below[piece]),
        )
        return np.clip(first, start, end)

    def final_roots(self, less_below: Floats | float = 0.0) -> Floats:
        """Where h turns positive past the last edge, if no ratio lies there; +inf where never."""
        past, end = self.past, self.edge[-1]
        above, below = np.array([past.above]), past.below - np.atleast_1d(less_below)
        first = np.minimum(
            _root(above + past.top_above, below, end, above + past.top_above),
            _root(above, below + past.top_below, end, above),
        )
        return np.asarray(np.maximum(first, end))


def _faded(combine: np.ufunc, ratio: Floats, amount: Floats, edge: Floats, first: float) -> Floats:
    """At each edge, amount·e^(ratio − edge) combined over all ratios before it.

    `first` is what came before the first edge, stated there. Works through blocks of edges that
    lie close enough together for e^distance to be a number.
    """
    before = np.searchsorted(ratio, edge)
    faded = np.empty(len(edge))
    done, start, at, carried = 0, 0, edge[0], first
    while start < len(edge):
        stop = int(np.searchsorted(edge, edge[start] + WIDEST, side="right"))
        reference = edge[stop - 1]
        new = slice(done, before[stop - 1])
        terms = amount[new] * np.exp(ratio[new] - reference)
        run = combine.accumulate(np.append(carried * np.exp(at - reference), terms))
        faded[start:stop] = run[before[start:stop] - done] * np.exp(reference - edge[start:stop])
        done, start, at, carried = before[stop - 1], stop, reference, run[-1]
    return faded


def _root(constant: Floats, fading: Floats, end: Floats, at_end: Floats) -> Floats:
    """Where constant + fading·e^(end − t) turns positive on the way to `at_end`; +inf if never."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = (fading < 0) & (constant > 0)
        root = np.where(rising, end + np.log(-fading / constant), -np.inf)
    return np.where(at_end > 0, root, np.inf)
