"""The tables and the figure."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from examples.smollm.draws import Draws

COLUMNS = (
    "family", "alpha", "violation_rate", "standard_error", "words", "median_beta", "safe_only",
    "draws_per_action", "tokens_per_action", "latency",
)  # fmt: skip
SHOWN = ("clip", "mix", "best of 8, log ratio", "best of 8, words")
"""The families in the figure's panels of sentences."""


def policies(draws: Draws) -> list[dict[str, Any]]:
    """Violation rate and words of the policies themselves."""
    found = []
    for source in np.unique(draws["source"])[::-1]:
        rows = draws["source"] == source
        losses = draws["loss"][rows]
        found.append(
            {
                "family": str(source),
                "violation_rate": round(losses.mean(), 4),
                "standard_error": round(losses.std() / np.sqrt(len(losses)), 4),
                "words": round(draws["words"][rows].mean(), 3),
                "draws_per_action": 1.0,
                "tokens_per_action": round(draws["tokens"][rows].mean(), 1),
            }
        )
    return found


def row(family: str, alpha: float, found: np.ndarray) -> dict[str, Any]:
    """Of splits of several blocks, the averages; the blocks share no draw, so they tell the error.

    `found` has, by block and split: violation rate, words, beta, safe only, draws and tokens per
    action.
    """
    rate, words, _, safe_only, draws, tokens = np.moveaxis(found.mean(axis=1), 1, 0)
    return {
        "family": family,
        "alpha": alpha,
        "violation_rate": round(rate.mean(), 4),
        "standard_error": round(rate.std(ddof=1) / np.sqrt(len(rate)), 4),
        "words": round(words.mean(), 3),
        "median_beta": float(f"{np.median(found[:, :, 2]):.4g}"),
        "safe_only": round(safe_only.mean(), 3),
        "draws_per_action": round(draws.mean(), 2),
        "tokens_per_action": round(tokens.mean(), 1),
    }


def write_table(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a table; latencies are added when they are known."""
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def add_latencies(latencies: Mapping[str, float], path: Path) -> None:
    """Write the latency of each family, a ratio to a plain answer, into its table."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        ratio = latencies.get("plain" if row["family"] == "safe" else row["family"])
        row["latency"] = "" if ratio is None else f"{ratio:.2f}"
    write_table(rows, path)


def as_markdown(path: Path) -> str:
    """The table for the page, in percent."""
    lines = [
        "| policy | alpha | violations | words | draws | tokens | latency |",
        "| --- " * 7 + "|",
    ]
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            alpha = f"{100 * float(row['alpha']):g}" if row["alpha"] else ""
            rate = f"{100 * float(row['violation_rate']):.1f}"
            error = f"{100 * float(row['standard_error']):.1f}"
            draws = f"{float(row['draws_per_action']):.1f}"
            cells = [
                row["family"], alpha, f"{rate} ± {error}", f"{float(row['words']):.2f}", draws,
                row["tokens_per_action"], row["latency"],
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_figure(
    sentences: Sequence[Mapping[str, Any]], texts: Sequence[Mapping[str, Any]], path: Path
) -> None:
    """Violation rates and words against alpha: sentences, and texts at which clip is too costly."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 3.8), layout="constrained")
    panels = figure.subplots(1, 4)
    sizes = list(dict.fromkeys(row["family"] for row in texts if row.get("alpha")))
    _panel(panels[0], sentences, SHOWN, "violation_rate", "share of sentences cut off")
    _panel(panels[1], sentences, SHOWN, "words", "words per sentence")
    _panel(panels[2], texts, sizes, "violation_rate", "share of long sentences in a text")
    _panel(panels[3], texts, sizes, "words", "words per sentence of a text")
    panels[0].set_title("sentences of up to 12 tokens", loc="left", fontsize=10)
    panels[2].set_title("texts of up to 192 tokens", loc="left", fontsize=10)
    for axes in (panels[0], panels[2]):
        high = max(axes.get_xlim()[1], 0.0)
        axes.plot([0, high], [0, high], color="black", linewidth=0.8)
        axes.annotate(
            "alpha", (0.45 * high, 0.45 * high), (-3, 3), textcoords="offset points", fontsize=8,
            ha="right", va="bottom",
        )  # fmt: skip
    panels[1].legend(fontsize=7)
    panels[3].legend(fontsize=7)
    figure.savefig(path, dpi=120)


def _panel(
    axes: Any, rows: Sequence[Mapping[str, Any]], families: Sequence[str], column: str, label: str
) -> None:
    for family in families:
        of_family = [row for row in rows if row["family"] == family]
        error = [row["standard_error"] for row in of_family] if column == "violation_rate" else None
        axes.errorbar(
            [row["alpha"] for row in of_family],
            [row[column] for row in of_family],
            yerr=error,
            marker="o",
            markersize=4,
            capsize=2,
            label=f"tether, {family}",
        )
    for row in rows:
        if not row.get("alpha"):
            style = ":" if row["family"] == "safe" else "--"
            axes.axhline(
                row[column], color="grey", linestyle=style, label=f"{row['family']} policy"
            )
    axes.set_xlabel("alpha")
    axes.set_ylabel(label)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
