"""The condition of clip as a function of log beta, in pieces with a closed form.

Divide the condition without contexts by β and write t for log β. The left side becomes

    h(t) = Σ_i a_i · min(ρ_i/β, 1)  +  max_j u_j · min(ρ_j/β, 1)

with a_i = (l_i − α)·safe/mixture at row i and u_j = (B − α)·safe/mixture at candidate j of the test
weight. Between two neighboring log ratios h is the larger of c + d·e^−t for two pairs (c, d): rows
with a ratio above β contribute to c, rows below it to d. Each of the two is monotone, so h is
positive somewhere in a piece exactly if it is positive at one of its ends, and the root has a
closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats, Integers

if TYPE_CHECKING:
    from tether.control.constraint import Constraint
    from tether.control.problem import Problem

MAX_LOG_RANGE = 500.0
"""The widest range of logs that is put on one linear scale: e^500 is a finite float."""


@dataclass(frozen=True)
class Terms:
    """The terms of h: signed rows and non-negative tops, each with a log ratio and an amount.

    The tops are the candidates of the test weight, of which h takes the largest. Amounts are
    divided by e^log_scale so that none overflows.
    """

    ratio: Floats
    amount: Floats
    top_ratio: Floats
    top_amount: Floats
    log_scale: float = 0.0

    def __len__(self) -> int:
        return len(self.ratio) + len(self.top_ratio)


def condition_terms(problem: Problem, constraint: Constraint) -> Terms:
    """The condition of clip without contexts, or of mix, as rows and tops.

    The rows are those of the log, in order. A constant test weight has no tops.
    """
    loss, test_amount = problem.log.loss[constraint.name], constraint.worst
    top_ratio, top_base = problem.candidates.log_ratio, problem.candidates.log_base
    if problem.log.log_mix is None:
        # All bases are equal, so the candidate with the largest ratio has the largest weight.
        if len(top_ratio):
            top_ratio, top_base = top_ratio.max(keepdims=True), top_base[:1]
        amount = np.empty(len(loss))

        def sign(block: slice) -> None:
            amount[block] = constraint.signed(loss[block])

        map_blocks(sign, len(loss))
        return Terms(problem.log_ratio, amount, top_ratio, test_amount * np.exp(top_base))
    base = np.asarray(problem.log_base)
    log_scale = float(max(base.max(), top_base.max(initial=-np.inf)))
    amount, top_amount = np.empty(len(loss)), np.empty(len(top_base))

    def weigh(block: slice) -> None:
        np.multiply(
            constraint.signed(loss[block]), np.exp(base[block] - log_scale), out=amount[block]
        )

    def weigh_tops(block: slice) -> None:
        np.multiply(test_amount, np.exp(top_base[block] - log_scale), out=top_amount[block])

    map_blocks(weigh, len(loss))
    map_blocks(weigh_tops, len(top_base))
    return Terms(problem.log_ratio, amount, top_ratio, top_amount, log_scale)


def fits_one_scale(problem: Problem) -> bool:
    """Whether the amounts of `condition_terms` fit on one scale of floats."""
    log, draws = problem.log, problem.draws
    fixed = problem.test_weight.constant is not None
    if log.log_mix is None and not fixed:
        return True
    references = (draws.log_mix, draws.log_mass) if fixed else (draws.log_mix,)

    def look(block: slice) -> tuple[float, float]:
        safe = draws.log_safe[block]
        scales = [safe - reference[block] for reference in references]
        possible = safe > -np.inf
        return (
            min(float(part.min(initial=np.inf, where=possible)) for part in scales),
            max(float(part.max(initial=-np.inf, where=possible)) for part in scales),
        )

    lowest, highest = zip(*map_blocks(look, len(draws.log_safe)), strict=True)
    base = np.asarray(problem.log_base)
    highest_scale, lowest_scale = max(*highest, float(base.max())), min(*lowest, float(base.min()))
    return bool(highest_scale - lowest_scale < MAX_LOG_RANGE)


def nonzero_terms(terms: Terms) -> Terms:
    """The terms that contribute to h at some beta."""

    def all_count(block: slice) -> bool:
        amount = terms.amount[block]
        return bool(terms.ratio[block].min() > -np.inf and amount.all())

    def all_tops_count(block: slice) -> bool:
        return bool(terms.top_ratio[block].min() > -np.inf and terms.top_amount[block].min() > 0)

    if all(map_blocks(all_count, len(terms.ratio))) and all(
        map_blocks(all_tops_count, len(terms.top_ratio))
    ):
        return terms
    row = (terms.amount != 0) & (terms.ratio > -np.inf)
    top = (terms.top_amount > 0) & (terms.top_ratio > -np.inf)
    return Terms(terms.ratio[row], terms.amount[row], terms.top_ratio[top], terms.top_amount[top])


@dataclass(frozen=True)
class Carry:
    """What the terms outside an interval [lo, hi] contribute inside it.

    `above` and `top_above` come from ratios above hi and are constant; `below` and `top_below` come
    from ratios below lo, are stated at lo and decay as e^(lo − t).
    """

    above: float = 0.0
    below: float = 0.0
    top_above: float = 0.0
    top_below: float = 0.0


NO_CARRY = Carry()


@dataclass(frozen=True)
class Segments:
    """h on an interval: its edges, and the constants of the piece that starts at each edge.

    At a point t after edge k, with s = e^(edge_k − t), h is the larger of
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
        """The same at given edges, in increasing order; h is exact at them, but not between."""
        order = np.argsort(terms.ratio)
        ratio, amount = terms.ratio[order], terms.amount[order]
        order = np.argsort(terms.top_ratio)
        top_ratio, top_amount = terms.top_ratio[order], terms.top_amount[order]
        passed = np.searchsorted(ratio, edge, side="right")
        top_passed = np.searchsorted(top_ratio, edge, side="right")
        sum_above = np.cumsum(amount[::-1])[::-1]
        top_above = np.maximum.accumulate(top_amount[::-1])[::-1]
        return cls(
            edge=edge,
            above=carry.above + np.append(sum_above, 0.0)[passed],
            below=_decayed(np.add, ratio, amount, edge, passed, carry.below),
            top_above=np.maximum(np.append(top_above, 0.0)[top_passed], carry.top_above),
            top_below=_decayed(
                np.maximum, top_ratio, top_amount, edge, top_passed, carry.top_below
            ),
        )

    @property
    def value(self) -> Floats:
        """The function h at the edges."""
        return self.above + self.below + np.maximum(self.top_above, self.top_below)

    def roots(
        self,
        end: Integers,
        less_above: Floats | float = 0.0,
        less_below: Floats | float = 0.0,
    ) -> Floats:
        """Where h first becomes positive in the pieces that end at given edges; +inf if nowhere.

        The piece after the last edge ends at the number of edges. `less_above` and `less_below`,
        stated where the piece starts, are subtracted from the constants first: h without one row.
        """
        at = end - 1
        piece = self.edge[at], self._stop[at], self._decay[at]
        above, below = self.above[at] - less_above, self.below[at] - less_below
        return np.minimum(
            _root(above + self.top_above[at], below, *piece),
            _root(above, below + self.top_below[at], *piece),
        )

    @cached_property
    def _stop(self) -> Floats:
        """Where the piece after each edge ends."""
        return np.append(self.edge[1:], np.inf)

    @cached_property
    def _decay(self) -> Floats:
        """By how much a decaying term falls in the piece after each edge."""
        return np.exp(self.edge - self._stop)


def _decayed(
    combine: np.ufunc,
    ratio: Floats,
    amount: Floats,
    edge: Floats,
    passed: Integers,
    first: float,
) -> Floats:
    """At each edge, amount·e^(ratio − edge) combined over the ratios up to it.

    `first` is what came before the first edge, stated there. Works through blocks of edges that
    are close enough together for e^distance to be a finite float.
    """
    decayed = np.empty(len(edge))
    done, start, carried_at, carried = 0, 0, edge[0], first
    while start < len(edge):
        stop = int(np.searchsorted(edge, edge[start] + MAX_LOG_RANGE, side="right"))
        reference = edge[stop - 1]
        new = slice(done, passed[stop - 1])
        terms = amount[new] * np.exp(np.minimum(ratio[new] - reference, 0.0))
        run = combine.accumulate(np.append(carried * np.exp(carried_at - reference), terms))
        decayed[start:stop] = run[passed[start:stop] - done] * np.exp(reference - edge[start:stop])
        done, start, carried_at, carried = passed[stop - 1], stop, reference, run[-1]
    return decayed


def _root(constant: Floats, decaying: Floats, start: Floats, stop: Floats, decay: Floats) -> Floats:
    """First t in [start, stop] with constant + decaying·e^(start − t) > 0; +inf if none.

    The function is monotone: it is positive in the piece if it is positive at one of its ends.
    `decay` is e^(start − stop).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = (decaying < 0) & (constant > 0)
        crossing = start + np.log(-decaying / constant)
    at_stop = constant + decaying * decay
    root = np.where(rising, np.clip(crossing, start, stop), start)
    return np.where((at_stop > 0) | (constant + decaying > 0), root, np.inf)
