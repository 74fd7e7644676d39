"""Do the thresholds keep their promises? Simulated worlds whose true risk is known.

Each world draws items, each method chooses a threshold from them, and the true risk there is
looked up. Methods in expectation promise a mean risk of at most alpha (the soft chain: of at most
the promise); Learn then Test that the risk exceeds alpha in at most a tenth of the repeats. Rows
marked "wrong" use a method where it promises nothing, and have to break.

    python -m benchmarks.validity_thresholds [repeats]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import tether

DELTA = 0.1
GRID = np.linspace(0, 1, 41)
Risk = Callable[[tether.Selection], float]
Found = dict[str, tuple[float, str]]
World = Callable[[np.random.Generator], Found]


@dataclass(frozen=True)
class Row:
    """One method in one world: mean true risk, how often it exceeds alpha, and the verdict."""

    world: str
    method: str
    kind: str  # "mean", "probability" or "wrong"
    alpha: float
    risks: np.ndarray

    @property
    def holds(self) -> bool:
        """Whether the promise holds within three standard errors."""
        if self.kind == "probability":
            return self.above <= DELTA + 3 * (DELTA * (1 - DELTA) / len(self.risks)) ** 0.5
        return float(self.risks.mean()) <= self.alpha + 3 * self.error

    @property
    def as_expected(self) -> bool:
        """Whether a right method holds, and a wrong one breaks."""
        return self.holds == (self.kind != "wrong")

    @property
    def above(self) -> float:
        """How often the risk exceeds alpha."""
        return float((self.risks > self.alpha + 1e-9).mean())

    @property
    def error(self) -> float:
        """The standard error of the mean risk."""
        return float(self.risks.std(ddof=1) / len(self.risks) ** 0.5)

    def __str__(self) -> str:
        verdict = ("holds" if self.holds else "breaks") + ("" if self.as_expected else "  !!")
        return (
            f"{self.world:24s} {self.method:28s} {self.kind:12s} {self.alpha:5.2f} "
            f"{self.risks.mean():8.4f} ± {self.error:.4f} {self.above:7.1%}  {verdict}"
        )


def draw_claims(rng: np.random.Generator, items: int) -> tether.Claims:
    """Up to 8 claims an item; those in the middle are the worst, so the false share falls again."""
    sizes = rng.integers(0, 9, items)
    sizes[0] = max(sizes[0], 1)
    scores = rng.random(sizes.sum()).round(2)
    skill = np.repeat(rng.uniform(0.7, 1.0, items), sizes)
    true = rng.random(len(scores)) < skill * (1 - 0.45 * np.exp(-(((scores - 0.5) / 0.15) ** 2)))
    return tether.Claims(scores, true, np.append(0, np.cumsum(sizes)))


def claims_world(loss: str, alpha: float, items: int) -> World:
    """All methods on claims; CRC is wrong for the share of false claims, but holds here or not."""
    truth = tether.thresholds.sweep(draw_claims(np.random.default_rng(0), 300_000), loss=loss)

    def risk(found: tether.Selection) -> float:
        sign = -1 if truth.safer == "larger" else 1
        at = np.searchsorted(sign * truth.thresholds, sign * found.threshold, side="right") - 1
        return float(truth.sums[max(at, 0)] / truth.n_items)

    def world(rng: np.random.Generator) -> Found:
        swept = tether.thresholds.sweep(draw_claims(rng, items), loss=loss)
        found = {
            "gCRC": (risk(tether.gcrc(swept, alpha=alpha)), "mean"),
            "soft chain": (risk(tether.gcrc(swept, promise=alpha)), "mean"),
            "monotonized CRC": (risk(tether.monotonized_crc(swept, alpha=alpha)), "mean"),
            "LTT": (risk(tether.ltt(swept, alpha=alpha)), "probability"),
        }
        if loss != "fdr":
            found["CRC"] = (risk(tether.crc(swept, alpha=alpha)), "mean")
        return found

    return world


def dips_world(alpha: float, items: int, columns: int = 60) -> World:
    """One safe threshold, then many that are each a bit too risky and look good by chance."""
    truth = np.append(np.full(columns, 1.3 * alpha), 0.3 * alpha)

    def world(rng: np.random.Generator) -> Found:
        losses = (rng.random((items, columns + 1)) < truth).astype(float)

        def risk(found: tether.Selection) -> float:
            return float(truth[int(found.threshold)]) if found.exists else 0.0

        found = {
            "gCRC": (risk(tether.gcrc(losses, alpha=alpha)), "mean"),
            "soft chain": (risk(tether.gcrc(losses, promise=alpha)), "mean"),
            "monotonized CRC": (risk(tether.monotonized_crc(losses, alpha=alpha)), "mean"),
            "CRC": (risk(tether.crc(losses, alpha=alpha)), "wrong"),
        }
        for procedure in ("fixed_sequence", "bonferroni"):
            for pvalue in ("betting", "binomial", "hoeffding_bentkus"):
                chosen = tether.ltt(losses, alpha=alpha, procedure=procedure, pvalue=pvalue)
                found[f"LTT, {procedure}, {pvalue}"[:28]] = (risk(chosen), "probability")
        return found

    return world


def shift_world(alpha: float, items: int) -> World:
    """Hard items are rare at hand and common to come; the ratio of their shares is known."""
    here, there = 0.2, 0.6
    target = (there + (1 - there) * 0.3) * (1 - GRID)

    def world(rng: np.random.Generator) -> Found:
        hard = rng.random(items) < here
        rates = np.where(hard, 1.0, 0.3)[:, None] * (1 - GRID)
        losses = (rng.random((items, 1)) < rates).astype(float)  # monotone in the threshold
        weights = np.where(hard, there / here, (1 - there) / (1 - here))

        def risk(found: tether.Selection) -> float:
            return float(target[np.searchsorted(GRID, found.threshold)]) if found.exists else 0.0

        known = {"weights": weights, "test_weight": there / here}
        return {
            "gCRC, weighted": (risk(tether.gcrc(losses, GRID, alpha=alpha, **known)), "mean"),
            "CRC, weighted": (risk(tether.crc(losses, GRID, alpha=alpha, **known)), "mean"),
            "gCRC, unweighted": (risk(tether.gcrc(losses, GRID, alpha=alpha)), "wrong"),
        }

    return world


def groups_world(alpha: float, items: int) -> World:
    """One group in four is worse than the rest: one threshold for all fails it."""
    rates = np.array([0.4, 0.4, 0.4, 1.0])[:, None] * (1 - GRID)

    def world(rng: np.random.Generator) -> Found:
        group = rng.integers(0, 4, items)
        losses = (rng.random((items, 1)) < rates[group]).astype(float)

        def worst(found: tether.Selection) -> float:
            at = np.searchsorted(GRID, found.threshold)
            return float(rates[3, at]) if found.exists else 0.0

        each = tether.gcrc(losses, GRID, alpha=alpha, groups=group)
        chain = tether.gcrc(losses, GRID, promise=alpha, groups=group)
        return {
            "worst group, by group": (worst(each.for_group(3)), "mean"),
            "worst group, soft chain": (worst(chain.for_group(3)), "mean"),
            "worst group, one for all": (worst(tether.gcrc(losses, GRID, alpha=alpha)), "wrong"),
        }

    return world


WORLDS = {
    "claims, fdr, 100 items": (0.2, claims_world, ("fdr", 0.2, 100)),
    "claims, any false, 300": (0.4, claims_world, ("any_false", 0.4, 300)),
    "claims, miss, 100 items": (0.1, claims_world, ("miss", 0.1, 100)),
    "dips, 80 items": (0.2, dips_world, (0.2, 80)),
    "known shift, 100 items": (0.3, shift_world, (0.3, 100)),
    "four groups, 200 items": (0.2, groups_world, (0.2, 200)),
}


def run(repeats: int, seed: int = 0) -> Iterator[Row]:
    """All worlds."""
    for name, (alpha, make, arguments) in WORLDS.items():
        rng, world = np.random.default_rng(seed), make(*arguments)
        found = [world(rng) for _ in range(repeats)]
        for method, (_, kind) in found[0].items():
            yield Row(name, method, kind, alpha, np.array([each[method][0] for each in found]))


if __name__ == "__main__":
    rows = []
    for row in run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
        rows.append(row)
        print(row, flush=True)
    sys.exit(any(not row.as_expected for row in rows))
