"""The picture of the demonstration: whether alpha is kept (left), and what it buys (right)."""

import textwrap

import numpy as np
from examples.demo.clinic import AIMED, ALPHAS, CLIP, LOGGED, NAIVE, TRAINING
from matplotlib.figure import Figure

RED = "#c8442f"
COLORS = {NAIVE: RED, CLIP: "#6fa3d8", AIMED: "#12407a", "optimized": "#8a8a8a", "safe": "#3c3c3c"}


def draw(outcomes, captions, path):
    """Draw missed cancers against alpha, and avoided biopsies against missed cancers."""
    figure = Figure(figsize=(12, 6.4), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.46})
    figure.subplots_adjust(left=0.065, right=0.97, top=0.775, bottom=0.255)
    most = 1.08 * max(each[:, 0].mean() for each in outcomes.values())
    _draw_kept(left, outcomes, most)
    _draw_bought(right, outcomes, most)
    for axes, caption in zip((left, right), captions, strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e8e8e8", lw=0.8)
        axes.set_axisbelow(True)
        text = textwrap.fill(caption, 62)
        figure.text(axes.get_position().x0, 0.135, text, fontsize=10, color="#444444", va="top")
    splits = len(next(iter(outcomes.values())))
    subtitle = (
        f"Wisconsin breast-cancer data: {TRAINING} patients to train on, {LOGGED} in the log, the "
        f"others held out; means of {splits} random splits, ± one standard error"
    )
    figure.text(0.065, 0.875, subtitle, fontsize=10, color="#666666")
    title = "How far may the clinic follow the model?"
    figure.text(0.065, 0.925, title, fontsize=17, weight="bold")
    figure.savefig(path, dpi=160)


def _draw_kept(axes, outcomes, most):
    """Missed cancers along alpha, and where they are more than tolerated."""
    alphas = 100 * np.array(ALPHAS)
    limits = alphas[0] - 0.35, alphas[-1] + 0.35
    axes.fill_between(limits, limits, 99, color=RED, alpha=0.07, lw=0)
    axes.plot(limits, limits, color=RED, lw=1)
    axes.text(0.03, 0.82, "more than tolerated", color=RED, transform=axes.transAxes)
    for name, color in COLORS.items():
        missed, error = _means(outcomes, name, 0)
        if (name, None) in outcomes:
            axes.plot(limits, [missed[0]] * 2, color=color, ls=(0, (3, 2)), lw=1.4)
        else:
            axes.errorbar(alphas, missed, error, color=color, **_line(name))
        axes.text(limits[1] + 0.12, missed[-1], name, color=color, fontsize=10.5, va="center")
    axes.set(xlim=limits, ylim=(0, most), xticks=alphas)
    axes.set_title("Cancers missed in 100 patients", loc="left", fontsize=12, pad=10)
    axes.set_xlabel("alpha: missed cancers tolerated in 100 patients", fontsize=10.5)


def _draw_bought(axes, outcomes, most):
    """Avoided biopsies against missed cancers; the numbers beside the points are alphas."""
    top = 1.12 * max(each[:, 1].mean() for each in outcomes.values())
    axes.axvline(outcomes[NAIVE, ALPHAS[0]][:, 0].mean(), color=RED, lw=0.9, ls=(0, (2, 2)))
    for name, color in COLORS.items():
        (missed, wide), (avoided, high) = (_means(outcomes, name, k) for k in (0, 1))
        axes.errorbar(missed, avoided, high, wide, color=color, **_line(name))
        alphas = [None] if (name, None) in outcomes else ALPHAS
        for alpha, x, y in zip(alphas, missed, avoided, strict=True):
            place = {"xytext": (0, -16), "ha": "center", "fontsize": 10.5}
            if alpha is not None:
                place = {"xytext": (-3, 6), "ha": "right", "fontsize": 8.5}
            label = name if alpha is None else f"{100 * alpha:g}"
            axes.annotate(label, (x, y), textcoords="offset points", color=color, **place)
    axes.set(xlim=(0, most), ylim=(0, top))
    axes.set_title("Needless biopsies avoided in 100 patients", loc="left", fontsize=12, pad=10)
    axes.set_xlabel("cancers missed in 100 patients (beside each point: tolerated)", fontsize=10.5)


def _line(name):
    return {"lw": 2.6 if name in (NAIVE, AIMED) else 1.6, "marker": "o", "ms": 5, "capsize": 2}


def _means(outcomes, name, quantity):
    """Means and standard errors over splits, one of each per alpha."""
    values = [each[:, quantity] for (own, _), each in outcomes.items() if own == name]
    errors = [each.std(ddof=1) / np.sqrt(len(each)) for each in values]
    return np.array([each.mean() for each in values]), np.array(errors)
