"""Accepted and rejected draws between two policies: `python -m experiments.interpolation`.

A policy that notes what it is asked for stands in for each of the two, so that the draws that
`Tethered` rejects can be seen too. Expected acceptance is compared with a numerical integral.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import kstest

import tether
from experiments import harness, style

GRID = np.linspace(-8, 10, 36_001)


class Noted:
    """A policy as it is, with a note of every draw that it made, in order."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.drawn: list[np.ndarray] = []

    def sample(self, contexts: Any, rng: np.random.Generator) -> np.ndarray:
        """The policy's draws, noted."""
        self.drawn.append(self.policy.sample(contexts, rng))
        return self.drawn[-1]

    def log_prob(self, contexts: Any, actions: Any) -> np.ndarray:
        """The policy's scores."""
        return self.policy.log_prob(contexts, actions)


class Exact:
    """What is known of two densities on a fine grid: normalizer, acceptance, distribution."""

    def __init__(self, safe: Any, optimized: Any, beta: float) -> None:
        self.safe = np.exp(safe.log_prob(None, GRID))
        self.optimized = np.exp(optimized.log_prob(None, GRID))
        kernel = np.minimum(self.optimized, beta * self.safe)
        self.psi = float(np.trapezoid(kernel, GRID))
        self.density = kernel / self.psi
        self.acceptance = self.psi / min(beta, 1)

    def distribution(self, actions: np.ndarray) -> np.ndarray:
        """The share of the tethered policy's actions below each of these."""
        below = np.cumsum(self.density) * (GRID[1] - GRID[0])
        return np.interp(actions, GRID, np.minimum(below, 1))

    def distance(self, density: np.ndarray) -> float:
        """Total variation between the tethered policy and another."""
        return float(np.trapezoid(np.abs(self.density - density), GRID) / 2)


def draws(
    safe: Any, optimized: Any, beta: float, actions: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, str]:
    """What `Tethered` accepts, what it rejects on the way, and who proposed."""
    noted = Noted(safe), Noted(optimized)
    taken, info = tether.Tethered(*noted, beta).sample_with_info(actions, rng)
    proposer = "safe" if info.draws_safe else "optimized"
    proposed = np.concatenate(noted[0 if info.draws_safe else 1].drawn)[: info.draws]
    rejected = proposed[~np.isin(proposed, taken)]
    if len(rejected) + len(taken) != info.draws:
        raise RuntimeError(f"{info}: {len(rejected)} rejected and {len(taken)} taken do not add up")
    return taken, rejected, proposer


def measure(task: harness.Task, safe: Any, optimized: Any, beta: float, index: int) -> dict:
    """Expected and observed acceptance at one beta, and whether the draws follow the density."""
    policy = tether.Tethered(safe, optimized, beta)
    exact = Exact(safe, optimized, beta)
    rng = np.random.default_rng([task["seed"], index])
    seen = []
    for _ in range(task["repeats"]):
        actions, info = policy.sample_with_info(task["actions"], rng)
        seen.append(info.acceptance)
    observed, error = harness.mean_and_error(seen)
    expected = float(policy.acceptance(task["actions"])[0])
    return {
        "beta": beta,
        "proposals_from": "safe" if info.draws_safe else "optimized",
        "acceptance_exact": exact.acceptance,
        "acceptance_expected": expected,
        "expected_error": expected * float(policy.normalizer(task["actions"]).standard_error[0]),
        "acceptance_observed": observed,
        "observed_error": error,
        "draws_an_action": 1 / observed,
        "distance_to_safe": exact.distance(exact.safe),
        "distance_to_optimized": exact.distance(exact.optimized),
        "kolmogorov_p": float(kstest(actions, exact.distribution).pvalue),
        "actions": task["actions"],
        "repeats": task["repeats"],
        "seed": task["seed"],
    }


def draw_three(task: harness.Task, safe: Any, optimized: Any) -> list[dict]:
    """The figure with three betas, and its histograms as rows."""
    figure, axes = style.panels(len(task["betas"]), width=3.5, height=3.0)
    bins = np.linspace(-4, 6, 81)
    width = bins[1] - bins[0]
    rows = []
    for place, (panel, beta) in enumerate(zip(axes, task["betas"], strict=True)):
        rng = np.random.default_rng([task["seed"], 100 + place])
        taken, rejected, proposer = draws(safe, optimized, beta, task["actions"], rng)
        exact = Exact(safe, optimized, beta)
        total = len(taken) + len(rejected)
        kept, lost = (np.histogram(each, bins)[0] for each in (taken, rejected))
        tall, more = kept / total / width, lost / total / width
        colour = style.GREEN if proposer == "safe" else style.RED
        look = {"align": "edge", "lw": 0}
        panel.bar(bins[:-1], tall, width, color=style.BLUE, alpha=0.8, **look)
        panel.bar(bins[:-1], more, width, bottom=tall, color=colour, alpha=0.35, **look)
        panel.plot(GRID, exact.safe, color=style.GREEN, lw=1.2)
        panel.plot(GRID, exact.optimized, color=style.RED, lw=1.2)
        panel.plot(GRID, exact.density * len(taken) / total, color=style.INK, lw=1.4)
        panel.set(xlim=(bins[0], bins[-1]), ylim=(0, 0.47), yticks=[], xlabel="action")
        panel.spines["left"].set_visible(False)
        panel.set_title(f"beta = {beta:g}: {len(taken) / total:.0%} accepted")
        rows += [
            {"beta": beta, "from": proposer, "left": left, "accepted": int(a), "rejected": int(r)}
            for left, a, r in zip(bins[:-1], kept, lost, strict=True)
        ]
    style.label(axes[0], -1.2, 0.36, "safe", style.GREEN, ha="right")
    style.label(axes[0], 2.0, 0.43, "optimized", style.RED, ha="center")
    style.label(axes[1], -3.9, 0.44, "accepted", style.BLUE, fontweight="bold")
    style.label(axes[1], -3.9, 0.405, "rejected", style.RED, fontweight="bold", alpha=0.6)
    style.label(axes[2], -3.9, 0.44, "black line: accepted, exactly")
    task.figure("three_betas", figure)
    return rows


def draw_sweep(task: harness.Task, rows: list[dict], safe: Any, optimized: Any) -> None:
    """Acceptance along beta: the integral as a line, what was observed as points."""
    figure, panel = style.panels(width=5.6, height=3.2)
    betas = np.geomspace(min(task["sweep"]), max(task["sweep"]), 241)
    exact = [Exact(safe, optimized, beta) for beta in betas]
    panel.plot(betas, [each.acceptance for each in exact], color=style.BLUE)
    panel.plot(betas, [each.distance(each.safe) for each in exact], color=style.GREEN, lw=1.1)
    panel.plot(betas, [each.distance(each.optimized) for each in exact], color=style.RED, lw=1.1)
    seen = [row["acceptance_observed"] for row in rows]
    panel.plot([row["beta"] for row in rows], seen, "o", ms=5, color=style.BLUE)
    panel.set(xscale="log", ylim=(0, 1.02), xlabel="beta")
    panel.set_title("Share of draws accepted (dots: observed)")
    near, far = exact[0], exact[-1]
    style.label(panel, betas[0], near.acceptance - 0.08, "acceptance", style.BLUE)
    style.label(
        panel, betas[-1], far.distance(far.safe) - 0.06, "distance to safe", style.GREEN, ha="right"
    )
    apart = near.distance(near.optimized) - 0.06
    style.label(panel, betas[0], apart, "distance to optimized", style.RED)
    task.figure("acceptance", figure)


def main(arguments: Sequence[str] | None = None) -> None:
    task = harness.begin(__file__, arguments)
    safe, optimized = tether.Gaussian(*task["safe"]), tether.Gaussian(*task["optimized"])
    betas = sorted({*task["sweep"], *task["betas"]})
    rows = [measure(task, safe, optimized, beta, index) for index, beta in enumerate(betas)]
    task.table("acceptance", rows)
    task.table("histograms", draw_three(task, safe, optimized))
    draw_sweep(task, rows, safe, optimized)
    for row in rows:
        print(
            f"beta {row['beta']:8g}: acceptance {row['acceptance_exact']:.4f} exactly, "
            f"{row['acceptance_expected']:.4f} ± {row['expected_error']:.4f} expected, "
            f"{row['acceptance_observed']:.4f} ± {row['observed_error']:.4f} observed, "
            f"from {row['proposals_from']}, p {row['kolmogorov_p']:.2f}"
        )
    task.close()


if __name__ == "__main__":
    main()
