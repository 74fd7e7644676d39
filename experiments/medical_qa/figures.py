"""The three figures: methods by score, the learned score, and the sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments import harness, style

COLOURS = {
    "gCRC": style.BLUE,
    "CRC": style.GREY,
    "LTT, delta = alpha": style.GREEN,
    "monotonized CRC": style.ORANGE,
}


def _column(rows: Sequence[dict], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows])


def methods(task: harness.Task, rows: Sequence[dict]) -> None:
    """False share above, recall below, one column a score, with ties spread."""
    figure, axes = style.panels(len(task["scores"]), 2, width=3.3, height=2.7)
    for column, score in enumerate(task["scores"]):
        top, bottom = axes[:, column]
        for method, colour in COLOURS.items():
            chosen = [
                row
                for row in rows
                if (row["score"], row["ties"], row["method"]) == (score, "spread", method)
            ]
            alphas = _column(chosen, "alpha")
            look = {"ls": (0, (2, 1.5)), "zorder": 4} if method == "CRC" else {}
            for panel, name in ((top, "false_share"), (bottom, "recall")):
                mean, error = _column(chosen, name), _column(chosen, f"{name}_error")
                style.band(panel, alphas, mean, error, colour, **look)
        limit = max(task["alphas"])
        top.plot([0, limit], [0, limit], color=style.INK, lw=0.8, ls=(0, (4, 3)))
        top.set(xlim=(0, limit * 1.01), ylim=(0, 0.075), xticklabels=[])
        bottom.set(xlim=(0, limit * 1.01), ylim=(0, 1.03), xlabel="alpha")
        top.set_title(score)
    axes[0, 0].set_ylabel("false among kept")
    axes[1, 0].set_ylabel("true claims kept")
    style.label(axes[0, 0], 0.04, 0.046, "gCRC", style.BLUE, ha="right")
    style.label(axes[0, 0], 0.06, 0.046, "LTT", style.GREEN)
    style.label(axes[0, 0], 0.064, 0.025, "monotonized\nCRC", style.ORANGE, va="top")
    style.label(axes[0, 0], 0.003, 0.071, "dashed: equal to alpha")
    style.label(axes[1, 1], 0.045, 0.4, "grey dashes: CRC,\nmuch the same as gCRC", style.GREY)
    task.figure("methods", figure)


def learned(task: harness.Task, rows: Sequence[dict]) -> None:
    """Recall of the learned score and of the best single one; their difference."""
    figure, (left, right) = style.panels(2, width=4.0, height=3.0)
    alphas = _column(rows, "alpha")
    style.band(left, alphas, _column(rows, "recall"), _column(rows, "recall_error"), style.PURPLE)
    single = _column(rows, "its_recall")
    style.band(left, alphas, single, _column(rows, "its_recall_error"), style.BLUE)
    for panel in (left, right):
        panel.set(xlim=(0, max(alphas) * 1.05), xticks=np.arange(0, max(alphas) + 1e-9, 0.01))
    left.set(ylim=(0, 1), xlabel="alpha", ylabel="true claims kept")
    left.set_title("Recall")
    middle = len(alphas) // 3
    above = _column(rows, "recall")[middle] + 0.06
    style.label(left, alphas[middle], above, "learned  ", style.PURPLE, ha="right")
    style.label(left, alphas[middle], single[middle] - 0.08, "  best single score", style.BLUE)
    gain, error = 100 * _column(rows, "gain"), 100 * _column(rows, "gain_error")
    right.axhline(0, color=style.INK, lw=0.8)
    right.errorbar(alphas, gain, 2 * error, fmt="o", ms=4.5, color=style.PURPLE)
    right.set(xlabel="alpha", ylabel="points of recall")
    right.set_title("Gain, with two standard errors")
    task.figure("learned", figure)


def sources(task: harness.Task, rows: Sequence[dict]) -> None:
    """The false share in each source, one panel an alpha: dots for one threshold a source."""
    alphas = task["sources_alphas"]
    figure, axes = style.panels(len(alphas), width=2.5, height=2.9)
    names = sorted({row["source"] for row in rows}, key=lambda name: _size(rows, name))
    for panel, alpha in zip(np.atleast_1d(axes), alphas, strict=True):
        panel.axvline(100 * alpha, color=style.RED, lw=1, ls=(0, (4, 3)))
        for way, colour, shift in (
            ("one for all", style.ORANGE, 0.13),
            ("one a source", style.BLUE, -0.13),
        ):
            for place, name in enumerate(names):
                (row,) = (
                    row
                    for row in rows
                    if (row["source"], row["alpha"], row["threshold"]) == (name, alpha, way)
                )
                panel.errorbar(
                    100 * row["false_share"],
                    place + shift,
                    xerr=200 * row["false_share_error"],
                    fmt="o",
                    ms=4.5,
                    color=colour,
                )
        panel.set(yticks=range(len(names)), yticklabels=[], ylim=(-0.6, len(names) - 0.4))
        panel.set_xlabel("false among kept, %")
        panel.set_title(f"alpha = {100 * alpha:g} %")
    first = np.atleast_1d(axes)[0]
    first.set_yticklabels([f"{name}\n{_size(rows, name):,} questions" for name in names])
    for way, colour, shift, side in (
        ("one for all", style.ORANGE, 0.13, -1),
        ("one a source", style.BLUE, -0.13, 1),
    ):
        row = next(row for row in rows if (row["source"], row["threshold"]) == (names[0], way))
        edge = 100 * (row["false_share"] + side * 2 * row["false_share_error"]) + side * 0.04
        style.label(first, edge, shift, way, colour, ha="left" if side > 0 else "right")
    task.figure("sources", figure)


def _size(rows: Sequence[dict], name: str) -> int:
    return int(next(row["questions"] for row in rows if row["source"] == name))
