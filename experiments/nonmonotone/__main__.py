"""CRC and gCRC on losses that are not monotone: `python -m experiments.nonmonotone`.

An item's loss at each threshold is a coin of its own, so CRC, which takes the boldest threshold
that looks good, finds one that looks better than it is. Both risks have a closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

import tether
from experiments import harness, style

METHODS = {
    "CRC": lambda swept, alpha: tether.thresholds.crc(swept, alpha=alpha),
    "gCRC": lambda swept, alpha: tether.gcrc(swept, alpha=alpha),
}
COLOURS = {"CRC": style.ORANGE, "gCRC": style.BLUE}


@dataclass(frozen=True)
class World:
    """Thresholds from bold (0) to safe (1) and the true risk at each."""

    alpha: float
    items: int
    grid: np.ndarray
    risk: np.ndarray

    @classmethod
    def of(cls, alpha: float, items: int, thresholds: int) -> World:
        """The paper's world; the loss at the safest threshold is a number that just passes."""
        grid = np.linspace(0, 1, thresholds)
        waves = np.cos(np.arange(thresholds)) / 50
        risk = np.clip(waves + 0.6 * (1 + alpha) * (1 - grid), 0, 1)
        risk[-1] = ((items + 1) * alpha - 1) / items
        return cls(alpha, items, grid, risk)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Losses, items × thresholds."""
        losses = (rng.random((self.items, len(self.grid))) < self.risk).astype(float)
        losses[:, -1] = self.risk[-1]
        return losses

    def exact(self) -> dict[str, float]:
        """The expected risk of both methods: thresholds pass independently of each other."""
        room = (self.items + 1) * self.alpha - 1  # what the losses at hand may sum to
        passes = binom.cdf(np.floor(room + 1e-9), self.items, self.risk)
        passes[-1] = 1.0  # by construction
        none_bolder = np.append(1.0, np.cumprod(1 - passes)[:-1])
        all_safer = np.cumprod(passes[::-1])[::-1]
        next_fails = 1 - np.append(0.0, passes[:-1])
        return {
            "CRC": float((none_bolder * passes * self.risk).sum()),
            "gCRC": float((all_safer * next_fails * self.risk).sum()),
        }


def simulate(world: World, repeats: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The true risk at the chosen threshold and what it looked like, repeat by repeat."""
    found = {method: np.empty((repeats, 2)) for method in METHODS}
    for repeat in range(repeats):
        swept = tether.thresholds.sweep(world.draw(rng), world.grid)
        for method, choose in METHODS.items():
            chosen = choose(swept, world.alpha)
            place = np.searchsorted(world.grid, chosen.threshold)
            found[method][repeat] = world.risk[place], chosen.risk
    return found


def table(task: harness.Task) -> list[dict]:
    """One row an alpha and method."""
    rows = []
    for index, alpha in enumerate(task["alphas"]):
        world = World.of(alpha, task["items"], task["thresholds"])
        exact = world.exact()
        rng = np.random.default_rng([task["seed"], index])
        for method, found in simulate(world, task["repeats"], rng).items():
            risk, error = harness.mean_and_error(found[:, 0])
            rows.append(
                {
                    "method": method,
                    "alpha": alpha,
                    "risk": risk,
                    "risk_error": error,
                    "risk_exact": exact[method],
                    "risk_it_saw": float(found[:, 1].mean()),
                    "holds_alpha": bool(risk <= alpha + 3 * error),
                    "items": task["items"],
                    "repeats": task["repeats"],
                    "seed": task["seed"],
                }
            )
    return rows


def trajectory(task: harness.Task) -> list[dict]:
    """One sample's conservative risk at each threshold, and which threshold each method takes."""
    alpha = task["trajectory_alpha"]
    world = World.of(alpha, task["items"], task["thresholds"])
    losses = world.draw(np.random.default_rng([task["seed"], 999]))
    swept = tether.thresholds.sweep(losses, world.grid)
    picks = {method: choose(swept, alpha).threshold for method, choose in METHODS.items()}
    seen = (losses.sum(axis=0) + 1) / (task["items"] + 1)
    return [
        {
            "threshold": threshold,
            "true_risk": world.risk[place],
            "conservative_risk": seen[place],
            "chosen_by": " ".join(name for name, pick in picks.items() if pick == threshold),
        }
        for place, threshold in enumerate(world.grid)
    ]


def draw(task: harness.Task, rows: list[dict], path: list[dict]) -> None:
    figure, (left, right) = style.panels(2, width=4.4, height=3.4)
    for method, colour in COLOURS.items():
        chosen = [row for row in rows if row["method"] == method]
        alphas = [row["alpha"] for row in chosen]
        left.plot(alphas, [row["risk_exact"] for row in chosen], color=colour)
        left.errorbar(
            alphas,
            [row["risk"] for row in chosen],
            [2 * row["risk_error"] for row in chosen],
            fmt="o",
            ms=4.5,
            color=colour,
        )
    left.plot([0, 1], [0, 1], color=style.GREY, lw=1, ls=(0, (4, 3)))
    style.label(left, 0.33, 0.63, "CRC: breaks alpha", style.ORANGE, ha="right")
    style.label(left, 0.53, 0.2, "gCRC: holds it", style.BLUE)
    style.label(left, 0.79, 0.7, "risk = alpha", style.GREY, rotation=38, ha="center")
    left.set(xlim=(0, 1), ylim=(0, 1), xlabel="alpha, the tolerated risk")
    left.set_title("True risk of the chosen threshold")

    alpha = task["trajectory_alpha"]
    place = np.array([row["threshold"] for row in path])
    seen = np.array([row["conservative_risk"] for row in path])
    right.plot(place, seen, color=style.GREY, lw=1)
    right.plot(place[:-1], [row["true_risk"] for row in path][:-1], color=style.INK, lw=1.2)
    right.axhline(alpha, color=style.RED, lw=1, ls=(0, (4, 3)))
    for method, colour in COLOURS.items():
        (row,) = (row for row in path if method in row["chosen_by"].split())
        point = row["threshold"], row["conservative_risk"]
        truth = row["true_risk"]
        right.plot([point[0]] * 2, [point[1], truth], color=colour, lw=1.2)
        right.plot(*point, "o", ms=7, color=colour, zorder=5)
        right.plot(point[0], truth, "o", ms=6, mfc="white", mec=colour, zorder=5)
        below = min(point[1], truth) - 0.06
        style.label(right, point[0], below, method, colour, ha="right", fontweight="bold")
    style.label(right, 0.02, alpha + 0.03, "alpha", style.RED)
    shown = f"grey: what {task['items']} items show\nblack: what is true"
    style.label(right, 0.5, 0.92, shown + "\ndots: chosen, as seen; rings: as is")
    right.set(xlim=(0, 1.02), ylim=(0, 1), xlabel="threshold, bold to safe")
    right.set_title(f"One sample at alpha {alpha:g}")
    task.figure("nonmonotone", figure)


def main(arguments: Sequence[str] | None = None) -> None:
    task = harness.begin(__file__, arguments)
    rows, path = table(task), trajectory(task)
    task.table("risk", rows)
    task.table("trajectory", path)
    draw(task, rows, path)
    for row in rows:
        print(
            f"{row['method']:5s} alpha {row['alpha']:.1f}: risk {row['risk']:.4f} "
            f"± {row['risk_error']:.4f}, exactly {row['risk_exact']:.4f}; "
            f"it saw {row['risk_it_saw']:.4f}"
        )
    task.close()


if __name__ == "__main__":
    main()
