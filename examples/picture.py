"""Draws docs/tether.png: two policies, the tether between them, and how beta was found."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import tether

SAFE, OPTIMIZED, TETHERED, HARM = "#4477aa", "#cc6677", "#117733", "#aa3377"
ALPHA = 0.1


def log_densities(action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Safe N(0, 1) and optimized N(1, 0.8), as log-densities."""
    normal = np.log(2 * np.pi) / 2
    safe = -(action**2) / 2 - normal
    return safe, -(((action - 1) / 0.8) ** 2) / 2 - np.log(0.8) - normal


def main(path: Path) -> None:
    """Calibrate on 1,000 logged actions and draw what came of it."""
    rng = np.random.default_rng(2)
    actions, drawn = rng.normal(size=1000), 1 + 0.8 * rng.normal(size=1000)
    log = tether.Log(actions > 1.5, *log_densities(actions))
    found = tether.calibrate(log, tether.Proposals(*log_densities(drawn)), alpha=ALPHA)

    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    grid = np.linspace(-3.5, 4.5, 1601)
    safe, optimized = log_densities(grid)
    kernel = np.exp(np.minimum(optimized, safe + found.log_beta))
    tethered = kernel / (kernel.sum() * (grid[1] - grid[0]))
    left.axvspan(1.5, grid[-1], color=HARM, alpha=0.08, lw=0)
    left.text(3.0, 0.6, "harm", color=HARM, ha="center")
    left.plot(grid, np.exp(safe), color=SAFE, lw=1.8)
    left.plot(grid, np.exp(optimized), color=OPTIMIZED, lw=1.8)
    left.plot(grid, tethered, color=TETHERED, lw=2.4)
    left.fill_between(grid, tethered, color=TETHERED, alpha=0.12, lw=0)
    left.text(-1.35, 0.2, "safe", color=SAFE, ha="right")
    left.text(1.9, 0.33, "optimized", color=OPTIMIZED)
    left.text(-0.35, 0.5, f"tethered, β = {found.beta:.2f}", color=TETHERED, ha="right")
    left.set(xlabel="action", ylabel="density", ylim=(0, 0.68), xlim=(grid[0], grid[-1]))
    left.set_title("What is deployed", loc="left", fontweight="bold")

    curve = found.curve()
    shown = curve.log_beta > -3.5
    right.plot(curve.beta[shown], curve.risk[shown], color="#333333", lw=1.8)
    right.axhline(ALPHA, color=HARM, lw=1.2, ls=(0, (4, 3)))
    right.text(0.04, ALPHA + 0.004, f"alpha = {ALPHA:g}", color=HARM)
    right.plot([found.beta, found.beta], [0, ALPHA], color=TETHERED, lw=1.2)
    right.plot(found.beta, ALPHA, "o", color=TETHERED, ms=8)
    right.annotate(
        "the largest beta whose risk,\nand that of every smaller one,\nis at most alpha",
        (found.beta, ALPHA),
        (0.045, 0.19),
        color=TETHERED,
        arrowprops={"arrowstyle": "-", "color": TETHERED, "lw": 0.8},
    )
    right.set(xscale="log", xlabel="beta", ylabel="calibrated risk", ylim=(0, 0.3))
    right.set_title("How it was found, from 1,000 safe actions", loc="left", fontweight="bold")
    figure.savefig(path, dpi=150)
    print(f"beta = {found.beta:.4f}, drawn in {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/tether.png"))
