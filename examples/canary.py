"""Draws docs/pictures/canary.png: releases of four new systems, each as far as its losses allow.

An old service has a complaint in 1 of 100 answers, and at most 2 of 100 are tolerated. Four new
ones are tried: a better one, one that is slightly worse but within alpha, one that is worse than
alpha, and one that always does harm. Nobody knows which is which. Every step has 1,000 users. The
promise is on average over releases: the share of the third one goes up and down with its losses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tether

OLD, ALPHA, USERS, STEPS, RUNS = 0.01, 0.02, 1_000, 7, 40
NEW = {"better": 0.005, "slightly worse": 0.015, "worse": 0.05, "always harmful": 1.0}
COLORS = {
    "better": "#117733",
    "slightly worse": "#1f5fa8",
    "worse": "#b07a12",
    "always harmful": "#c8442f",
}


def ramp(risk: float, rng: np.random.Generator) -> tuple[list[float], tether.rounds.ReleaseHistory]:
    """Return the share of the new system in each step, and what the store has of the release."""
    log = {"complaint": np.arange(2_000) < 20}  # what the old system did last week
    shares = []
    salt = rng.bytes(8)
    with tether.Release("sqlite://", {"complaint": ALPHA}, old=log, salt=salt) as release:
        for step in range(STEPS):
            shares.append(release.share)
            users = [f"user {step * USERS + k}" for k in range(USERS)]
            systems = np.array(release.assign(users))
            complaints = rng.random(USERS) < np.where(systems == "new", risk, OLD)
            release.observe(users, {"complaint": complaints.astype(float)})
            if step < STEPS - 1:
                release.advance()
        return shares, release.history()


def simulate(runs: int) -> dict[str, np.ndarray]:
    """Run releases of each new system; their shares have the shape runs × steps."""
    return {
        name: np.array([ramp(risk, np.random.default_rng([7, run]))[0] for run in range(runs)])
        for name, risk in NEW.items()
    }


def draw(ramps: dict[str, np.ndarray], path: Path) -> None:
    """Draw the shares of all releases with their mean, and the mean risk of what they serve."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.9), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.5})
    figure.subplots_adjust(left=0.065, right=0.865, top=0.735, bottom=0.115)
    steps, runs = np.arange(1, STEPS + 1), len(ramps["better"])
    labels: dict[str, list[tuple[float, str]]] = {"left": [], "right": []}
    for name, shares in ramps.items():
        risks = 100 * ((1 - shares) * OLD + shares * NEW[name])
        style = {"color": COLORS[name], "lw": 2.2, "marker": "o", "ms": 4.5}
        left.plot(steps, 100 * shares.T, color=COLORS[name], lw=0.8, alpha=0.25)
        left.plot(steps, 100 * shares.mean(axis=0), **style)
        error = risks.std(axis=0) / np.sqrt(runs)
        right.errorbar(steps, risks.mean(axis=0), error, capsize=3, **style)
        labels["left"].append((100 * shares.mean(axis=0)[-1], name))
        labels["right"].append((risks.mean(axis=0)[-1], name))
    right.axhspan(100 * ALPHA, 130 * ALPHA, color=COLORS["always harmful"], alpha=0.07, lw=0)
    right.axhline(100 * ALPHA, color="#333333", lw=1.4)
    right.text(0.9, 100 * ALPHA * 1.02, "alpha", va="bottom", color="#333333", weight="bold")
    right.axhline(100 * OLD, color="#888888", lw=1.2, ls=(0, (5, 2.5)))
    place = (STEPS, 100 * OLD * 0.97)
    right.text(*place, "the old system alone", ha="right", va="top", color="#666666")
    left.set_ylim(-2, 104)
    right.set_ylim(0, 130 * ALPHA)
    for axes, placed in ((left, labels["left"]), (right, labels["right"])):
        _name_lines(axes, placed)
        axes.set_xlim(0.8, STEPS + 0.2)
        axes.set_xticks(steps)
        axes.set_xlabel("step", fontsize=10.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e8e8e8", lw=0.8)
        axes.set_axisbelow(True)
    left.set_title("Percent of the users that the new system answers", loc="left", fontsize=11.5)
    right.set_title("Complaints in 100 answers, by both systems", loc="left", fontsize=11.5)
    title = "Four new systems, released without knowing which is which"
    figure.text(0.065, 0.93, title, fontsize=16, weight="bold")
    expected = ", ".join(f"{name} {100 * risk:g}" for name, risk in NEW.items())
    subtitle = (
        f"Expected complaints in 100 answers: {expected}. {USERS:,} users a step, alpha = "
        f"{ALPHA:g}.\n{runs} releases of each (thin) and their mean (thick), ± one standard error "
        f"on the right."
    )
    figure.text(0.065, 0.835, subtitle, fontsize=9.5, color="#666666", linespacing=1.4)
    figure.savefig(path, dpi=160)


def _name_lines(axes, placed: list[tuple[float, str]]) -> None:
    """Write the names of lines next to their ends, at a distance that keeps them apart."""
    low, high = axes.get_ylim()
    gap, height = 0.065 * (high - low), high
    for end, name in sorted(placed, reverse=True):
        height = min(end, height - gap)
        axes.text(STEPS + 0.35, height, name, color=COLORS[name], fontsize=10.5, va="center")


def main() -> None:
    """Run the releases, print the first of each, and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=Path("docs/pictures/canary.png"))
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    ramps = simulate(options.runs)
    print(f"{'new system':16}" + "".join(f"{f'step {k + 1}':>9}" for k in range(STEPS)))
    for name, shares in ramps.items():
        print(f"{name:16}" + "".join(f"{share:9.1%}" for share in shares[0]))
    draw(ramps, options.path)
    print(f"saved in {options.path}")


if __name__ == "__main__":
    main()
