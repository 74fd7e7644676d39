"""Draws docs/feedback_loop.png: ten rounds of learning from what one did oneself.

A clinic has two hundred kinds of patients and eight treatments. The better a treatment pays, the
more often it harms. The optimizer follows what paid and avoids what was seen to harm. Judged on the
rows it learned from, its policy always looks safe: it goes where harm has not been seen *yet*, and
the next round begins with data from there. Needs the extra `demo`.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import tether

KINDS, TREATMENTS, ROWS, ROUNDS, RUNS = 200, 8, 400, 10, 100
ALPHA = 0.1
RED, BLUE, DARK = "#c8442f", "#1f5fa8", "#3c3c3c"


class Clinic:
    """Tables of kinds × treatments: how often each harms and how well it pays."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.gain = rng.normal(size=(KINDS, TREATMENTS))
        dangerous = rng.random(self.gain.shape) < 1 / (1 + np.exp(0.5 - 1.5 * self.gain))
        self.harm = np.where(dangerous, 0.5, 0.01)
        usual = np.argmin(self.harm + 0.05 * self.gain, axis=1)
        table = np.full(self.gain.shape, 0.2 / (TREATMENTS - 1))
        table[np.arange(KINDS), usual] = 0.8
        self.safe = tether.Categorical.from_probabilities(table)

    def table(self, policy: Any) -> np.ndarray:
        """The probability of every treatment for every kind."""
        return np.exp(policy.log_prob_all(np.arange(KINDS)))

    def truth(self, policy: Any) -> tuple[float, float]:
        """The harm and the gain that a policy has in expectation."""
        table = self.table(policy)
        return float((table * self.harm).sum() / KINDS), float((table * self.gain).sum() / KINDS)

    def outcome(self, kinds: np.ndarray, done: np.ndarray, rng: Any) -> tuple[Any, Any]:
        """Whether each patient was harmed, and how well the treatment paid."""
        harmed = rng.random(len(kinds)) < self.harm[kinds, done]
        return harmed.astype(float), self.gain[kinds, done] + 0.5 * rng.normal(size=len(kinds))

    def learn(self, kinds: Any, done: Any, harmed: Any, paid: Any) -> tether.Categorical:
        """Follows what paid, avoids what harmed, by the means of each kind and treatment."""
        sums = np.zeros((3, KINDS, TREATMENTS))
        for table, values in zip(sums, (np.ones(len(kinds)), paid, harmed), strict=True):
            np.add.at(table, (kinds, done), values)
        count, gain, harm = sums
        score = gain / (count + 0.5) - 4 * harm / (count + 0.5)
        usual = np.log(self.table(self.safe))
        return tether.Categorical.from_logits(0.5 * usual + 3 * score)


def naive(clinic: Clinic, rng: np.random.Generator, rounds: int = ROUNDS) -> np.ndarray:
    """Weigh all data so far, deploy the boldest policy that looks safe on it, learn from it again.

    Harm, gain and the harm it expected, of each round.
    """
    policy, tables, found, looks = clinic.safe, [], [], np.nan
    columns: list[np.ndarray] = [np.empty(0, int), np.empty(0, int), np.empty(0), np.empty(0)]
    for _ in range(rounds):
        found.append((*clinic.truth(policy), looks))
        tables.append(clinic.table(policy))
        kinds = rng.integers(KINDS, size=ROWS)
        done = policy.sample(kinds, rng)
        more = (kinds, done, *clinic.outcome(kinds, done, rng))
        columns = [np.concatenate(pair) for pair in zip(columns, more, strict=True)]
        kinds, done, harmed, _ = columns
        mix = np.mean(tables, axis=0)[kinds, done]
        optimized, policy = clinic.learn(*columns), clinic.safe
        for beta in [*np.exp(np.linspace(-6, 8, 57)), np.inf]:
            bolder = tether.Tethered(clinic.safe, optimized, beta)
            estimate = (clinic.table(bolder)[kinds, done] / mix * harmed).mean()
            if estimate <= ALPHA:
                policy, looks = bolder, estimate
    return np.array(found)


def tethered(
    clinic: Clinic, rng: np.random.Generator, seed: int, rounds: int = ROUNDS
) -> np.ndarray:
    """The same optimizer on the controller's tether; the monitor is off, so that no alarm helps."""
    found, optimized = [], None
    with tether.Controller(
        clinic.safe, alpha=ALPHA, store="sqlite://", alarm_risk=0.999, seed=seed
    ) as run:
        for _ in range(rounds):
            begun = run.begin(optimized)
            taken = begun.act(rng.integers(KINDS, size=ROWS), rng)
            begun.observe(taken.ids, *clinic.outcome(taken.contexts, taken.actions, rng))
            found.append((*clinic.truth(begun.policy), np.nan))
            rows = run.training_rows()
            optimized = clinic.learn(rows.contexts, rows.actions, rows.loss, rows.reward)
    return np.array(found)


def simulated(runs: int) -> dict[str, np.ndarray]:
    """Runs × rounds × (harm, gain, harm expected) of both procedures."""
    clinic = Clinic()
    return {
        "naive": np.stack([naive(clinic, np.random.default_rng([k, 0])) for k in range(runs)]),
        "tether": np.stack(
            [tethered(clinic, np.random.default_rng([k, 1]), k) for k in range(runs)]
        ),
    }


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over runs."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def readings(found: dict[str, np.ndarray]) -> tuple[str, str]:
    """What to see in each panel: a sentence."""
    harm = {name: 100 * runs[:, 1:, 0].mean(axis=0) for name, runs in found.items()}
    expected = 100 * found["naive"][:, 1:, 2].mean(axis=0)
    gain = {name: runs[:, -1, 1].mean() for name, runs in found.items()}
    return (
        f"The naive policy expects to harm {expected.min():.0f} to {expected.max():.0f} in 100 and "
        f"harms {harm['naive'].min():.0f} to {harm['naive'].max():.0f}: on the rows it learned "
        f"from, it has moved away from all the harm there is. Tether harms at most "
        f"{harm['tether'].max():.1f}.",
        f"Within what is tolerated, tether gains from round to round: by the last one "
        f"{gain['tether'] - found['tether'][0, 0, 1]:.2f} more than the safe policy. The rest of "
        f"what the naive policy gains is bought with harm.",
    )


def draw(found: dict[str, np.ndarray], path: Path) -> None:
    """Two panels along the rounds: harm beside alpha, and gain."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.0), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.52})
    figure.subplots_adjust(left=0.065, right=0.875, top=0.775, bottom=0.255)
    rounds, safe = np.arange(1, ROUNDS + 1), found["tether"][0, 0, :2]
    edges = (0.6, ROUNDS + 0.4)
    top = 112 * found["naive"][:, :, 0].mean(axis=0).max()
    left.fill_between(edges, 100 * ALPHA, top, color=RED, alpha=0.07, lw=0)
    left.axhline(100 * ALPHA, color=RED, lw=1)
    left.set_ylim(0, top)
    left.text(0.03, 0.97, "more than tolerated", color=RED, va="top", transform=left.transAxes)
    expected = 100 * found["naive"][:, :, 2].mean(axis=0)
    left.plot(rounds, expected, color=RED, lw=1.8, ls=(0, (1, 1.6)))
    for axis, column, scale in ((left, 0, 100), (right, 1, 1)):
        for name, color in (("naive", RED), ("tether", BLUE)):
            mean, error = mean_and_error(scale * found[name][:, :, column])
            axis.errorbar(rounds, mean, error, color=color, lw=2.2, marker="o", ms=5, capsize=3)
            axis.text(ROUNDS + 0.6, mean[-1], name, color=color, fontsize=10.5, va="center")
        axis.plot(edges, [scale * safe[column]] * 2, color=DARK, ls=(0, (5, 2.5)), lw=1.8)
        axis.text(
            ROUNDS + 0.6, scale * safe[column], "safe", color=DARK, fontsize=10.5, va="center"
        )
        axis.set_xlim(edges)
        axis.set_xticks(rounds)
        axis.set_xlabel("round", fontsize=10.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e8e8e8", lw=0.8)
        axis.set_axisbelow(True)
    left.text(ROUNDS + 0.6, expected[-1], "naive: expected", color=RED, fontsize=10.5, va="center")
    left.set_title("Patients harmed in 100", loc="left", fontsize=12, pad=10)
    right.set_title("Gain of a treatment", loc="left", fontsize=12, pad=10)
    about = (
        f"{KINDS} kinds of patients, {TREATMENTS} treatments, {ROWS} patients a round, alpha = "
        f"{ALPHA:g}; means of {len(found['naive'])} runs, ± one standard error"
    )
    figure.text(0.065, 0.875, about, fontsize=10, color="#666666")
    title = "Learning from what one did oneself"
    figure.text(0.065, 0.925, title, fontsize=17, weight="bold")
    for axis, sentence in zip((left, right), readings(found), strict=True):
        x = axis.get_position().x0
        figure.text(x, 0.135, textwrap.fill(sentence, 62), fontsize=10, color="#444444", va="top")
    figure.savefig(path, dpi=160)


def main() -> None:
    """Simulate, print what came of it, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=Path("docs/feedback_loop.png"))
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    found = simulated(arguments.runs)
    for name, runs in found.items():
        mean, error = mean_and_error(runs[:, :, 0])
        shown = ", ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
        print(f"{name}: harm by round {shown}")
    print(*readings(found), sep="\n")
    draw(found, arguments.path)
    print(f"drawn in {arguments.path}")


if __name__ == "__main__":
    main()
