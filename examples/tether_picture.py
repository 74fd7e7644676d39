"""Draws docs/pictures/tether.png and tether_narrow.png, for the first page on screens of any width.

Two policies, the tethered one between them, and how far it may go.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

import tether

SAFE_COLOR, OPTIMIZED_COLOR, TETHERED_COLOR = "#4477aa", "#cc6677", "#117733"
HARM_COLOR, CURVE_COLOR = "#aa3377", "#333333"
ALPHA = 0.1
HARM_THRESHOLD = 1.5
"""Actions above this threshold harm."""


def log_densities(action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities of the safe policy N(0, 1) and the optimized policy N(1, 0.8²)."""
    log_normalizer = np.log(2 * np.pi) / 2
    safe = -(action**2) / 2 - log_normalizer
    return safe, -(((action - 1) / 0.8) ** 2) / 2 - np.log(0.8) - log_normalizer


def draw_policies(axes: Axes, calibration: tether.Calibration) -> None:
    """Draw how likely each action is under the three policies."""
    actions = np.linspace(-3.5, 4.5, 1601)
    safe, optimized = log_densities(actions)
    kernel = np.exp(np.minimum(optimized, safe + calibration.log_beta))
    tethered = kernel / (kernel.sum() * (actions[1] - actions[0]))
    axes.axvspan(HARM_THRESHOLD, actions[-1], color=HARM_COLOR, alpha=0.08, lw=0)
    axes.text(3.0, 0.6, "harm", color=HARM_COLOR, ha="center")
    axes.plot(actions, np.exp(safe), color=SAFE_COLOR, lw=1.8)
    axes.plot(actions, np.exp(optimized), color=OPTIMIZED_COLOR, lw=1.8)
    axes.plot(actions, tethered, color=TETHERED_COLOR, lw=2.4)
    axes.fill_between(actions, tethered, color=TETHERED_COLOR, alpha=0.12, lw=0)
    axes.text(-1.35, 0.2, "safe", color=SAFE_COLOR, ha="right")
    axes.text(1.9, 0.33, "optimized", color=OPTIMIZED_COLOR)
    axes.text(-0.35, 0.5, "tethered", color=TETHERED_COLOR, ha="right")
    axes.set(xlabel="action", ylabel="how likely", ylim=(0, 0.68), xlim=(actions[0], actions[-1]))
    axes.set_yticks([])
    axes.set_title("Three policies", loc="left", fontweight="bold")


def draw_risk(axes: Axes, calibration: tether.Calibration) -> None:
    """Draw the risk at each beta, what is tolerated, and the beta that follows."""
    curve = calibration.to_frame()
    visible = np.abs(curve["log_beta"]) < 3.5
    axes.plot(curve["beta"][visible], curve["risk"][visible], color=CURVE_COLOR, lw=1.8)
    axes.axhline(ALPHA, color=HARM_COLOR, lw=1.2, ls=(0, (4, 3)))
    axes.text(0.032, ALPHA + 0.006, "tolerated: 10 %", color=HARM_COLOR)
    axes.plot([calibration.beta, calibration.beta], [0, ALPHA], color=TETHERED_COLOR, lw=1.2)
    axes.plot(calibration.beta, ALPHA, "o", color=TETHERED_COLOR, ms=8)
    axes.annotate(
        f"beta = {calibration.beta:.2f}:\nas far as the risk\nstays tolerated",
        (calibration.beta, ALPHA),
        (0.05, 0.19),
        color=TETHERED_COLOR,
        arrowprops={"arrowstyle": "-", "color": TETHERED_COLOR, "lw": 0.8},
    )
    axes.set(xscale="log", xlabel="beta: how far from the safe policy", ylim=(0, 0.3))
    axes.set_ylabel("risk")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda beta, _: f"{beta:g}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.set_title("How far one may go", loc="left", fontweight="bold")


def main(folder: Path) -> None:
    """Calibrate on 1,000 logged actions and draw the result, wide and narrow."""
    rng = np.random.default_rng(2)
    logged, drawn = rng.normal(size=1000), 1 + 0.8 * rng.normal(size=1000)
    log = tether.Log(logged > HARM_THRESHOLD, *log_densities(logged))
    proposals = tether.Proposals(*log_densities(drawn))
    calibration = tether.calibrate(log, proposals, alpha=ALPHA)

    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    for name, rows, columns, size in (
        ("tether.png", 1, 2, (9.6, 3.5)),
        ("tether_narrow.png", 2, 1, (4.2, 6.2)),
    ):
        figure, (first, second) = plt.subplots(rows, columns, figsize=size, layout="constrained")
        draw_policies(first, calibration)
        draw_risk(second, calibration)
        figure.savefig(folder / name, dpi=170)
        plt.close(figure)
    print(f"beta = {calibration.beta:.4f}, saved in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
