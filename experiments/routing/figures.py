"""The figures of the routing experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import style

COLOURS = {
    "clip": style.BLUE,
    "mix": style.GREEN,
    "budgeted_clip(8)": style.PURPLE,
    "marginal": style.RED,
    "no router": style.GREY,
}
NAMES = {
    "clip": "clip",
    "mix": "mix",
    "budgeted_clip(8)": "budgeted clip, 8 draws",
    "marginal": "marginal formula",
    "no router": "mix, no router",
}
DASHED = (0, (4, 3))
Rows = Sequence[Mapping[str, Any]]


def routing(rows: Rows, curves: Rows, alphas: Sequence[float]) -> Any:
    """Left, risk over alpha; right, the share of traffic that each risk buys."""
    figure, (left, right) = style.panels(2, width=4.7, height=3.6)
    methods = [name for name in COLOURS if any(row["method"] == name for row in rows)]
    for place, method in enumerate(methods):
        chosen = [row for row in rows if row["method"] == method]
        off = 0.12 * (place - (len(methods) - 1) / 2)
        left.errorbar(
            [alphas.index(row["alpha"]) + off for row in chosen],
            [row["risk"] / row["alpha"] for row in chosen],
            [2 * row["risk_error"] / row["alpha"] for row in chosen],
            fmt="o",
            ms=5,
            color=COLOURS[method],
        )
    left.axhline(1, color=style.INK, lw=1, ls=DASHED)
    left.set(ylim=(0, 4.7), xlim=(-0.5, len(alphas) - 0.5), xlabel="alpha, the tolerated risk")
    left.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    left.set_title("Risk on held-out prompts, as a multiple of alpha")

    for family in ("clip", "mix"):
        path = [row for row in curves if row["method"] == f"curve of {family}"]
        risk, share = [row["risk"] for row in path], [row["share"] for row in path]
        right.plot(risk, share, color=COLOURS[family], lw=1.2, alpha=0.6)
    whole = next(row for row in rows if row["method"] == "router")
    safe = next(row for row in rows if row["method"] == "safe")
    slope = safe["share"] / safe["risk"]
    span = [safe["risk"], whole["risk"]]
    right.plot(span, [risk * slope for risk in span], color=style.GREY, lw=1.2, alpha=0.6)
    for alpha in alphas:
        right.axvline(alpha, color=style.INK, lw=0.8, ls=DASHED, alpha=0.6, zorder=0)
    for row in rows:
        if row["method"] not in COLOURS:
            continue
        right.errorbar(
            row["risk"],
            row["share"],
            2 * row["share_error"],
            2 * row["risk_error"],
            fmt="o",
            ms=5,
            color=COLOURS[row["method"]],
        )
    right.plot(safe["risk"], safe["share"], "s", color=style.INK, ms=5)
    right.plot(whole["risk"], whole["share"], "s", color=style.INK, ms=5)
    style.label(right, safe["risk"] * 1.1, safe["share"] * 0.92, "safe policy")
    style.label(right, whole["risk"] * 0.94, whole["share"] * 1.06, "router alone", ha="right")
    right.set(xscale="log", yscale="log", ylim=(0.022, 1), xlabel="risk on held-out prompts")
    _plain(right.xaxis, [0.005, *alphas, 0.1])
    _plain(right.yaxis, [0.03, 0.05, 0.1, 0.2, 0.5, 1], percent=True)
    right.set_title("Traffic that moves to the cheap model")
    handles = [
        right.plot([], [], "o", ms=5, color=COLOURS[name], label=NAMES[name])[0] for name in methods
    ]
    left.legend(handles=handles, loc="upper left", ncols=2, fontsize=8.5, handletextpad=0.2)
    return figure


def exploration(rows: Rows, alphas: Sequence[float]) -> Any:
    """The share of traffic against how often the safe policy tries the cheap model."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.panels(len(alphas), width=2.9, height=2.9)
    axes = np.atleast_1d(axes)
    for each, alpha in zip(axes, alphas, strict=True):
        for method in ("clip", "mix", "budgeted_clip(8)"):
            chosen = [row for row in rows if row["method"] == method and row["alpha"] == alpha]
            each.errorbar(
                [row["safe_cheap"] for row in chosen],
                [row["share"] for row in chosen],
                [2 * row["share_error"] for row in chosen],
                fmt="o-",
                ms=4,
                color=COLOURS[method],
                label=NAMES[method],
            )
        tried = sorted({row["safe_cheap"] for row in rows})
        each.plot(tried, tried, color=style.INK, lw=1, ls=DASHED, label="safe policy")
        each.set(xscale="log", ylim=(0, None), xlabel="share under the safe policy")
        _plain(each.xaxis, tried, percent=True)
        each.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        each.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        each.set_title(f"alpha {alpha:g}")
    axes[0].set_ylabel("share to the cheap model")
    axes[-1].legend(fontsize=8.5, loc="center left", bbox_to_anchor=(0.02, 0.4))
    return figure


def _plain(axis: Any, ticks: Sequence[float], *, percent: bool = False) -> None:
    """These ticks and no others, as plain numbers."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:.0%}" if percent else f"{value:g}")
