"""Draws docs/pictures/tether.png: two policies, the tethered one between, and how beta is found."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

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


def main(path: Path) -> None:
    """Calibrate on 1,000 logged actions and draw the result."""
    rng = np.random.default_rng(2)
    logged, drawn = rng.normal(size=1000), 1 + 0.8 * rng.normal(size=1000)
    log = tether.Log(logged > HARM_THRESHOLD, *log_densities(logged))
    proposals = tether.Proposals(*log_densities(drawn))
    calibration = tether.calibrate(log, proposals, alpha=ALPHA)

    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    actions = np.linspace(-3.5, 4.5, 1601)
    safe, optimized = log_densities(actions)
    kernel = np.exp(np.minimum(optimized, safe + calibration.log_beta))
    tethered = kernel / (kernel.sum() * (actions[1] - actions[0]))
    left.axvspan(HARM_THRESHOLD, actions[-1], color=HARM_COLOR, alpha=0.08, lw=0)
    left.text(3.0, 0.6, "harm", color=HARM_COLOR, ha="center")
    left.plot(actions, np.exp(safe), color=SAFE_COLOR, lw=1.8)
    left.plot(actions, np.exp(optimized), color=OPTIMIZED_COLOR, lw=1.8)
    left.plot(actions, tethered, color=TETHERED_COLOR, lw=2.4)
    left.fill_between(actions, tethered, color=TETHERED_COLOR, alpha=0.12, lw=0)
    left.text(-1.35, 0.2, "safe", color=SAFE_COLOR, ha="right")
    left.text(1.9, 0.33, "optimized", color=OPTIMIZED_COLOR)
    left.text(-0.35, 0.5, f"tethered, β = {calibration.beta:.2f}", color=TETHERED_COLOR, ha="right")
    left.set(xlabel="action", ylabel="density", ylim=(0, 0.68), xlim=(actions[0], actions[-1]))
    left.set_title("What is deployed", loc="left", fontweight="bold")

    curve = calibration.curve()
    visible = curve.log_beta > -3.5
    right.plot(curve.beta[visible], curve.risk[visible], color=CURVE_COLOR, lw=1.8)
    right.axhline(ALPHA, color=HARM_COLOR, lw=1.2, ls=(0, (4, 3)))
    right.text(0.04, ALPHA + 0.004, f"alpha = {ALPHA:g}", color=HARM_COLOR)
    right.plot([calibration.beta, calibration.beta], [0, ALPHA], color=TETHERED_COLOR, lw=1.2)
    right.plot(calibration.beta, ALPHA, "o", color=TETHERED_COLOR, ms=8)
    right.annotate(
        "the largest beta whose risk,\nand that of every smaller one,\nis at most alpha",
        (calibration.beta, ALPHA),
        (0.045, 0.19),
        color=TETHERED_COLOR,
        arrowprops={"arrowstyle": "-", "color": TETHERED_COLOR, "lw": 0.8},
    )
    right.set(xscale="log", xlabel="beta", ylabel="calibrated risk", ylim=(0, 0.3))
    right.set_title("How it was found, from 1,000 safe actions", loc="left", fontweight="bold")
    figure.savefig(path, dpi=150)
    print(f"beta = {calibration.beta:.4f}, saved in {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/tether.png"))
