"""The picture of the demonstration: two panels along the promise."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tether._core import files
from tether.demo.biopsy_clinic import LOGGED_PATIENTS, TRAINING_PATIENTS
from tether.demo.biopsy_outcomes import PROMISES, Outcome, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAIVE_COLOR = "#c8442f"
GRID_COLOR, SUBTITLE_COLOR, CAPTION_COLOR = "#e8e8e8", "#666666", "#444444"
POLICY_LINE_STYLES = {
    "naive threshold": (NAIVE_COLOR, "-"),
    "tether, clip": ("#1f5fa8", "-"),
    "tether, mix": ("#3aa6a0", "-"),
    "optimized": ("#8a8a8a", (0, (1, 1.6))),
    "safe": ("#3c3c3c", (0, (5, 2.5))),
}
"""The color and the dashes of every policy."""
LEFT_MARGIN = 0.065
CAPTION_CHARACTERS = 62


def draw(outcomes: list[Outcome], path: Path, *, overwrite: bool = False) -> None:
    """Draw missed cancers and avoided biopsies against the promise, and save the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.0), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.52})
    figure.subplots_adjust(left=LEFT_MARGIN, right=0.875, top=0.775, bottom=0.255)
    limits = 100 * PROMISES[0] - 0.35, 100 * PROMISES[-1] + 0.35
    left.fill_between(limits, limits, 99, color=NAIVE_COLOR, alpha=0.07, lw=0)
    left.plot(limits, limits, color=NAIVE_COLOR, lw=1)
    for axes, quantity in ((left, "missed"), (right, "avoided")):
        axes.set_ylim(0, 1.12 * max(getattr(outcome, quantity).mean() for outcome in outcomes))
    for axes, quantity in ((left, "missed"), (right, "avoided")):
        _draw_panel(axes, outcomes, quantity, limits)
    left.text(
        0.03,
        0.97,
        "more than tolerated",
        color=NAIVE_COLOR,
        va="top",
        transform=left.transAxes,
    )
    left.set_title("Cancers missed in 100 patients", loc="left", fontsize=12, pad=10)
    right.set_title("Needless biopsies avoided in 100 patients", loc="left", fontsize=12, pad=10)
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


def _draw_panel(
    axes: Axes, outcomes: list[Outcome], quantity: str, limits: tuple[float, float]
) -> None:
    """Draw one quantity of every policy: a line along the promise, or a level without one."""
    promises = 100 * np.array(PROMISES)
    line_ends = {}
    for name, (color, dashes) in POLICY_LINE_STYLES.items():
        of_policy = [outcome for outcome in outcomes if outcome.name == name]
        means, errors = np.array(
            [outcome.mean_and_error(getattr(outcome, quantity)) for outcome in of_policy]
        ).T
        if of_policy[0].promise is None:
            axes.plot(limits, [means[0]] * 2, color=color, ls=dashes, lw=1.8)
        else:
            axes.errorbar(promises, means, errors, color=color, lw=2.2, marker="o", ms=5, capsize=3)
        line_ends[name] = means[-1]
    _label_line_ends(axes, line_ends, limits[1])
    axes.set_xlim(limits)
    axes.set_xticks(promises)
    axes.set_xlabel("promise: missed cancers tolerated in 100 patients", fontsize=10.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID_COLOR, lw=0.8)
    axes.set_axisbelow(True)


def _label_line_ends(axes: Axes, line_ends: dict[str, float], right: float) -> None:
    """Write the names next to the ends of the lines, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    min_distance, height = 0.055 * (high - low), -np.inf
    for name, end in sorted(line_ends.items(), key=lambda item: item[1]):
        height = max(end, height + min_distance)
        color, _ = POLICY_LINE_STYLES[name]
        axes.text(right + 0.12, height, name, color=color, fontsize=10.5, va="center")


def _write_captions(figure: Figure, captions: tuple[str, str], panels: tuple[Axes, Axes]) -> None:
    for axes, caption in zip(panels, captions, strict=True):
        text = textwrap.fill(caption, CAPTION_CHARACTERS)
        left = axes.get_position().x0
        figure.text(left, 0.135, text, fontsize=10, color=CAPTION_COLOR, va="top")
