"""What the draws say: violation rates of calibrated policies against alpha, over many splits."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np

import tether
from tether.control.families import find_family

ALPHAS = (0.06, 0.08, 0.1, 0.125, 0.15, 0.2)
FAMILIES = ("clip", "mix")
ROWS, SPLITS, TENTHS = 400, 200, 10

Draws = dict[str, np.ndarray]


def tables(draws: Draws, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A log, proposals and an evaluation set that share no draw.

    The log are rows of the safe policy. What is left of both policies' draws is split in halves,
    subject by subject: one for the proposals, one to see what a deployed policy does.
    """
    safe = rng.permutation(np.flatnonzero(draws["source"] == "safe"))
    logged, left = safe[:ROWS], safe[ROWS:]
    rest = rng.permutation(np.append(left, np.flatnonzero(draws["source"] == "optimized")))
    key = draws["subject"] + 1000 * (draws["source"] == "safe")
    rest = rest[np.argsort(key[rest], kind="stable")]
    proposed, seen = rest[::2], rest[1::2]
    log = tether.Log(
        draws["loss"][logged],
        draws["log_safe"][logged],
        draws["log_optimized"][logged],
        context=draws["subject"][logged],
    )
    proposals = tether.Proposals(
        draws["log_safe"][proposed],
        draws["log_optimized"][proposed],
        context=draws["subject"][proposed],
        source=draws["source"][proposed],
    )
    return log, proposals, seen


def deployed(draws: Draws, seen: Any, family: str, log_beta: float) -> tuple[float, float, float]:
    """Violation rate, words and draws an answer of a tethered policy, from both policies' draws.

    In each context a draw of either policy counts with the tethered density over what drew it.
    """
    chosen = find_family(family)
    found = []
    for subject in np.unique(draws["subject"]):
        mine = seen[draws["subject"][seen] == subject]
        log_safe, log_optimized = draws["log_safe"][mine], draws["log_optimized"][mine]
        from_safe = draws["source"][mine] == "safe"
        mass = np.logaddexp(
            log_safe + np.log(from_safe.sum()), log_optimized + np.log((~from_safe).sum())
        )
        if np.isneginf(log_beta):
            kernel = log_safe
        else:
            kernel = chosen.log_kernel(log_safe, log_optimized, log_beta)
        weight = np.exp(kernel - mass)
        log_psi = np.log(weight.sum())
        kept = 1.0 if family == "mix" else np.exp(chosen.log_acceptance(log_beta, log_psi))
        weight /= weight.sum()
        found.append((weight @ draws["loss"][mine], weight @ draws["words"][mine], 1 / kept))
    rate, said, drawn = np.mean(found, axis=0)
    return float(rate), float(said), float(drawn)


def study(draws: Draws, rng: np.random.Generator) -> list[dict[str, Any]]:
    """For each family and alpha: what is deployed, on average over random splits of the draws.

    All splits share the same draws, so the spread over splits is not how uncertain their mean is:
    the standard error is from leaving out a tenth of the draws at a time.
    """
    whole = _splits(draws, rng, SPLITS)
    tenth = rng.permutation(np.arange(len(draws["loss"])) % TENTHS)
    parts = np.array(
        [
            list(_splits(_without(draws, tenth == k), rng, SPLITS // 4)[:, :, 0].mean(axis=1))
            for k in range(TENTHS)
        ]
    )
    error = np.sqrt((TENTHS - 1) * parts.var(axis=0))
    rows = []
    for place, (family, alpha) in enumerate(itertools.product(FAMILIES, ALPHAS)):
        rate, said, beta, alone, drawn = whole[place].T
        rows.append(
            {
                "family": family,
                "alpha": alpha,
                "violation_rate": round(rate.mean(), 4),
                "standard_error": round(error[place], 4),
                "words": round(said.mean(), 3),
                "median_beta": float(f"{np.median(beta):.4g}"),
                "safe_only": round(alone.mean(), 3),
                "draws_an_answer": round(drawn.mean(), 2),
            }
        )
    return rows


def _splits(draws: Draws, rng: np.random.Generator, count: int) -> np.ndarray:
    """For each family and alpha and each split: rate, words, beta, safe only, draws an answer."""
    found = np.empty((len(FAMILIES) * len(ALPHAS), count, 5))
    for split in range(count):
        log, proposals, seen = tables(draws, rng)
        for place, (family, alpha) in enumerate(itertools.product(FAMILIES, ALPHAS)):
            result = tether.calibrate(log, proposals, alpha=alpha, family=family)
            rate, said, drawn = deployed(draws, seen, family, result.log_beta)
            found[place, split] = rate, said, result.beta, not result.exists, drawn
    return found


def _without(draws: Draws, left_out: Any) -> Draws:
    return {name: column[~left_out] for name, column in draws.items()}


def write(rows: list[dict[str, Any]], draws: Draws, folder: Path) -> None:
    """The table and the picture."""
    ends = [(each, *_plain(draws, each)) for each in ("safe", "optimized")]
    with (folder / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        table.writerows(
            {
                "family": name,
                "violation_rate": round(rate, 4),
                "standard_error": round(error, 4),
                "words": round(said, 3),
            }
            for name, rate, said, error in ends
        )
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for family in FAMILIES:
        mine = [row for row in rows if row["family"] == family]
        alpha = [row["alpha"] for row in mine]
        left.errorbar(
            alpha,
            [row["violation_rate"] for row in mine],
            yerr=[row["standard_error"] for row in mine],
            marker="o",
            capsize=3,
            label=f"tether, {family}",
        )
        right.plot(alpha, [row["words"] for row in mine], marker="o", label=f"tether, {family}")
    left.plot([0, max(ALPHAS)], [0, max(ALPHAS)], color="black", linewidth=0.8, label="alpha")
    for place, axes in ((1, left), (2, right)):
        for style, end in zip((":", "--"), ends, strict=True):
            axes.axhline(end[place], color="grey", linestyle=style, label=f"{end[0]} policy")
        axes.set_xlabel("alpha")
        axes.legend(fontsize=8)
    left.set_xticks([0.0, 0.05, 0.1, 0.15, 0.2])
    left.set_ylabel("share of sentences cut off")
    right.set_ylabel("words a sentence")
    figure.savefig(folder / "results.png", dpi=120)


def _plain(draws: Draws, source: str) -> tuple[float, float, float]:
    mine = draws["source"] == source
    losses = draws["loss"][mine]
    error = losses.std() / np.sqrt(len(losses))
    return float(losses.mean()), float(draws["words"][mine].mean()), float(error)
