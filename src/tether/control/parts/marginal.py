"""The condition of clip without contexts, and of mix, for a log in parts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tether._core.types import Floats
from tether.control.blend import blend_scores
from tether.control.constraint import Constraint
from tether.control.families import Mix
from tether.control.family import Family
from tether.control.parts.clip_solver import BinnedClip, Collected, Request
from tether.control.parts.in_parts import LogInParts, ProposalsInParts
from tether.control.parts.mix_solver import MixLines
from tether.control.parts.ratio_bins import NO_TOPS, Bins, BinTable, TopTable, bin_tops
from tether.control.parts.term_kernels import (
    BestTops,
    BinDraws,
    BinnedRows,
    BinRows,
    BinTops,
    CollectDraws,
    CollectRows,
    Gathered,
)
from tether.control.test_weight import Analytic, Empirical, Fixed, MaxRatio, TestWeight


class MarginalTerms:
    """Where the terms of the condition are: rows, draws and candidates, read when asked for."""

    def __init__(
        self,
        log: LogInParts,
        proposals: ProposalsInParts | None,
        family: Family,
        test_weight: TestWeight,
        constraints: tuple[Constraint, ...],
        blend: float,
    ) -> None:
        self.log, self.proposals, self.test_weight = log, proposals, test_weight
        self.constraints, self.blend = constraints, blend
        self.is_mix = isinstance(family, Mix)
        self.largest: dict[str, tuple[float, float]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the constraints."""
        return tuple(each.name for each in self.constraints)

    @property
    def log_worst(self) -> dict[str, float]:
        """Log of the amount of the test point with a base of one."""
        return {each.name: float(np.log(each.worst)) for each in self.constraints}

    @property
    def constant_base(self) -> float:
        """The log base of a candidate with an infinite ratio; −inf if there is none."""
        if isinstance(self.test_weight, Analytic):
            return -float(np.log(self.log.safe_share or 1.0))
        return -np.inf

    @cached_property
    def exact_tops(self) -> tuple[Floats, Floats] | None:
        """Ratio and log base of the candidate, if there is only one; None if all must be read."""
        none = (np.empty(0), np.empty(0))
        if isinstance(self.test_weight, MaxRatio):
            base = -np.log(self.log.safe_share or 1.0)
            return np.array([self.test_weight.log_ratio]), np.array([base])
        if isinstance(self.test_weight, Fixed):
            one = (np.zeros(1), np.log([self.test_weight.constant]))
            return one if self.is_mix else none
        if not isinstance(self.test_weight, Empirical):
            return none
        if self.log.has_mixture:
            return None
        if self.proposals is not None:
            highest = self.proposals.survey.largest_ratio
        else:
            highest = self.log.survey.drawn_ratio[1]
        ratio = np.array([highest])
        return np.asarray(blend_scores(ratio, np.zeros(1), self.blend)), np.zeros(1)

    @property
    def _draw_terms(self) -> BinDraws | None:
        """The terms that a fixed test weight adds to clip."""
        if not isinstance(self.test_weight, Fixed) or self.is_mix:
            return None
        constant = self.test_weight.constant
        if self.proposals is None:
            counts = (len(self.log), 0)
        else:
            survey = self.proposals.survey
            counts = (survey.safe_rows, survey.rows - survey.safe_rows)
        amounts = tuple(float(np.log(each.worst * constant)) for each in self.constraints)
        return BinDraws(amounts, counts, self.blend, Bins())

    def tables(self, bins: Bins) -> tuple[Mapping[str, BinTable], TopTable]:
        """Tables of all terms, by constraint, and of the candidates."""
        kernels: list[Any] = [BinRows(self.constraints, self.blend, bins, zeros=self.is_mix)]
        draws = self._draw_terms
        if draws is not None:
            draws = BinDraws(draws.log_amounts, draws.counts, draws.blend, bins)
        own_draws = draws is not None and self.proposals is None
        kernels += [draws] if own_draws else []
        own_tops = self._reads_tops and self.proposals is None
        kernels += [BinTops(self.blend, bins)] if own_tops else []
        binned: BinnedRows
        binned, *more = self.log.reduce(*kernels)
        self.largest = dict(zip(self.names, binned.largest, strict=True))
        tops: TopTable | None = more[-1] if own_tops else None
        added: list[BinnedRows] = [more[0]] if own_draws else []
        if self.proposals is not None and (draws is not None or self._reads_tops):
            wanted: list[Any] = [] if draws is None else [draws]
            wanted += [BinTops(self.blend, bins)] if self._reads_tops else []
            found = self.proposals.reduce(*wanted)
            added += found[:1] if draws is not None else []
            tops = found[-1] if self._reads_tops else None
        tables = binned.tables
        for each in added:
            tables = tuple(
                first.merge(second) for first, second in zip(tables, each.tables, strict=True)
            )
        if tops is None:
            tops = NO_TOPS
            if not self.is_mix and self.exact_tops is not None:
                tops = bin_tops(bins, *self.exact_tops)
        return dict(zip(self.names, tables, strict=True)), tops

    @property
    def _reads_tops(self) -> bool:
        return not self.is_mix and self.exact_tops is None

    def collect(self, left: Floats, right: Floats) -> dict[str, Collected]:
        """The terms in the intervals [left, right), by constraint."""
        kernels: list[Any] = [CollectRows(self.names, self.blend, left, right)]
        draws = self._draw_terms
        wanted: list[Any] = [] if draws is None else [CollectDraws(draws, left, right)]
        if self._reads_tops:
            wanted.append(CollectDraws(BinTops(self.blend, Bins()), left, right))
        if self.proposals is None:
            kernels += wanted
        gathered: list[Gathered] = list(self.log.reduce(*kernels))
        if self.proposals is not None and wanted:
            gathered += self.proposals.reduce(*wanted)
        ratio, base, *losses = gathered[0].sorted()
        tops = self.exact_tops
        if self._reads_tops:
            tops = gathered[-1].sorted()  # type: ignore[assignment]
        assert tops is not None
        order = np.argsort(tops[0], kind="stable")
        found = {}
        for number, each in enumerate(self.constraints):
            terms: tuple[Floats, ...] = (ratio, each.signed(losses[number]), base)
            if draws is not None:
                drawn, size = gathered[1].sorted()
                more = (drawn, np.ones(len(drawn)), size + draws.log_amounts[number])
                terms = tuple(np.concatenate(pair) for pair in zip(terms, more, strict=True))
                sorting = np.argsort(terms[0], kind="stable")
                terms = tuple(column[sorting] for column in terms)
            found[each.name] = Collected(
                terms[0], terms[1], terms[2], tops[0][order], tops[1][order]
            )
        return found

    def best_tops(self, log_betas: Floats) -> tuple[Floats, Floats]:
        """Ratios and log bases of the heaviest candidates of mix at several betas."""
        source: Any = self.log if self.proposals is None else self.proposals
        (found,) = source.reduce(BestTops(log_betas, self.blend))
        return found.ratio, found.base


class MarginalSolver:
    """The largest betas of several constraints, and what leaving out a row would change."""

    def __init__(self, terms: MarginalTerms) -> None:
        self.terms = terms

    @cached_property
    def binned(self) -> BinnedClip:
        """The tables of bins of all constraints."""
        tables, tops = self.terms.tables(Bins())
        return BinnedClip(self.terms, tables, tops, self.terms.log_worst, self.terms.constant_base)

    @cached_property
    def lines(self) -> dict[str, MixLines]:
        """For mix, the condition of each constraint as lines."""
        cells = {name: each.cells for name, each in self.binned.conditions.items()}
        return {
            each.name: MixLines.build(cells[each.name], self.terms, each)
            for each in self.terms.constraints
        }

    @cached_property
    def crossings(self) -> dict[str, tuple[float, float, float]]:
        """For clip, log beta of each constraint, and between which it is without any one row."""
        binned, requests = self.binned, []
        for name in self.terms.names:
            positive, negative = self.terms.largest[name]
            requests += [Request(name), Request(name, (1, negative)), Request(name, (-1, positive))]
        found = binned.first_crossings(requests)
        return {
            name: (found[3 * number], found[3 * number + 1], found[3 * number + 2])
            for number, name in enumerate(self.terms.names)
        }

    def largest(self) -> dict[str, float]:
        """Log of the largest beta that each constraint allows; −inf where it allows none."""
        if self.terms.is_mix:
            return {name: each.first_crossing() for name, each in self.lines.items()}
        return {name: found[0] for name, found in self.crossings.items()}
