"""What the methods differ in: where each stops, and what it promises there.

*The soft chain on thresholds.* The theorem of `tether.control.chain` is about a sequence of
candidates that is fixed before the data are seen. Scores are data, and thresholds chosen by their
rank are not fixed: a chain over every tenth score skips the capitals of the nine between. But every
real number may be a candidate, and they are fixed. The losses of n items, and so the capital
C(λ) = Π (1 − t·(L_i(λ) − a)), change only at observed scores: the capital of any λ is that of the
next score on its safe side. So

    S(λ) = min(1, inf of C over all real numbers at least as safe as λ)

is a running minimum over *all* observed scores, and a threshold Λ with P(Λ at least as bold as λ |
data) = S(λ), or any smaller function that falls as λ gets bolder, keeps the promise. *Proof.* Let
R(λ) be the expected loss of a new item, R_0 that of the safest threshold, and M(λ) the largest R at
any threshold at least as safe as λ. Given the data the expected loss is at most
E[M(Λ)] = R_0 + ∫ S(λ) dM(λ). For every fixed λ, E[S(λ)] ≤ f(R(λ)) as in the theorem, f does not
increase, and where M grows it is R (or its limit), so that the expectation is at most
R_0 + ∫ f(r) dr over r ≥ R_0, which is at most p where R_0 ≤ a. ∎ Nothing is assumed of the scale of
scores, of ties, or of the shape of R. Where nothing is kept at the safest threshold, R_0 is 0 and
the condition always holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tether._core.counted import counted
from tether._core.safe_excess import SafeMean
from tether._core.ties import within_limit
from tether._core.types import Floats, Integers
from tether.control.chain import design, log_factor, soft_chain
from tether.thresholds import p_values, stability
from tether.thresholds.selection import Stability, ThresholdChain
from tether.thresholds.sweep import Sweep

SHARE_STEPS = 1024
"""Shares are rounded down to multiples of 1 / 1024, so that a saved chain has few thresholds."""
FIRST_BATCH, LARGEST_CELLS = 64, 1 << 21
"""Candidates tested at once along a fixed sequence, and items × candidates in memory at most."""


class Stop(NamedTuple):
    """The index of the chosen candidate (−1: none passes), and what else the result records."""

    index: int
    recorded: dict[str, Any]


class Promise(NamedTuple):
    """The stated bound on the expected loss, the statement, and the stability term in it."""

    value: float
    statement: str
    stability_term: float = 0.0


@dataclass(frozen=True)
class Rule:
    """A method in expectation, with the test item counted at the bound."""

    method: str
    argument: str = "alpha"
    boldest: bool = False  # whether candidates behind one that fails count
    envelope: bool = False  # whether losses are made monotone
    pools: bool = True  # whether small groups may share a threshold

    def stops(self, sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[Stop]:
        """The chosen candidate of each loss."""
        return [
            Stop(self._index(each, alpha), {}) for each, alpha in zip(sweeps, alphas, strict=True)
        ]

    def _index(self, sweep: Sweep, alpha: float) -> int:
        passed = sweep.passes(alpha, sweep.envelope if self.envelope else None)
        if self.boldest:
            return int(np.flatnonzero(passed)[-1]) if passed.any() else -1
        _require_selected_start(sweep)
        return int(np.argmin(passed)) - 1 if not passed.all() else len(passed) - 1

    def measure(
        self, sweeps: Sequence[Sweep], alphas: Sequence[float]
    ) -> Sequence[Stability | None]:
        """The stability of the threshold, where the promise needs it."""
        return [None] * len(sweeps)

    def promise(
        self, sweep: Sweep, alpha: float, measured: Stability | None, safest: SafeMean | None
    ) -> Promise:
        """What is promised where a threshold passes."""
        if sweep.weights.is_test_assumed:
            return Promise(
                sweep.bound,
                "none: future items may weigh more than all of these, and no data can tell how "
                "many do; pass test_weight (log_test_weight with log_weights), the largest weight "
                "that an item can have",
            )
        if not self.envelope and not sweep.monotone:
            return Promise(sweep.bound, "none: the losses are not monotone in the threshold")
        shape = "losses monotone in the threshold"
        return _with_terms(sweep, alpha, 0.0, safest, _any(sweep) if self.envelope else shape)

    def too_few(self, sweep: Sweep, alpha: float) -> str | None:
        """Why no threshold could pass, whatever the losses; None if one could."""
        total = sweep.total if isinstance(sweep.total, float) else float(sweep.total[0])
        least = sweep.test_weight * sweep.bound / (total + sweep.test_weight)
        if least <= alpha:
            return None
        return (
            f"with {_counted_items(sweep)} the risk with one more item at the worst is at least "
            f"{least:.4g} even with no loss at all, above {self.argument} {alpha:g}"
        )

    def warnings(self, sweep: Sweep) -> tuple[str, ...]:
        """Why the method promises nothing."""
        if self.envelope or not self.boldest or sweep.monotone:
            return ()
        falls = f"that of {sweep.n_nonmonotone:,} of {counted(sweep.n_items, 'item')} does"
        if not sweep.n_nonmonotone:
            falls = "although it does for none of these items"
        return (
            f"the loss {sweep.loss!r} can fall as the threshold gets bolder ({falls}), and CRC "
            "promises nothing then, however small the risk looks: use gcrc, monotonized_crc or ltt",
        )


@dataclass(frozen=True)
class Generalized(Rule):
    """gCRC: alpha and the stability of the threshold, which is 0 where losses are monotone."""

    lipschitz: float | None = None
    measured: bool = True

    def measure(
        self, sweeps: Sequence[Sweep], alphas: Sequence[float]
    ) -> Sequence[Stability | None]:
        """The stability of the threshold."""
        if not self.measured:
            return [None] * len(sweeps)
        found = stability.measure(sweeps, alphas, self.lipschitz)
        if self.lipschitz is not None and (len(sweeps) > 1 or found[0] is None):
            raise ValueError(
                f"lipschitz = {self.lipschitz:g} is for one loss of unweighted items: no move of "
                "the threshold is measured otherwise"
            )
        return found

    def promise(
        self, sweep: Sweep, alpha: float, measured: Stability | None, safest: SafeMean | None
    ) -> Promise:
        """What is promised where a threshold passes."""
        if sweep.monotone or sweep.weights.is_test_assumed:
            return super().promise(sweep, alpha, measured, safest)
        if sweep.among_selected:
            return Promise(
                sweep.bound,
                f"none for this data: in the long run a share of at most {alpha:g} of the selected "
                "items is false, up to the stability of the threshold, which is not measured for a "
                "rate among the selected; ltt promises it with a confidence",
            )
        if measured is None:
            return Promise(
                sweep.bound,
                f"expected loss ≤ {alpha:g} + stability, and the stability of the threshold was "
                "not measured",
            )
        assumed = _any(sweep)
        if measured.lipschitz is not None:
            assumed = f"losses {measured.lipschitz:g}-Lipschitz in the threshold"
        return _with_terms(sweep, alpha, measured.term, safest, assumed)


@dataclass(frozen=True)
class Chain(Rule):
    """The soft chain: a promise that is proved, with no estimated term."""

    spread: bool = False
    seed: int = 0

    def stops(self, sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[Stop]:
        """The threshold that the recorded draw serves; −1 where there are too few items."""
        for sweep in sweeps:
            if sweep.weighted or sweep.among_selected:
                kind = "weighted items" if sweep.weighted else f"{sweep.loss!r}"
                raise ValueError(
                    f"promise cannot be held for {kind}: the chain needs losses of single items, "
                    "equally weighted; pass alpha"
                )
            if not np.array_equal(sweep.thresholds, sweeps[0].thresholds):
                raise ValueError("promise for several losses needs the same candidates for each")
        designs, shares = [], np.ones(len(sweeps[0].thresholds))
        for sweep, promise in zip(sweeps, alphas, strict=True):
            level, stake = design(sweep.n_items, promise, sweep.bound)
            designs.append((level, stake))
            if level <= 0:
                return [Stop(-1, {})] * len(sweeps)
            factors = log_factor(sweep.pieces.level, 1.0, 1.0, level, stake, sweep.bound)
            shares = np.minimum(shares, soft_chain(sweep.pieces.sums(factors)))
        shares = np.floor(shares * SHARE_STEPS) / SHARE_STEPS
        shares[0] = 1.0  # the safest threshold is served where nothing else is
        uniform = _uniform(self.seed, sweeps, alphas)
        ends = np.flatnonzero(shares > np.append(shares[1:], 0.0))
        thresholds = sweeps[0].thresholds[ends]
        chains = [
            ThresholdChain(level, stake, uniform, self.spread, thresholds, shares[ends])
            for level, stake in designs
        ]
        index = int(np.count_nonzero(shares >= uniform)) - 1
        return [Stop(index, {"chain": chain}) for chain in chains]

    def promise(
        self, sweep: Sweep, alpha: float, measured: Stability | None, safest: SafeMean | None
    ) -> Promise:
        """What is promised, and the condition."""
        level, _ = design(sweep.n_items, alpha, sweep.bound)
        condition = ""
        if safest is not None:
            condition = (
                f" if the safest threshold itself costs at most {level:.4g} (here "
                f"{safest.mean:.4g} ± {safest.standard_error:.2g}),"
            )
        return Promise(
            alpha,
            f"on average over calibration sets like this one,{condition} expected loss ≤ "
            f"{alpha:g}, for independent items whose number was fixed beforehand and {_any(sweep)}",
        )

    def too_few(self, sweep: Sweep, alpha: float) -> str | None:
        """Why no threshold could be served."""
        if design(sweep.n_items, alpha, sweep.bound)[0] > 0:
            return None
        return f"{_counted_items(sweep)} are too few for a promise of {alpha:g}"

    def warnings(self, sweep: Sweep) -> tuple[str, ...]:
        """Nothing that the chain promises depends on the shape of losses."""
        return ()


@dataclass(frozen=True)
class LearnThenTest(Rule):
    """Learn then Test: alpha with a probability."""

    confidence: float = 0.9
    procedure: str = "fixed_sequence"
    pvalue: str | None = None
    rng: np.random.Generator | None = field(default=None, compare=False)

    @property
    def error(self) -> float:
        """The probability with which the promise may fail."""
        return 1 - self.confidence

    def kind(self, sweep: Sweep) -> str:
        """The p-value: by betting, unless losses are 0 or 1 by definition."""
        return self.pvalue or ("binomial" if sweep.binary else "betting")

    def stops(self, sweeps: Sequence[Sweep], alphas: Sequence[float]) -> list[Stop]:
        """The boldest candidate that testing establishes."""
        for sweep in sweeps:
            self._require_testable(sweep)
        pairs = list(zip(sweeps, alphas, strict=True))
        recorded: list[dict[str, Any]] = [
            {
                "confidence": self.confidence,
                "test": f"{self.kind(each)} p-values, {self.procedure.replace('_', ' ')}",
            }
            for each in sweeps
        ]
        if self.procedure == "fixed_sequence":
            found = [self._walk(sweep, alpha, self._shuffle(sweep)) for sweep, alpha in pairs]
            return [Stop(*pair) for pair in zip(found, recorded, strict=True)]
        count = len(sweeps[0].thresholds)
        if not all(np.array_equal(each.thresholds, sweeps[0].thresholds) for each in sweeps):
            raise ValueError("procedure = 'bonferroni' needs the same thresholds for every loss")
        level, whole = self.error / count, slice(0, count)
        values = [
            self._p_values(sweep, alpha, level, whole, self._shuffle(sweep))
            for sweep, alpha in pairs
        ]
        # A threshold passes only if every loss does: its p-value is the largest of theirs.
        passed = np.flatnonzero(within_limit(np.max(values, axis=0), level))
        boldest = int(passed[-1]) if len(passed) else -1
        return [Stop(boldest, each) for each in recorded]

    def _require_testable(self, sweep: Sweep) -> None:
        if sweep.weighted:
            raise ValueError("ltt needs unweighted items; this sweep has weights: use gcrc or crc")
        if sweep.exact and self.procedure == "bonferroni":
            raise ValueError(
                "procedure = 'bonferroni' needs thresholds chosen before seeing the data; only "
                "'fixed_sequence' may test every score"
            )
        _require_selected_start(sweep)
        levels = sweep.pieces.level[~np.isnan(sweep.pieces.level)]
        if self.pvalue == "binomial" and ((levels != 0) & (levels != sweep.bound)).any():
            raise ValueError("pvalue = 'binomial' is for losses that are 0 or the bound only")

    def _shuffle(self, sweep: Sweep) -> Integers | None:
        """An order of the items that does not depend on their losses, for stakes that adapt."""
        if self.kind(sweep) != "betting" or sweep.n_items > p_values.MOST_ADAPTIVE_ITEMS:
            return None
        return (self.rng or np.random.default_rng(0)).permutation(sweep.n_items)

    def _walk(self, sweep: Sweep, alpha: float, shuffle: Integers | None) -> int:
        """Test one candidate after another, safest first, until one is not shown to pass."""
        first, count = 0, len(sweep.thresholds)
        width = count if shuffle is None else FIRST_BATCH
        while first < count:
            where = slice(first, min(first + width, count))
            values = self._p_values(sweep, alpha, self.error, where, shuffle)
            failed = ~within_limit(values, self.error)
            if failed.any():
                return first + int(np.argmax(failed)) - 1
            first, width = where.stop, min(2 * width, LARGEST_CELLS // sweep.n_items)
        return count - 1

    def _p_values(
        self, sweep: Sweep, alpha: float, level: float, where: slice, shuffle: Integers | None
    ) -> Floats:
        """P-values at some candidates, losses scaled to [0, 1]."""
        scaled, kind = alpha / sweep.bound, self.kind(sweep)
        total = sweep.total if isinstance(sweep.total, float) else sweep.total[where]
        if kind != "betting":
            test = p_values.binomial if kind == "binomial" else p_values.hoeffding_bentkus
            return test(sweep.sums[where] / sweep.bound, total, scaled)
        if shuffle is None:
            stake = p_values.fixed_stake(scaled, level, sweep.n_items)
            growth = np.log1p(-stake * (sweep.pieces.level / sweep.bound - scaled))
            return np.asarray(np.exp(-sweep.pieces.sums(np.nan_to_num(growth))[where]))
        losses = sweep.pieces.table(where)[shuffle] / sweep.bound
        return p_values.betting(losses, scaled, level, total)

    def promise(
        self, sweep: Sweep, alpha: float, measured: Stability | None, safest: SafeMean | None
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

    def too_few(self, sweep: Sweep, alpha: float) -> str | None:
        """Even items without any loss have a p-value of at least (1 − alpha/bound)^n."""
        tests = 1 if self.procedure == "fixed_sequence" else len(sweep.thresholds)
        count = sweep.n_items
        if not isinstance(sweep.total, float):
            count = int(sweep.total[0] if tests == 1 else sweep.total.max())
        smallest = (1 - alpha / sweep.bound) ** count
        if within_limit(smallest, self.error / tests):
            return None
        available = "1 − confidence" if tests == 1 else f"(1 − confidence) / {tests} thresholds"
        return (
            f"{_counted_items(sweep)} cannot show anything, even with no loss at all: "
            f"(1 − {alpha / sweep.bound:g})^{count} = {smallest:.4g} is above {available} "
            f"= {self.error / tests:.4g}"
        )

    def warnings(self, sweep: Sweep) -> tuple[str, ...]:
        """Nothing that is tested depends on the shape of losses."""
        return ()


def _with_terms(
    sweep: Sweep, alpha: float, added: float, safest: SafeMean | None, assumed: str
) -> Promise:
    """The sum of the three terms, which are named where they can be seen."""
    existence = 0.0 if safest is None else safest.excess_where_passing(alpha)
    value = min(sweep.bound, alpha + added + existence)
    statement = f"on average over calibration sets like this one, expected loss ≤ {value:g}"
    if f"{value:g}" != f"{alpha:g}":
        terms = [f"alpha {alpha:g}"]
        if added > 0:
            terms.append(f"{added:.3g} for the stability of the threshold")
        if f"{alpha + existence:g}" != f"{alpha:g}":
            terms.append(f"{existence:.3g} for data on which nothing passes")
        statement += f" ({' + '.join(terms)}, estimated from these items)"
    items = "items exchangeable after weighting" if sweep.weighted else "exchangeable items"
    return Promise(value, f"{statement}, for {items} and {assumed}", added)


def _any(sweep: Sweep) -> str:
    return f"any losses in [0, {sweep.bound:g}]"


def _counted_items(sweep: Sweep) -> str:
    if isinstance(sweep.total, float):
        return counted(sweep.n_items, "item")
    return f"{int(sweep.total[0]):,} selected at the safest threshold"


def _require_selected_start(sweep: Sweep) -> None:
    if sweep.among_selected and sweep.exact:
        raise ValueError(
            f"loss = {sweep.loss!r} is a rate among the selected, and this walk starts at +inf, "
            "where nothing is selected: pass thresholds, the largest of which selects enough "
            "items, or loss = 'false_positive' or 'false_negative'"
        )


def _uniform(seed: int, sweeps: Sequence[Sweep], alphas: Sequence[float]) -> float:
    """A number in (0, 1] from the seed and a hash of the losses.

    The draw must be independent of the data, and a seed alone would be the same number on all of
    them. A hash is as good as independent, and calibrating again draws nothing new.
    """
    content = hashlib.sha256(repr((seed, list(alphas))).encode())
    for sweep in sweeps:
        for array in (sweep.thresholds, sweep.pieces.start, sweep.pieces.level):
            content.update(np.ascontiguousarray(array))
    words = np.frombuffer(content.digest(), dtype=np.uint32)
    return 1.0 - float(np.random.default_rng(words).random())
