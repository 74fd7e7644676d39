"""What the methods differ in: where each stops, and what it promises there.

*The soft chain on thresholds.* The theorem of `tether.control.chain` is about candidates that are
fixed before the data are seen. Scores are data, and thresholds chosen by their rank are not fixed:
a chain over every tenth score skips the capitals of the nine between. But all real numbers are
candidates that are fixed. The losses of n items, and so the capital C(λ) = Π (1 − t·(L_i(λ) − a)),
change only at observed scores: the capital of any λ is that of the next score on its safe side. So

    S(λ) = min(1, inf of C over all real numbers at least as safe as λ)

is a running minimum over *all* observed scores. A threshold Λ that is at least as bold as λ with
probability S(λ) given the data, or any smaller function that falls as λ gets bolder, keeps the
promise. *Proof.* Let R(λ) be the expected loss of a new item, R_0 that of the safest threshold, and
M(λ) the largest R at any threshold at least as safe as λ. Given the data the expected loss is at
most E[M(Λ)] = R_0 + ∫ S(λ) dM(λ). For every fixed λ, E[S(λ)] ≤ f(R(λ)) as in the theorem, f does
not increase, and where M grows it is R (or its limit), so that the expectation is at most
R_0 + ∫ f(r) dr over r ≥ R_0, which is at most p where R_0 ≤ a. ∎ Nothing is assumed of the scale of
scores, of ties, or of the shape of R. Where the safest threshold keeps nothing, R_0 is 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tether._core.arrays import Floats, Integers, within_limit
from tether._core.promises import SafeMean
from tether.control.chain import design, factors, soft_chain
from tether.thresholds import p_values
from tether.thresholds.selection import ThresholdChain
from tether.thresholds.sweep import Sweep

SHARE_STEPS = 1024
"""Shares are rounded down to multiples of 1 / 1024, so that a saved chain has few thresholds."""
NEAR_PROMISE = 0.98
"""The level for losses whose means are all near the promise, as a share of it, at least."""
LOWEST = 1e-300
"""Stands for factors of 0, so that sums of differences of logs stay finite."""
FIRST_BATCH, LARGEST_CELLS = 64, 1 << 21
"""Candidates tested at once along a fixed sequence, and items × candidates in memory at most."""
ON_AVERAGE = "on average over calibration sets like this one,"


class Stop(NamedTuple):
    """The place of the chosen candidate (−1: none passes), and what else the result records."""

    place: int
    recorded: dict[str, Any]


class Promise(NamedTuple):
    """The stated bound on the expected loss, the statement, and the stability term in it."""

    value: float
    statement: str
    stability_term: float = 0.0


@dataclass(frozen=True)
class Rule:
    """CRC, also on losses made monotone, and gCRC: the test item counts at the bound."""

    method: str
    kind: str = "alpha"
    envelope: bool = False  # whether losses are made monotone
    lipschitz: float | None = None

    def stops(self, sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[Stop]:
        """The chosen candidate of each loss."""
        stops = []
        for sweep, alpha in zip(sweeps, alphas, strict=True):
            if sweep.among_selected:
                raise ValueError(
                    f"{self.method} promises nothing about {sweep.loss!r}, a rate among the "
                    "selected: use ltt"
                )
            passed = within_limit(sweep.risks(envelope=self.envelope), alpha)
            if self.method == "gCRC":
                passed = np.logical_and.accumulate(passed)
            found = np.flatnonzero(passed)
            stops.append(Stop(int(found[-1]) if len(found) else -1, {}))
        return stops

    def promise(
        self, sweep: Sweep, alpha: float, measured: float | None, safest: SafeMean | None
    ) -> Promise:
        """Alpha with its other terms, which are named where they can be seen, or nothing."""
        steady, none = sweep.monotone or self.envelope, ""
        if sweep.weighted and sweep.weights.test is None:
            none = (
                "future items may weigh more than all of these, and no data can say how many do; "
                "pass test_weight, the largest weight that an item can have"
            )
        elif not steady and self.method != "gCRC":
            none = (
                f"however small the risk looks, the loss {sweep.loss!r} can fall as the threshold "
                f"gets bolder (here {sweep.n_nonmonotone:,} of {sweep.n_items:,} do): use gcrc, "
                "monotonized_crc or ltt"
            )
        elif not steady and measured is None:
            none = (
                "the losses are not monotone, and the stability of the threshold is measured for "
                "equally weighted items with the same candidates only; use monotonized_crc"
            )
        if none:
            return Promise(sweep.bound, f"none: {none}")
        added = 0.0 if steady or measured is None else measured
        existence = 0.0 if safest is None else safest.excess_where_passing(alpha)
        value = min(sweep.bound, alpha + added + existence)
        statement = f"{ON_AVERAGE} expected loss ≤ {value:g}"
        if f"{value:g}" != f"{alpha:g}":
            terms = [f"alpha {alpha:g}"]
            if added > 0:
                terms.append(f"{added:.3g} for the stability of the threshold")
            if f"{alpha + existence:g}" != f"{alpha:g}":
                terms.append(f"{existence:.3g} for data on which nothing passes")
            statement += f" ({' + '.join(terms)}, estimated from these items)"
        items = "items exchangeable after weighting" if sweep.weighted else "exchangeable items"
        losses = f"any losses in [0, {sweep.bound:g}]"
        if sweep.monotone:
            losses = "losses monotone in the threshold"
        elif self.lipschitz is not None:
            losses = f"losses {self.lipschitz:g}-Lipschitz in the threshold"
        return Promise(value, f"{statement}, for {items} and {losses}", added)


@dataclass(frozen=True)
class Chain(Rule):
    """The soft chain: a promise that is proved, with no estimated term."""

    method: str = "soft chain"
    kind: str = "promise"
    spread: bool = False
    seed: int = 0

    def stops(self, sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[Stop]:
        """The threshold that the recorded draw serves; −1 where there are too few items."""
        shares, designs = np.ones(len(sweeps[0].thresholds)), []
        for sweep, promise in zip(sweeps, alphas, strict=True):
            if sweep.weighted or sweep.among_selected:
                kind = "weighted items" if sweep.weighted else repr(sweep.loss)
                raise ValueError(
                    f"promise cannot be held for {kind}: the chain needs losses of single items, "
                    "equally weighted; pass alpha"
                )
            if not np.array_equal(sweep.thresholds, sweeps[0].thresholds):
                raise ValueError("promise for several losses needs the same candidates for each")
            designs.append(_design(sweep, promise))
            if designs[-1][0] <= 0:  # too few items
                return [Stop(-1, {})] * len(sweeps)
            found = factors(sweep.pieces.level, 1.0, 1.0, *designs[-1], sweep.bound)
            logs = sweep.pieces.sums(np.log(np.maximum(found, LOWEST)))
            shares = np.minimum(shares, soft_chain(logs))
        shares = np.floor(shares * SHARE_STEPS) / SHARE_STEPS
        shares[0] = 1.0  # the safest threshold is served where nothing else is
        uniform = 1.0 - float(_generator(sweeps, self.seed, list(alphas)).random())
        last = shares > np.append(shares[1:], 0.0)
        served: Any = uniform, self.spread, sweeps[0].thresholds[last], shares[last]
        place = int(np.count_nonzero(shares >= uniform)) - 1
        return [Stop(place, {"chain": ThresholdChain(*each, *served)}) for each in designs]

    def promise(
        self, sweep: Sweep, alpha: float, measured: float | None, safest: SafeMean | None
    ) -> Promise:
        """The promise that was asked for, and the condition."""
        condition = ""
        if safest is not None:
            level = _design(sweep, alpha)[0]
            here = f"{safest.mean:.4g} ± {safest.standard_error:.2g}"
            condition = f" if the safest threshold costs at most {level:.4g} (here {here}),"
        return Promise(
            alpha,
            f"{ON_AVERAGE}{condition} expected loss ≤ {alpha:g}, for independent items, their "
            f"number fixed beforehand, and any losses in [0, {sweep.bound:g}]",
        )


def _generator(sweeps: Sequence[Sweep], *said: Any) -> np.random.Generator:
    """A generator that is seeded with a hash of the losses, and of what is said beside them.

    What is drawn must be independent of the data, and a seed alone would draw the same on all of
    them. A hash is as good as independent, and calibrating again draws nothing new.
    """
    arrays = (a for s in sweeps for a in (s.thresholds, s.pieces.start, s.pieces.level))
    content = hashlib.sha256(repr(said).encode() + b"".join(each.tobytes() for each in arrays))
    return np.random.default_rng(np.frombuffer(content.digest(), dtype=np.uint32))


def _design(sweep: Sweep, promise: float) -> tuple[float, float]:
    """The level and the stake of the chain, from the number of items and the kind of loss alone.

    All means of `FalseAmongShown` are near its share, and its losses vary little: a level near the
    promise, with a large stake, serves it.
    """
    near = None if sweep.shown is None else NEAR_PROMISE * promise
    return design(sweep.n_items, promise, sweep.bound, near)


@dataclass(frozen=True)
class LearnThenTest(Rule):
    """Learn then Test: alpha with a probability."""

    method: str = "LTT"
    kind: str = "confidence"
    confidence: float = 0.9
    procedure: str = "fixed_sequence"
    pvalue: str | None = None

    def stops(self, sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[Stop]:
        """The boldest candidate that testing establishes."""
        stops, values, error = [], [], 1 - self.confidence
        for sweep, alpha in zip(sweeps, alphas, strict=True):
            kind = self.pvalue or ("binomial" if sweep.binary else "betting")
            self._require_testable(sweep, sweeps[0])
            test = _PValues(sweep, alpha / sweep.bound, kind)
            told = f"{kind} p-values, {self.procedure.replace('_', ' ')}"
            place = -1
            if self.procedure == "bonferroni":
                level = error / len(sweep.thresholds)
                values.append(test.at(slice(0, len(sweep.thresholds)), level))
            else:
                place = test.walk(error)
            stops.append(Stop(place, {"confidence": self.confidence, "test": told}))
        if values:  # a threshold passes only if every loss does: the largest p-value counts
            passed = np.flatnonzero(within_limit(np.max(values, axis=0), error / len(values[0])))
            place = int(passed[-1]) if len(passed) else -1
            stops = [stop._replace(place=place) for stop in stops]
        return stops

    def _require_testable(self, sweep: Sweep, first: Sweep) -> None:
        if sweep.weighted:
            raise ValueError("ltt needs unweighted items; this sweep has weights: use gcrc or crc")
        same = np.array_equal(sweep.thresholds, first.thresholds)
        if self.procedure == "bonferroni" and (sweep.exact or not same):
            raise ValueError(
                "procedure = 'bonferroni' needs thresholds chosen before the data are seen, the "
                "same for every loss"
            )
        if sweep.among_selected and sweep.exact:
            raise ValueError(
                f"loss = {sweep.loss!r} is a rate among the selected: pass thresholds, the largest "
                "of which selects enough items"
            )
        levels = sweep.pieces.level
        if self.pvalue == "binomial" and ((levels > 0) & (levels < sweep.bound)).any():
            raise ValueError("pvalue = 'binomial' is for losses that are 0 or the bound only")

    def promise(
        self, sweep: Sweep, alpha: float, measured: float | None, safest: SafeMean | None
    ) -> Promise:
        """Alpha with a probability."""
        promised = f"expected loss ≤ {alpha:g}"
        if sweep.among_selected:
            promised = f"a selected item is false with probability ≤ {alpha:g}"
        return Promise(
            alpha,
            f"with probability at least {self.confidence:g} over the calibration items, "
            f"{promised}, for independent, identically distributed items",
        )


class _PValues:
    """The p-values of one loss, with losses scaled to [0, 1]."""

    def __init__(self, sweep: Sweep, alpha: float, kind: str) -> None:
        self.sweep, self.alpha, self.kind = sweep, alpha, kind
        self.order: Integers | None = None  # of the items, for stakes that adapt to them
        if kind == "betting" and sweep.n_items <= p_values.MOST_ADAPTIVE_ITEMS:
            self.order = _generator([sweep], alpha).permutation(sweep.n_items)  # may be sorted

    def walk(self, error: float) -> int:
        """Test one candidate after another, safest first, until one is not shown to pass."""
        first, count = 0, len(self.sweep.thresholds)
        width = count if self.order is None else FIRST_BATCH
        while first < count:
            where = slice(first, min(first + width, count))
            failed = ~within_limit(self.at(where, error), error)
            if failed.any():
                return first + int(np.argmax(failed)) - 1
            first, width = where.stop, min(2 * width, LARGEST_CELLS // self.sweep.n_items)
        return count - 1

    def at(self, where: slice, error: float) -> Floats:
        """P-values at some candidates, for tests at the level `error`."""
        sweep, alpha, pieces = self.sweep, self.alpha, self.sweep.pieces
        total = sweep.total[where]
        if self.kind != "betting":
            test = p_values.binomial if self.kind == "binomial" else p_values.hoeffding_bentkus
            return test(sweep.sums[where] / sweep.bound, total, alpha)
        if self.order is not None:
            losses = pieces.table(where)[self.order] / sweep.bound
            return p_values.betting(losses, alpha, error, total)
        scaled = np.where(np.isnan(pieces.level), alpha, pieces.level / sweep.bound)
        stakes = p_values.fixed_stakes(alpha, error, sweep.n_items)
        wealth = [np.exp(pieces.sums(np.log1p(-t * (scaled - alpha)))[where]) for t in stakes]
        return np.asarray(1 / np.mean(wealth, axis=0))
