"""Do the thresholds keep their promises? Simulated worlds whose true risk is known.

Each world draws items, each method chooses a threshold from them, and the true risk there is
looked up. Methods in expectation promise a mean risk of at most alpha; Learn then Test promises
that the risk exceeds alpha in at most a share delta of the repeats. Rows marked "nothing" are
there to show that the worlds can tell: methods used where they promise nothing.

    python -m benchmarks.validity_thresholds [repeats]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import tether

DELTA = 0.1


@dataclass(frozen=True)
class Row:
    """One method in one world: mean true risk, how often it exceeds alpha, and the verdict."""

    world: str
    method: str
    alpha: float
    risk: float
    error: float
    exceeds: float
    repeats: int
    kind: str  # "expectation", "probability" or "nothing"

    @property
    def holds(self) -> bool:
        """Whether the promise holds within three standard errors."""
        if self.kind == "probability":
            return self.exceeds <= DELTA + 3 * (DELTA * (1 - DELTA) / self.repeats) ** 0.5
        return self.risk <= self.alpha + 3 * self.error

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        promise = {
            "expectation": "mean risk ≤ alpha",
            "probability": f"exceeds ≤ {DELTA:g}",
            "nothing": "nothing",
        }
        return (
            f"{self.world:34s} {self.method:24s} {self.alpha:6.2f} {self.risk:8.4f} "
            f"{self.error:8.4f} {self.exceeds:8.4f}  {promise[self.kind]:18s} {verdict}"
        )


Found = Callable[[float], float]
World = Callable[[np.random.Generator], dict[str, tuple[float, str]]]


def measure(name: str, alpha: float, world: World, repeats: int, seed: int) -> list[Row]:
    """Repeat a world and gather the true risks of every method."""
    rng = np.random.default_rng(seed)
    risks: dict[str, list[float]] = {}
    kinds: dict[str, str] = {}
    for _ in range(repeats):
        for method, (risk, kind) in world(rng).items():
            risks.setdefault(method, []).append(risk)
            kinds[method] = kind
    rows = []
    for method, values in risks.items():
        array = np.array(values)
        error = float(array.std(ddof=1) / repeats**0.5)
        above = float((array > alpha + 1e-9).mean())
        rows.append(
            Row(name, method, alpha, float(array.mean()), error, above, repeats, kinds[method])
        )
    return rows


def draw_claims(rng: np.random.Generator, items: int) -> tether.Claims:
    """Up to 8 claims an item, of which some items know less than others; scores to 2 decimals.

    Claims in the middle are the worst: the false share falls again as the threshold gets bold.
    """
    sizes = rng.integers(0, 9, items)
    sizes[0] = max(sizes[0], 1)
    scores = rng.random(sizes.sum()).round(2)
    skill = np.repeat(rng.uniform(0.7, 1.0, items), sizes)
    true = rng.random(len(scores)) < skill * (1 - 0.45 * np.exp(-(((scores - 0.5) / 0.15) ** 2)))
    return tether.Claims(scores, true, np.append(0, np.cumsum(sizes)))


def true_curve(loss: str, draws: int = 400_000) -> Found:
    """The true risk of `draw_claims` at any threshold, from very many items."""
    swept = tether.risk.sweep(
        draw_claims(np.random.default_rng(0), draws), loss=loss, envelope=False
    )
    grid = swept.thresholds if swept.safer == "smaller" else swept.thresholds[::-1]
    risks = swept.sums / draws
    risks = risks if swept.safer == "smaller" else risks[::-1]

    def risk(threshold: float) -> float:
        return float(risks[np.searchsorted(grid, threshold)])

    return risk


def claims_world(loss: str, alpha: float, items: int) -> World:
    """All four methods on claims."""
    risk = true_curve(loss)

    def world(rng: np.random.Generator) -> dict[str, tuple[float, str]]:
        claims = draw_claims(rng, items)
        swept = tether.risk.sweep(claims, loss=loss)
        return {
            "gCRC": (
                risk(tether.gcrc(swept, alpha=alpha, measure_stability=False).threshold),
                "expectation",
            ),
            "monotonized CRC": (
                risk(tether.monotonized_crc(swept, alpha=alpha).threshold),
                "expectation",
            ),
            "CRC": (
                risk(tether.crc(swept, alpha=alpha).threshold),
                "nothing" if loss == "fdr" else "expectation",
            ),
            "LTT": (
                risk(tether.ltt(swept, alpha=alpha, confidence=1 - DELTA).threshold),
                "probability",
            ),
            "LTT, betting": (
                risk(
                    tether.ltt(
                        swept, alpha=alpha, confidence=1 - DELTA, pvalue="betting", rng=rng
                    ).threshold
                ),
                "probability",
            ),
        }

    return world


def dips_world(alpha: float, items: int, columns: int = 60) -> World:
    """Losses that are not monotone: one safe threshold, then many that are each a bit too risky.

    Some of the many look good by chance, and a method that takes the boldest passing one is caught.
    """
    truth = np.append(np.full(columns, 1.3 * alpha), 0.3 * alpha)

    def world(rng: np.random.Generator) -> dict[str, tuple[float, str]]:
        losses = (rng.random((items, columns + 1)) < truth).astype(float)

        def risk(found: tether.Selection) -> float:
            return float(truth[int(found.threshold)]) if found.exists else 0.0

        found = {
            "gCRC": (
                risk(tether.gcrc(losses, alpha=alpha, measure_stability=False)),
                "expectation",
            ),
            "monotonized CRC": (risk(tether.monotonized_crc(losses, alpha=alpha)), "expectation"),
            "CRC": (risk(tether.crc(losses, alpha=alpha)), "nothing"),
        }
        for procedure in ("fixed_sequence", "bonferroni", "holm"):
            for pvalue in ("hoeffding_bentkus", "betting"):
                chosen = tether.ltt(
                    losses,
                    alpha=alpha,
                    confidence=1 - DELTA,
                    procedure=procedure,
                    pvalue=pvalue,
                    rng=rng,
                )
                name = f"LTT, {procedure}, {'HB' if pvalue != 'betting' else 'WSR'}"
                found[name] = (risk(chosen), "probability")
        return found

    return world


def alarm_world(alpha: float, items: int) -> World:
    """One threshold whose risk is exactly alpha: how often testing calls it safe by mistake."""

    def world(rng: np.random.Generator) -> dict[str, tuple[float, str]]:
        found = {}
        for losses_name, column in (
            ("coins", (rng.random(items) < alpha).astype(float)),
            ("betas", rng.beta(2 * alpha, 2 * (1 - alpha), items)),
        ):
            for name, pvalue in (("HB", "hoeffding_bentkus"), ("WSR", "betting")):
                chosen = tether.ltt(
                    column[:, None], alpha=alpha, confidence=1 - DELTA, pvalue=pvalue, rng=rng
                )
                alarm = alpha + 1e-6 if chosen.exists else 0.0  # a breath above: a mistake
                found[f"{losses_name}, {name}"] = (alarm, "probability")
        return found

    return world


def shift_world(alpha: float, items: int) -> World:
    """Hard items are rare at hand and common to come; the ratio of their shares is known."""
    here, there = 0.2, 0.6
    thresholds = np.linspace(0, 1, 41)
    easy, hard = 0.3 * (1 - thresholds), 1 - thresholds

    def world(rng: np.random.Generator) -> dict[str, tuple[float, str]]:
        is_hard = rng.random(items) < here
        rates = np.where(is_hard[:, None], hard, easy)
        losses = (rng.random((items, 1)) < rates).astype(float)  # monotone in the threshold
        weights = np.where(is_hard, there / here, (1 - there) / (1 - here))
        target = there * hard + (1 - there) * easy

        def risk(found: tether.Selection) -> float:
            return (
                float(target[np.searchsorted(thresholds, found.threshold)]) if found.exists else 0
            )

        return {
            "gCRC, weighted": (
                risk(tether.gcrc(losses, thresholds, alpha=alpha, weights=weights)),
                "expectation",
            ),
            "CRC, log weights": (
                risk(tether.crc(losses, thresholds, alpha=alpha, log_weights=np.log(weights))),
                "expectation",
            ),
            "gCRC, unweighted": (risk(tether.gcrc(losses, thresholds, alpha=alpha)), "nothing"),
        }

    return world


def groups_world(alpha: float, items: int) -> World:
    """One group in four is worse than the rest: one threshold for all fails it."""
    thresholds = np.linspace(0, 1, 41)
    rates = np.array([0.4, 0.4, 0.4, 1.0])[:, None] * (1 - thresholds)

    def world(rng: np.random.Generator) -> dict[str, tuple[float, str]]:
        group = rng.integers(0, 4, items)
        losses = (rng.random((items, 1)) < rates[group]).astype(float)

        def risk(found: tether.Selection) -> float:
            return (
                float(rates[3, np.searchsorted(thresholds, found.threshold)]) if found.exists else 0
            )

        grouped = tether.gcrc(
            losses, thresholds, alpha=alpha, groups=group, measure_stability=False
        )
        return {
            "worst group, by group": (risk(grouped.for_group(3)), "expectation"),
            "worst group, one for all": (
                risk(tether.gcrc(losses, thresholds, alpha=alpha, measure_stability=False)),
                "nothing",
            ),
        }

    return world


def labels_world(items: int) -> World:
    """A classifier's scores: rates of the positive, the negative and the selected."""

    def normal(x: float) -> float:
        from math import erf, sqrt

        return 0.5 * (1 + erf(x / sqrt(2)))

    def world(rng: np.random.Generator) -> dict[str, tuple[float, str]]:
        labels = rng.random(items) < 0.6
        data = tether.ScoredLabels(rng.normal(size=items) + 1.5 * labels, labels)

        def negative(t: float) -> float:
            return 1 - normal(t)

        def missed(t: float) -> float:
            return normal(t - 1.5)

        def discovery(t: float) -> float:
            wrong = 0.4 * negative(t)
            return wrong / (wrong + 0.6 * (1 - missed(t))) if np.isfinite(t) else 0.0

        def balance(t: float) -> float:
            """Alpha plus the false share minus alpha of the selected: a rate in the long run."""
            wrong, right = 0.4 * negative(t), 0.6 * (1 - missed(t))
            return alpha + wrong - alpha * (wrong + right)

        start = np.linspace(-2, 1.5, 36)
        alpha = 0.15
        return {
            "false_positive, CRC": (
                negative(tether.crc(data, alpha=alpha, loss="false_positive").threshold),
                "expectation",
            ),
            "false_negative, gCRC": (
                missed(tether.gcrc(data, alpha=alpha, loss="false_negative").threshold),
                "expectation",
            ),
            "false_discovery, gCRC": (
                balance(tether.gcrc(data, start, alpha=alpha).threshold),
                "expectation",
            ),
            "false_discovery, LTT": (
                discovery(tether.ltt(data, start, alpha=alpha, confidence=1 - DELTA).threshold),
                "probability",
            ),
        }

    return world


def worlds() -> dict[str, tuple[float, World]]:
    """Every world by its name, with its alpha."""
    return {
        "claims, fdr, 100 items": (0.2, claims_world("fdr", 0.2, 100)),
        "claims, any_false, 100 items": (0.4, claims_world("any_false", 0.4, 100)),
        "claims, miss, 100 items": (0.2, claims_world("miss", 0.2, 100)),
        "dips, 80 items": (0.2, dips_world(0.2, 80)),
        "known shift, 100 items": (0.3, shift_world(0.3, 100)),
        "four groups, 200 items": (0.2, groups_world(0.2, 200)),
        "labels, 200 items": (0.15, labels_world(200)),
        "risk exactly alpha, 200 items": (0.1, alarm_world(0.1, 200)),
    }


def run(repeats: int, seed: int = 1) -> list[Row]:
    """Every row of every world."""
    rows = []
    for i, (name, (alpha, world)) in enumerate(worlds().items()):
        rows += measure(name, alpha, world, repeats, seed + i)
    return rows


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{repeats:,} repeats; risk and its standard error; share of repeats above alpha")
    heads = f"{'alpha':>6s} {'risk':>8s} {'error':>8s} {'exceeds':>8s}"
    print(f"{'world':34s} {'method':24s} {heads}  promised")
    failed = False
    for i, (name, (alpha, world)) in enumerate(worlds().items()):
        for row in measure(name, alpha, world, repeats, 1 + i):
            print(row, flush=True)
            failed |= row.kind != "nothing" and not row.holds
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
