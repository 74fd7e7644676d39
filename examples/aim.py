"""Draws docs/pictures/aim.png: reward against risk, for the optimized policy and for aimed ones.

Eight doses and a patient's four measurements. What helps and what harms agree in part, and the safe
policy avoids harm roughly. From 1,000 training rows a loss model is fitted, by which the optimized
policy is aimed; `choose` says how hard. Each of them is calibrated on the same 1,000 other rows.
Ten runs; risk and reward are known because the world is simulated.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tether
from tether.aiming import aimed_candidates, fit_loss

ALPHA, ROWS, RUNS, ACTIONS = 0.1, 1_000, 10, np.arange(8)
COLORS = {"clip": "#888888", "aimed": "#1f5fa8", "chosen": "#117733"}
Served = dict[str, tuple[tether.Policy, tuple[float, float]]]
"""What was calibrated, and the risk and reward of what is served of it."""

world = np.random.default_rng(8)
to_reward, to_other, habit = world.normal(size=(3, 4, 8)) / 2
to_harm = 0.8 * to_reward + 0.8 * to_other
population = world.normal(size=(2_000, 4))
safe = tether.Categorical.from_logits(lambda x: x @ habit - x @ to_harm, actions=ACTIONS)
optimized = tether.Categorical.from_logits(lambda x: x @ habit + x @ to_reward, actions=ACTIONS)


def treat(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return patients, the doses of the safe policy, harms and benefits."""
    x = population[rng.integers(len(population), size=ROWS)]
    doses = safe.sample(x, rng)
    rows = np.arange(ROWS)
    harms = rng.random(ROWS) < _harm(x)[rows, doses]
    return x, doses, harms.astype(float), (x @ to_reward)[rows, doses]


def outcome(policy: tether.Policy) -> tuple[float, float]:
    """Return the true risk and reward of a policy."""
    chances = np.exp(policy.log_prob_all(population))
    tables = (_harm(population), population @ to_reward)
    risk, reward = ((chances * table).sum(axis=1).mean() for table in tables)
    return float(risk), float(reward)


def frontier(policy: tether.Policy) -> np.ndarray:
    """Return risk and reward at every beta."""
    betas = np.exp(np.linspace(-3, 6, 60))
    return np.array([outcome(tether.Tethered(safe, policy, beta)) for beta in [0.0, *betas]])


def run(rng: np.random.Generator) -> Served:
    """Calibrate clip, aimed and chosen; return what was calibrated, and what is served of it."""
    x, doses, harms, benefits = treat(rng)  # training rows
    loss_model = fit_loss(x, doses, harms, rng=rng, policies=(safe, optimized))
    aimed = tether.aim(optimized, loss_model, x, ALPHA)
    print(aimed)
    choice = tether.choose(
        aimed_candidates(optimized, ALPHA),
        safe=safe,
        contexts=x,
        actions=doses,
        losses=harms,
        rewards=benefits,
        alpha=ALPHA,
        rng=rng,
    )
    print(choice)
    x, doses, harms, _ = treat(rng)  # calibration rows, which nothing has seen
    served = {}
    for name, policy in {"clip": optimized, "aimed": aimed.policy, "chosen": choice.policy}.items():
        found = tether.calibrate(tether.make_log(safe, policy, x, doses, harms), alpha=ALPHA)
        served[name] = policy, outcome(tether.Tethered(safe, policy, found))
    return served


def draw(runs: list[Served], path: Path) -> None:
    """Draw what is served in every run, its mean, and the frontiers of the first run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.9), facecolor="white")
    axes = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.97, top=0.79, bottom=0.12)
    for name, color in COLORS.items():
        risks, rewards = frontier(runs[0][name][0]).T
        axes.plot(100 * risks, rewards, color=color, lw=1.6)
        points = np.array([run[name][1] for run in runs]) * [100, 1]
        axes.plot(*points.T, ".", color=color, ms=5, alpha=0.6)
        axes.plot(*points.mean(axis=0), "o", color=color, ms=10, label=f"{name}, calibrated")
    axes.plot(100 * risks[0], rewards[0], "s", color="#333333", ms=8, label="safe policy")
    axes.axvline(100 * ALPHA, color="#c8442f", lw=1.4)
    axes.text(100 * ALPHA, axes.get_ylim()[0], " alpha", va="bottom", color="#c8442f")
    axes.set_xlabel("patients harmed in 100", fontsize=10.5)
    axes.set_title("Benefit per patient", loc="left", fontsize=11.5)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e8e8e8", lw=0.8)
    axes.set_axisbelow(True)
    title = "The same alpha buys more where harm is foreseen"
    figure.text(0.1, 0.93, title, fontsize=15, weight="bold")
    subtitle = (
        f"Dots: what calibration on {ROWS:,} rows allows in {len(runs)} runs, and their mean. "
        f"Curves: every beta, in the first run."
    )
    figure.text(0.1, 0.885, subtitle, fontsize=8.5, color="#666666")
    figure.savefig(path, dpi=160)


def _harm(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(3 - 2 * x @ to_harm)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path, default=Path("docs/pictures/aim.png"))
    found = [run(np.random.default_rng(seed)) for seed in range(RUNS)]
    draw(found, parser.parse_args().path)
    for name in COLORS:
        risk, reward = np.mean([served[name][1] for served in found], axis=0)
        print(f"{name:<7} mean risk {risk:.3f}, mean benefit {reward:.2f}")
