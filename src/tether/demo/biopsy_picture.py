"""The picture of the demonstration: whether alpha is kept, and what it buys.

The left panel shows missed cancers against those that are tolerated. The right one shows what is
bought with them: each policy is a line from its smallest alpha to its largest.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core import files
from tether.demo.biopsy_clinic import LOGGED_PATIENTS, TRAINING_PATIENTS
from tether.demo.biopsy_outcomes import ALPHAS, CHOSEN, NAIVE, Outcome, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAIVE_COLOR = "#c8442f"
GRID_COLOR, SUBTITLE_COLOR, CAPTION_COLOR = "#e8e8e8", "#666666", "#444444"
POLICY_COLORS = {
    NAIVE: NAIVE_COLOR,
    "tether, mix": "#3aa6a0",
    "tether, clip": "#6fa3d8",
    "tether, aimed": "#7b5ea7",
    CHOSEN: "#12407a",
    "optimized": "#8a8a8a",
    "safe": "#3c3c3c",
}
LEFT_MARGIN = 0.065
CAPTION_CHARACTERS = 62


def draw(outcomes: list[Outcome], path: Path, *, overwrite: bool = False) -> None:
    """Draw missed cancers against alpha and avoided biopsies against missed cancers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.4), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.46})
    figure.subplots_adjust(left=LEFT_MARGIN, right=0.97, top=0.775, bottom=0.255)
    most_missed = 1.08 * max(outcome.missed.mean() for outcome in outcomes)
    _draw_kept(left, outcomes, most_missed)
    _draw_frontier(right, outcomes, most_missed)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=GRID_COLOR, lw=0.8)
        axes.set_axisbelow(True)
    subtitle = (
        f"Wisconsin breast-cancer data: {TRAINING_PATIENTS} patients to train on, "
        f"{LOGGED_PATIENTS} in the log, the others held out; means of {len(outcomes[0].missed)} "
        "random splits, ± one standard error"
    )
    figure.text(LEFT_MARGIN, 0.875, subtitle, fontsize=10, color=SUBTITLE_COLOR)
    title = "How far may the clinic follow the model?"
    figure.text(LEFT_MARGIN, 0.925, title, fontsize=17, weight="bold")
    _write_captions(figure, summarize(outcomes), (left, right))
    with files.replacing(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, dpi=160, format="png")


def _draw_kept(axes: Axes, outcomes: list[Outcome], most_missed: float) -> None:
    """Missed cancers along alpha, and where they are more than tolerated."""
    alphas = 100 * np.array(ALPHAS)
    limits = alphas[0] - 0.35, alphas[-1] + 0.35
    axes.fill_between(limits, limits, 99, color=NAIVE_COLOR, alpha=0.07, lw=0)
    axes.plot(limits, limits, color=NAIVE_COLOR, lw=1)
    axes.text(0.03, 0.82, "more than tolerated", color=NAIVE_COLOR, transform=axes.transAxes)
    ends = {}
    for name, color in POLICY_COLORS.items():
        of_policy = _of_policy(outcomes, name)
        missed, error = _means(of_policy, "missed")
        if of_policy[0].alpha is None:
            axes.plot(limits, [missed[0]] * 2, color=color, ls=(0, (3, 2)), lw=1.4)
        else:
            axes.errorbar(alphas, missed, error, color=color, **_line(name))
        ends[name] = missed[-1]
    axes.set(xlim=limits, ylim=(0, most_missed), xticks=alphas)
    low = -np.inf
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        low = max(end, low + 0.05 * most_missed)
        axes.text(
            limits[1] + 0.12, low, name, color=POLICY_COLORS[name], fontsize=10.5, va="center"
        )
    axes.set_title("Cancers missed in 100 patients", loc="left", fontsize=12, pad=10)
    axes.set_xlabel("alpha: missed cancers tolerated in 100 patients", fontsize=10.5)


def _draw_frontier(axes: Axes, outcomes: list[Outcome], most_missed: float) -> None:
    """Avoided biopsies against missed cancers; the numbers beside the points are alphas."""
    most_avoided = 1.12 * max(outcome.avoided.mean() for outcome in outcomes)
    equal_risk = float(_of_policy(outcomes, NAIVE)[0].missed.mean())
    axes.axvline(equal_risk, color=NAIVE_COLOR, lw=0.9, ls=(0, (2, 2)))
    for name, color in POLICY_COLORS.items():
        of_policy = _of_policy(outcomes, name)
        (missed, missed_error), (avoided, avoided_error) = (
            _means(of_policy, quantity) for quantity in ("missed", "avoided")
        )
        axes.errorbar(missed, avoided, avoided_error, missed_error, color=color, **_line(name))
        for outcome, x, y in zip(of_policy, missed, avoided, strict=True):
            if outcome.alpha is None:
                where: dict[str, Any] = {"xytext": (0, -16), "ha": "center", "fontsize": 10.5}
                axes.annotate(name, (x, y), textcoords="offset points", color=color, **where)
            else:
                where = {"xytext": (-3, 6), "ha": "right", "fontsize": 8.5}
                label = f"{100 * outcome.alpha:g}"
                axes.annotate(label, (x, y), textcoords="offset points", color=color, **where)
    axes.set(xlim=(0, most_missed), ylim=(0, most_avoided))
    axes.set_title("Needless biopsies avoided in 100 patients", loc="left", fontsize=12, pad=10)
    label = "cancers missed in 100 patients (beside each point: tolerated)"
    axes.set_xlabel(label, fontsize=10.5)


def _line(name: str) -> dict[str, Any]:
    width = 2.6 if name in (NAIVE, CHOSEN) else 1.6
    return {"lw": width, "marker": "o", "ms": 5, "capsize": 2, "elinewidth": 1.2}


def _of_policy(outcomes: list[Outcome], name: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.name == name]


def _means(of_policy: list[Outcome], quantity: str) -> np.ndarray:
    """Means and standard errors, in two rows."""
    return np.array([each.mean_and_error(getattr(each, quantity)) for each in of_policy]).T


def _write_captions(figure: Figure, captions: tuple[str, str], panels: tuple[Axes, Axes]) -> None:
    for axes, caption in zip(panels, captions, strict=True):
        text = textwrap.fill(caption, CAPTION_CHARACTERS)
        left = axes.get_position().x0
        figure.text(left, 0.135, text, fontsize=10, color=CAPTION_COLOR, va="top")
