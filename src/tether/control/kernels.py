"""What each family needs: the weights of a block of rows at several betas, and their sums.

A kernel weighs a block of rows. The default sums of the condition come from that matrix; clip
without contexts and mix have sums that cost one pass however many betas there are. For clip each
row lies in one bin of log ρ: the sums of amounts above each grid point, and of amount·ρ/β below it,
follow from bins by one recurrence, and ψ(β) cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

import numpy as np

from tether._core.arrays import Floats, Integers
from tether._core.rows import BLOCK, Block, Pass, Rows
from tether.control.engine import (
    COARSE,
    LAST,
    PARTS,
    Constraint,
    Problem,
    log_add,
    log_of,
    scores,
)
from tether.control.families import Family, exact_averages, limit_density

FINEST = 4 * PARTS  # every point of the grid is a multiple of one over this
WIDE = 300.0  # where log ratios are larger, ψ is summed one beta after the other, in logs
MARGIN = 100.0
"""How far past all ratios a beta still differs from the last one that they tell apart."""

Amounts = Callable[[Block, Floats], list[Floats]]
"""From a block and its log bases to what each row adds (amounts × rows)."""


class Weighed(NamedTuple):
    """The weights of a block of rows at several betas, of which the block tells some apart.

    Log-weights, and those of the heaviest candidate of each row (both told betas × rows); the log
    number of draws that an action takes, NaN where it is unknown; the place of every beta among
    those told apart, and what is added at every beta to the heaviest candidate's.
    """

    told: Floats
    candidates: Floats
    log_draws: Floats = np.zeros((1, 1))
    place: Any = slice(None)
    past: Floats | float = 0.0

    @property
    def log_w(self) -> Floats:
        """Log-weights (betas × rows)."""
        return np.asarray(self.told[self.place])

    @property
    def top(self) -> Floats:
        """The log-weight of the heaviest candidate (betas)."""
        return np.asarray(self.candidates.max(axis=1)[self.place] + self.past)


class Kernel:
    """How one family weighs rows; the default sums the condition from its matrix."""

    coarse: Any = COARSE
    nested = True  # whether fine points exist between coarse ones
    candidates = False  # whether the rows carry the points among which the test weight is found
    known = True  # whether weights are complete; else one factor per beta, `log_unit`, is estimated
    smoothness: float | None = None  # K of the family, where weights are not known
    clips = False  # whether that factor is ψ/β, as of clip without contexts
    from_draws = False  # whether weights are averages over draws
    size = 2048  # rows of a block

    def at(self, log_betas: Any) -> Floats:
        """Log betas as points of the grid, whose ends stand for −inf and +inf."""
        return np.clip(log_betas, -LAST, LAST) if self.nested else np.asarray(log_betas)

    def weigh(self, block: Block, t: Floats, problem: Problem) -> Weighed:
        """Weigh a block."""
        raise NotImplementedError

    def sums(self, problem: Problem, t: Floats) -> dict[str, Any]:
        """Logs of the sums of weights and losses (constraints × 2 × betas), and of the largest."""

        def kernel(block: Block) -> dict[str, Any]:
            made = self.weigh(block, t, problem)
            found = _log_dots(made.told, block, problem.constraints)
            return {name: each[..., made.place] for name, each in found.items()} | {"top": made.top}

        how = {"sums": "logsum", "most": "max", "top": "max"}
        return problem.rows.reduce(kernel, how, min(self.size, 2048))

    def log_test(self, problem: Problem, t: Floats) -> Floats:
        """The log of the test weight at every beta, where rows do not carry its candidates."""
        if not isinstance(problem.test_weight, str):
            return np.asarray(self.log_unit(problem, t) + np.log(problem.test_weight))
        if problem.test_weight == "none":
            return np.full(len(t), -np.inf)
        if problem.test_weight == "empirical":
            draws = problem.draws if problem.front is None else problem.front
            assert draws is not None

            def kernel(block: Block) -> dict[str, Any]:
                return {"top": self.weigh(block, t, problem).top}

            return np.asarray(draws.reduce(kernel, {"top": "max"}, self.size)["top"])
        return np.asarray(self.log_limit(problem, t) - np.log(problem.safe_share))

    def log_limit(self, problem: Problem, t: Floats) -> Floats:
        """The log of the largest weight of any action against the safe policy (or `max_ratio`)."""
        raise NotImplementedError

    def log_unit(self, problem: Problem, t: Floats) -> Floats:
        """Logs of the factors that weights lack, one for each beta: 0 where weights are known.

        Else ψ, or ψ/β, from the draws: each adds its kernel over n₀·safe + n₁·optimized, where n₀
        and n₁ count the draws of each policy. Without draws, from the rows.
        """
        if self.known:
            return np.zeros(len(t))
        logs = None if problem.drawn is None else log_of(problem.drawn)

        def kernel(block: Block) -> dict[str, Any]:
            log_w = self.weigh(block, t, problem).log_w
            if logs is not None:
                drew = block.get("log_drawn", block["log_optimized"])  # without any blend
                mass = np.logaddexp(logs[0] + block["log_safe"], logs[1] + drew)
                log_w = log_w + block.get("log_mix", block["log_safe"]) - mass
            return {"psi": np.logaddexp.reduce(log_w, axis=1)}

        source, count = self.source(problem)
        found = source.reduce(kernel, {"psi": "logsum"}, min(self.size, 1024))["psi"]
        return np.asarray(found - np.log(count))

    def source(self, problem: Problem) -> tuple[Rows, int]:
        """Where ψ is estimated from, and by how many its sum is divided."""
        if problem.drawn is None or problem.draws is None:
            return problem.rows, len(problem.rows)
        return problem.draws, 1


def _log_dots(logs: Floats, block: Block, constraints: tuple[Constraint, ...]) -> dict[str, Any]:
    """Logs of Σ amount·e^logs over rows, for every constraint, and the largest logs."""
    most = logs.max(axis=1)
    unit = np.where(most > -np.inf, most, 0.0)
    plain = np.exp(logs - unit[:, None])
    dots = [[plain @ amount for amount in each.amounts(block)] for each in constraints]
    return {"sums": log_of(dots) + unit, "most": most}


# ---- without contexts: clip by bins, mix by two sums -------------------------------------------


class OnePassKernel(Kernel):
    """A family whose sums at any number of betas follow from one pass over the rows."""

    size = BLOCK

    def __init__(self) -> None:
        self._kept: dict[object, tuple[Rows, dict[str, Any]]] = {}

    def gather(self, constraints: tuple[Constraint, ...]) -> Pass:
        """That pass."""
        raise NotImplementedError

    def keep(self, what: object, rows: Rows, found: dict[str, Any]) -> None:
        """Keep what a pass over rows has found."""
        self._kept[what] = rows, found

    def once(self, what: object, rows: Rows, each: Pass) -> dict[str, Any]:
        """What a pass over rows finds, which is made once."""
        if what not in self._kept or self._kept[what][0] is not rows:
            self.keep(what, rows, rows.together(it=each)["it"])
        return self._kept[what][1]

    def gathered(self, problem: Problem) -> dict[str, Any]:
        """What was gathered from the rows."""
        return self.once(problem.constraints, problem.rows, self.gather(problem.constraints))


@dataclass(frozen=True)
class Binned:
    """Sums of amounts in bins of log ρ that are 1/128 wide, as every point of the grid is.

    `whole` are sums of amounts and `near` of amount·ρ, in units of the bin's lower end (both
    amounts × bins); the first bin begins at `first`/128. `high` is the largest log ratio, `base` is
    minus the smallest log base and the largest one.
    """

    first: int
    whole: Floats
    near: Floats
    high: float
    base: Floats

    @classmethod
    def of(cls, amounts: Amounts, block: Block) -> Binned:
        """The sums of a block."""
        ratio, base = scores(block)
        given, high = amounts(block, base), float(ratio.max())
        if ratio.min() < -LAST:  # −inf, where the row counts nothing, or below the grid
            possible = ratio > -np.inf
            ratio = np.maximum(ratio[possible], -LAST)
            given = [each[possible] for each in given]
        lower = np.floor(ratio * FINEST)
        first = lower.min(initial=LAST * FINEST)
        place = (lower - first).astype(np.int64)
        lower *= 1 / FINEST
        near = np.exp(ratio - lower)
        whole, below = np.zeros((2, len(given), int(place.max(initial=-1)) + 1))
        for k, each in enumerate(given):
            some = np.flatnonzero(each != 0) if k else slice(None)  # many losses are 0
            np.add.at(whole[k], place[some], each[some])
            np.add.at(below[k], place[some], near[some] * each[some])
        return cls(int(first), whole, below, high, np.array(ends(base)))

    def __add__(self, other: Binned) -> Binned:
        both = self, other
        first = min(each.first for each in both)
        stop = max(each.first + each.whole.shape[1] for each in both)
        whole, near = np.zeros((2, len(self.whole), max(stop - first, 0)))
        for each in both:
            place = slice(each.first - first, each.first - first + each.whole.shape[1])
            whole[:, place] += each.whole
            near[:, place] += each.near
        high, base = max(self.high, other.high), np.maximum(self.base, other.base)
        return Binned(first, whole, near, high, base)

    @cached_property
    def _sums(self) -> Floats:
        """Log of Σ amount·min(1, ρ/β) at the beginning of every bin, and at the end of the last."""
        amounts, bins = self.whole.shape
        sums = np.full((amounts, bins + 1), -np.inf)
        sums[:, :-1] = log_of(np.cumsum(self.whole[:, ::-1], axis=1)[:, ::-1])
        since = np.arange(bins) / FINEST
        below = np.logaddexp.accumulate(log_of(self.near) + since, axis=1) - since - 1 / FINEST
        sums[:, 1:] = np.logaddexp(sums[:, 1:], below)
        return sums

    def log_sums(self, t: Floats) -> Floats:
        """The same at log betas of the grid (amounts × betas)."""
        place = np.rint(t * FINEST).astype(np.int64) - self.first
        last = self.whole.shape[1]
        past = np.maximum(place - last, 0) / FINEST  # past all ratios the sums only decay
        return np.asarray(self._sums[:, np.clip(place, 0, last)] - past)


class ClipKernel(OnePassKernel):
    """min(optimized, β·safe)/ψ(β) without contexts: each row in one bin, however many betas.

    Weights are those of min(1, ρ/β)·safe/mixture, up to the factor ψ/β.
    """

    known, clips = False, True
    smoothness = 1.0

    def weigh(self, block: Block, t: Floats, problem: Problem) -> Weighed:
        """min(0, log ρ − log β) plus the base."""
        ratio, base = scores(block)
        log_w = base + np.clip(ratio - t[:, None], -np.inf, 0.0)  # faster than np.minimum
        return Weighed(log_w, log_w)

    def gather(self, constraints: tuple[Constraint, ...]) -> Pass:
        """Bins of the rows."""
        return _binning(partial(_of_rows, constraints))

    def sums(self, problem: Problem, t: Floats) -> dict[str, Any]:
        """By bins of log ρ, once for all betas of the grid."""
        binned, found = self.gathered(problem)["bins"], []
        if binned.base[0] > WIDE:  # e^base leaves the range of floats
            return super().sums(problem, t)
        plain, *logs = binned.log_sums(t)
        for each in problem.constraints:
            found.append((plain if each.ratio_error == 1 else logs.pop(0), logs.pop(0)))
        return {"sums": np.array(found), "most": binned.base[1] + np.minimum(binned.high - t, 0.0)}

    def log_limit(self, problem: Problem, t: Floats) -> Floats:
        """An infinite ratio has the weight 1 in the unit of these weights."""
        return np.zeros(t.shape)

    def log_unit(self, problem: Problem, t: Floats) -> Floats:
        """Log of ψ(β)/β, by bins of draws, or else of rows; exact at its ends, two policies."""
        (source, count), found = self.source(problem), None
        if problem.drawn is not None:
            found = self.once("psi", source, _binning(partial(_of_draws, problem.drawn)))
        binned = (found or self.gathered(problem))["bins"]
        wide = max(-binned.first / FINEST, binned.high) > WIDE  # ψ leaves the range of floats
        logs = super().log_unit(problem, t) if wide else binned.log_sums(t)[0] - np.log(count)
        return np.where(np.abs(t) == LAST, np.minimum(-t, 0.0), logs)


def _binning(amounts: Amounts) -> Pass:
    """The pass that bins rows."""
    return Pass(lambda block: {"bins": Binned.of(amounts, block)}, {"bins": "sum"})


def _of_rows(constraints: tuple[Constraint, ...], block: Block, base: Floats) -> list[Floats]:
    """What rows add: 1 each, and for every loss its amounts, without a weight that is 1."""
    found = [np.ones(len(base))]
    for each in constraints:
        found += each.amounts(block)[each.ratio_error == 1 :]
    if "log_mix" not in block:
        return found
    weight = np.exp(base)
    return [amount * weight for amount in found]


def _of_draws(drawn: Floats, block: Block, base: Floats) -> list[Floats]:
    """What draws add to ψ: the safe density over that of all draws, without any blend."""
    ratio = block.get("log_drawn", block["log_optimized"]) - block["log_safe"]
    with np.errstate(over="ignore", invalid="ignore"):
        return [1 / (drawn[0] + drawn[1] * np.exp(ratio))]


class MixKernel(OnePassKernel):
    """(safe + β·optimized)/(1 + β), with contexts or without: two sums, linear in β."""

    def weigh(self, block: Block, t: Floats, problem: Problem) -> Weighed:
        """The weighted average of both policies over the mixture."""
        ratio, base = scores(block)
        log_w = base + along(0.0, ratio, t[:, None])
        return Weighed(log_w, log_w)

    def gather(self, constraints: tuple[Constraint, ...]) -> Pass:
        """Both sums."""

        def kernel(block: Block) -> dict[str, Any]:
            ratio, base = scores(block)
            return _log_dots(np.array([base, base + ratio]), block, constraints)

        return Pass(kernel, {"sums": "logsum", "most": "max"})

    def sums(self, problem: Problem, t: Floats) -> dict[str, Any]:
        """Linear in β."""
        found = self.gathered(problem)
        level, slope = np.moveaxis(found["sums"][..., None], 2, 0)
        most = along(found["most"][0], found["most"][1], t)
        return {"sums": along(level, slope, t), "most": most}

    def log_limit(self, problem: Problem, t: Floats) -> Floats:
        """The weight at the largest ratio that the log states."""
        return np.asarray(along(0.0, np.log(problem.max_ratio), t))


def along(level: Any, slope: Any, t: Any) -> Any:
    """Log of (level + β·slope)/(1 + β), from logs."""
    return log_add(level, slope + t) - np.logaddexp(0.0, t)


def front(draws: Rows) -> Rows:
    """The few draws that can be the heaviest at some beta: one pass over the draws.

    Draws are binned by ratio in steps of 1/128, of which all points of the grid are multiples: so
    the largest weight of clip is exact, and that of mix at most 0.8 % too large.
    """

    def largest(base: Floats, rise: Floats) -> Floats:
        if base.min() == base.max():
            return np.array([base[:1], rise.max(keepdims=True)])
        base, rise = base[base > -np.inf], rise[base > -np.inf]
        cell = np.floor(np.maximum(rise - base, -LAST) * FINEST).astype(np.int64)
        cell -= cell.min()
        most = np.full((2, cell.max() + 1), -np.inf)
        for each, values in zip(most, (base, rise), strict=True):
            np.maximum.at(each, cell, values)
        return np.asarray(most[:, most[0] > -np.inf])

    def kernel(block: Block) -> dict[str, Any]:
        ratio, base = scores(block)
        return {"points": largest(base, base + ratio)}

    base, rise = largest(*draws.reduce(kernel, {"points": "concat"}, BLOCK)["points"])
    if rise.max() == -np.inf:
        raise ValueError("proposals: no draw is possible under both policies")
    return Rows({"log_safe": base, "log_optimized": rise, "log_mix": np.zeros(len(base))})


# ---- tables of all actions ---------------------------------------------------------------------


class TableKernel(Kernel):
    """Clip in contexts, with tables of all actions in every row: ψ(β, x) is a sum over them.

    With a budget, the safe policy acts after that many rejected proposals: c·clip + (1 − c)·safe
    with c = 1 − (1 − p)^N and p the acceptance rate.
    """

    candidates = True

    def __init__(self, budget: int | None = None) -> None:
        self.budget = budget

    def weigh(self, block: Block, t: Floats, problem: Problem) -> Weighed:
        """Weights with the exact normalizing constant of every row."""
        (ratio, base), (ratios, bases) = scores(block), scores(block, "_all")
        low, high = ends(ratios)
        near, place = told_apart(t, low, high)
        at, safe, optimized = near[:, None], block["log_safe_all"], block["log_optimized_all"]
        if max(low, high) > WIDE:  # ψ/β may leave the range of floats
            each = (np.minimum(ratios - log_beta, 0.0) + safe for log_beta in near)
            log_psi = np.array([np.logaddexp.reduce(one, axis=1) for one in each])
        else:
            safe, optimized = (np.exp(each.T, order="C") for each in (safe, optimized))
            each = (np.minimum(optimized * inverse, safe).sum(axis=0) for inverse in np.exp(-near))
            log_psi = log_of(np.array(list(each)))
        accepted = np.minimum(log_psi + np.maximum(at, 0.0), 0.0)
        draws, against_safe = -accepted, partial(_clipped, at, log_psi)
        if self.budget is not None:
            draws, fallback = exact_averages(accepted, self.budget)
            against_safe = partial(budgeted, at, draws, fallback)
        past: Floats | float = 0.0
        if problem.test_weight == "analytic":  # its limit goes on growing with β past all ratios
            most = against_safe(np.inf)
            past = np.maximum(t - near[-1], 0.0) - np.log(problem.safe_share)
        elif "log_mix_all" in block:
            most = heaviest(against_safe, ratios, bases)
        else:  # weights grow with the ratio
            most = against_safe(ratios.max(axis=1))
        return Weighed(base + against_safe(ratio), most, draws, place, past)


def _clipped(at: Floats, log_psi: Floats, ratio: Any) -> Floats:
    """Logs of clip over safe density at log ratios, with ψ/β."""
    return np.asarray(np.minimum(ratio - at, 0.0) - log_psi)


def budgeted(at: Floats, tries: Floats, fallback: Floats, ratio: Any) -> Floats:
    """Logs of S·min(ρ, β)/min(β, 1) + D, budgeted clip over safe density."""
    return np.asarray(log_add(np.minimum(ratio, at) - np.minimum(at, 0.0) + tries, fallback))


def heaviest(against_safe: Callable[[Any], Floats], ratios: Floats, bases: Floats) -> Floats:
    """Each row's heaviest candidate (betas × rows), of log ratios and bases (rows × candidates)."""
    return reduce(np.maximum, (b + against_safe(r) for r, b in zip(ratios.T, bases.T, strict=True)))


def ends(ratio: Floats) -> tuple[float, float]:
    """Minus the smallest finite number, and the largest one."""
    low = ratio.min()
    if low == -np.inf:
        low = ratio.min(initial=np.inf, where=ratio > -np.inf)
    return float(-low), float(ratio.max())


def told_apart(t: Floats, low: float, high: float) -> tuple[Floats, Integers]:
    """The betas that ratios in [−low, high] tell apart, and each beta's place among them."""
    first = int(np.clip(np.searchsorted(t, -low, side="right") - 1, 0, len(t) - 1))
    stop = int(np.clip(np.searchsorted(t, high) + 1, first + 1, len(t)))
    near = np.clip(t[first:stop], -low - MARGIN, high + MARGIN)
    return near, np.clip(np.arange(len(t)) - first, 0, stop - first - 1)


# ---- a path, and a user's own family -----------------------------------------------------------


class PathKernel(Kernel):
    """A family with its own log-density (`log_path`, rows × betas) at its own log betas.

    After these comes +inf, the optimized policy. With draws of the policies along the path
    (`drawn_at`), those that made draws may be chosen; the test weight at one of them is the largest
    among the draws of its own policy and of those below it.
    """

    nested = False

    def __init__(self, log_betas: Floats, levels: Integers | None = None) -> None:
        self.every = np.append(log_betas, np.inf)
        self.coarse = self.every if levels is None else self.every[levels]

    def weigh(self, block: Block, t: Floats, problem: Problem) -> Weighed:
        """The path's own densities over the mixture."""
        table = [block[name] for name in ("log_safe", "log_path", "log_optimized")]
        place = np.searchsorted(self.every, t, side="right")
        log_mix = block.get("log_mix", block["log_safe"])
        with np.errstate(invalid="ignore", over="ignore"):
            log_w = np.column_stack(table).T[place] - log_mix
        log_w = np.where(np.isnan(log_w), -np.inf, log_w)
        if log_w.max() == np.inf:
            raise ValueError(
                "log_safe: a draw is an action that the log's policies never take: the safe policy "
                "must be able to take every action of the optimized one (absolute continuity)"
            )
        drawn, level = block.get("drawn_at", np.full(1, np.inf)), np.maximum(t, self.coarse[0])
        return Weighed(log_w, np.where(drawn <= level[:, None], log_w, -np.inf))


class OwnKernel(Kernel):
    """A family of which only its kernel or its density is known.

    With tables ψ(β, x) is a sum over actions; without contexts it cancels. A normalized family
    needs neither. At the ends of the grid the family is the safe and the optimized policy.
    """

    def __init__(self, family: Family, *, tables: bool) -> None:
        self.family, self.tables = family, tables
        self.known = family.normalized or tables
        self.candidates = tables
        self.smoothness = None if self.known else family.smoothness

    def log_density(
        self, safe: Floats, optimized: Floats, log_beta: float, log_psi: Floats | float = 0.0
    ) -> Floats:
        """The density, −inf where safe is; the kernel where ψ cancels."""
        with np.errstate(invalid="ignore", over="ignore"):
            if abs(log_beta) == LAST:
                return limit_density(safe, optimized, log_beta)
            found = self.family.log_density(safe, optimized, float(log_beta), log_psi)
        found = np.where(safe > -np.inf, found, -np.inf)
        if np.isnan(found).any():
            raise ValueError(f"family {self.family.name!r} has a density of NaN at {log_beta=}")
        return found

    def log_unit(self, problem: Problem, t: Floats) -> Floats:
        """At its ends the family is a policy: its constant is 1."""
        return np.where(np.abs(t) == LAST, 0.0, super().log_unit(problem, t))

    def log_psi(self, block: Block, log_beta: float) -> Floats | float:
        """The log of the sum of the kernel over all actions of each row, where it is needed."""
        if not self.tables or self.family.normalized or abs(log_beta) == LAST:
            return 0.0
        safe, optimized = block["log_safe_all"], block["log_optimized_all"]
        with np.errstate(invalid="ignore", over="ignore"):
            kernel = self.family.log_kernel(safe, optimized, float(log_beta))
        logs = np.where(safe > -np.inf, kernel, -np.inf)
        return np.asarray(np.logaddexp.reduce(logs, axis=1, keepdims=True))

    def weigh(self, block: Block, t: Floats, problem: Problem) -> Weighed:
        """One beta after the other."""
        log_w, most = np.empty((2, len(t), len(block["log_safe"])))

        def against_mixture(end: str, log_beta: float, log_psi: Floats | float) -> Floats:
            scores = block["log_safe" + end], block["log_optimized" + end]
            log_mix = block.get("log_mix" + end, scores[0])
            density = self.log_density(*scores, log_beta, log_psi)
            return density - np.where(density > -np.inf, log_mix, 0.0)

        for k, log_beta in enumerate(t):
            log_psi = self.log_psi(block, log_beta)
            log_w[k] = against_mixture("", log_beta, np.ravel(log_psi))
            if self.tables and problem.test_weight == "analytic":
                limit = self.log_density(np.zeros(1), np.full(1, np.inf), log_beta, log_psi)
                most[k] = np.ravel(limit) - np.log(problem.safe_share)
            elif self.tables:
                most[k] = against_mixture("_all", log_beta, log_psi).max(axis=1)
        return Weighed(log_w, most if self.tables else log_w, np.full((1, 1), np.nan))

    def log_limit(self, problem: Problem, t: Floats) -> Floats:
        """The weight of an infinite ratio, or of the largest that the log states."""
        ratio = np.full(1, np.log(problem.max_ratio))
        return np.array([self.log_density(np.zeros(1), ratio, each)[0] for each in t])
