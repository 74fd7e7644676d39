"""Thresholds in simulated worlds whose true risk is known; `make validity` runs them.

Each world draws items, each method chooses a threshold from them, and the true risk there is
looked up. Methods in expectation promise a mean risk of at most alpha (the soft chain: of at most
the promise); Learn then Test that the risk exceeds alpha in at most a tenth of the repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

import tether
from benchmarks.cases import Case
from tether.thresholds import crc, ltt, monotonized_crc

DELTA = 0.1
GRID = np.linspace(0, 1, 41)
Rule = Callable[..., tether.Selection]
METHODS: dict[str, Rule] = {
    "gCRC": tether.gcrc,
    "soft chain": lambda losses, *grid, alpha, **more: tether.gcrc(
        losses, *grid, promise=alpha, **more
    ),
    "monotonized CRC": monotonized_crc,
    "CRC": crc,
    "LTT": ltt,
}


def make(
    world: str,
    method: str,
    alpha: float,
    risk: Callable[[np.random.Generator], float],
    *,
    wrong: bool = False,
) -> Case:
    """A case: the mean risk, or for LTT how often it exceeds alpha."""
    if not method.startswith("LTT"):
        return Case(f"{world}: {method}", risk, alpha, wrong, runs=1000)
    return Case(f"{world}: {method}", lambda rng: risk(rng) > alpha + 1e-9, DELTA, wrong, runs=1000)


def draw_claims(rng: np.random.Generator, items: int) -> tether.Claims:
    """Up to 8 claims an item; those in the middle are the worst, so the false share falls again."""
    sizes = rng.integers(0, 9, items)
    sizes[0] = max(sizes[0], 1)
    scores = rng.random(sizes.sum()).round(2)
    skill = np.repeat(rng.uniform(0.7, 1.0, items), sizes)
    true = rng.random(len(scores)) < skill * (1 - 0.45 * np.exp(-(((scores - 0.5) / 0.15) ** 2)))
    return tether.Claims(scores, true, np.append(0, np.cumsum(sizes)))


@cache
def true_risks(loss: str) -> tether.thresholds.Sweep:
    """Of every threshold, from very many items."""
    return tether.thresholds.sweep(draw_claims(np.random.default_rng(0), 300_000), loss=loss)


def claims_cases(loss: str, alpha: float, items: int) -> Iterator[Case]:
    """All methods on claims, but CRC on the share of false ones, where it may hold or not."""

    def risk(rule: Rule, rng: np.random.Generator) -> float:
        found = rule(tether.thresholds.sweep(draw_claims(rng, items), loss=loss), alpha=alpha)
        truth = true_risks(loss)
        sign = -1 if truth.safer == "larger" else 1
        at = np.searchsorted(sign * truth.thresholds, sign * found.threshold, side="right") - 1
        return float(truth.sums[max(at, 0)] / truth.n_items)

    for method, rule in METHODS.items():
        if loss != "fdr" or method != "CRC":
            yield make(f"claims, {loss}, {items} items", method, alpha, partial(risk, rule))


def dips_cases(alpha: float, items: int, columns: int = 60) -> Iterator[Case]:
    """One safe threshold, then many that are each a bit too risky and look good by chance."""
    truth = np.append(np.full(columns, 1.3 * alpha), 0.3 * alpha)

    def risk(rule: Rule, rng: np.random.Generator) -> float:
        found = rule((rng.random((items, columns + 1)) < truth).astype(float), alpha=alpha)
        return float(truth[int(found.threshold)]) if found.exists else 0.0

    rules = {name: rule for name, rule in METHODS.items() if name != "LTT"}
    for procedure in ("fixed_sequence", "bonferroni"):
        for pvalue in ("betting", "binomial", "hoeffding_bentkus"):
            rules[f"LTT, {procedure}, {pvalue}"] = partial(ltt, procedure=procedure, pvalue=pvalue)
    for method, rule in rules.items():
        each, wrong = partial(risk, rule), method == "CRC"
        yield make(f"dips, {items} items", method, alpha, each, wrong=wrong)


def shift_cases(alpha: float, items: int) -> Iterator[Case]:
    """Hard items are rare at hand and common to come; the ratio of their shares is known."""
    here, there = 0.2, 0.6
    target = (there + (1 - there) * 0.3) * (1 - GRID)

    def risk(rule: Rule, weighted: bool, rng: np.random.Generator) -> float:
        hard = rng.random(items) < here
        rates = np.where(hard, 1.0, 0.3)[:, None] * (1 - GRID)
        losses = (rng.random((items, 1)) < rates).astype(float)  # monotone in the threshold
        weights = np.where(hard, there / here, (1 - there) / (1 - here))
        known = {"weights": weights, "test_weight": there / here} if weighted else {}
        found = rule(losses, GRID, alpha=alpha, **known)
        return float(target[np.searchsorted(GRID, found.threshold)]) if found.exists else 0.0

    for method, weighted in (("gCRC", True), ("CRC", True), ("gCRC", False)):
        name = f"{method}, {'weighted' if weighted else 'unweighted'}"
        each = partial(risk, METHODS[method], weighted)
        yield make(f"known shift, {items} items", name, alpha, each, wrong=not weighted)


def groups_cases(alpha: float, items: int) -> Iterator[Case]:
    """One group in four is worse than the rest: one threshold for all fails it."""
    rates = np.array([0.4, 0.4, 0.4, 1.0])[:, None] * (1 - GRID)

    def risk(rule: Rule, by_group: bool, rng: np.random.Generator) -> float:
        group = rng.integers(0, 4, items)
        losses = (rng.random((items, 1)) < rates[group]).astype(float)
        found = rule(losses, GRID, alpha=alpha, **({"groups": group} if by_group else {}))
        worst = found.for_group(3) if by_group else found
        return float(rates[3, np.searchsorted(GRID, worst.threshold)]) if worst.exists else 0.0

    world = f"worst of four groups, {items} items"
    yield make(world, "gCRC by group", alpha, partial(risk, METHODS["gCRC"], True))
    yield make(world, "soft chain by group", alpha, partial(risk, METHODS["soft chain"], True))
    one = partial(risk, METHODS["gCRC"], False)
    yield make(world, "one threshold for all", alpha, one, wrong=True)


def cases() -> Iterator[Case]:
    """Every case."""
    yield from claims_cases("fdr", 0.2, 100)
    yield from claims_cases("any_false", 0.4, 300)
    yield from claims_cases("miss", 0.1, 100)
    yield from dips_cases(0.2, 80)
    yield from shift_cases(0.3, 100)
    yield from groups_cases(0.2, 200)
