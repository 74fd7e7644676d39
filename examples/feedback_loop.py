"""Draws docs/pictures/feedback_loop.png: ten rounds of learning from one's own actions.

A clinic has two hundred kinds of patients and eight treatments. The larger the gain of a treatment,
the more often it harms. The optimizer prefers treatments with observed gains and avoids those with
observed harm. On the rows it learned from, its policy always looks safe: it moves to treatments
whose harm has not been observed *yet*, and the next round starts with data from there. Needs the
extra `demo`.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import numpy as np

import tether

KINDS, TREATMENTS = 200, 8
PATIENTS_PER_ROUND, ROUNDS, RUNS = 400, 10, 100
ALPHA = 0.1
NAIVE_COLOR, TETHER_COLOR, SAFE_COLOR = "#c8442f", "#1f5fa8", "#3c3c3c"
HARM, GAIN, EXPECTED_HARM = 0, 1, 2
"""The columns of the results, which have one row per round."""


class Clinic:
    """Tables of kinds × treatments: the probability of harm and the mean gain of each."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.gain = rng.normal(size=(KINDS, TREATMENTS))
        dangerous = rng.random(self.gain.shape) < 1 / (1 + np.exp(0.5 - 1.5 * self.gain))
        self.harm = np.where(dangerous, 0.5, 0.01)
        preferred = np.argmin(self.harm + 0.05 * self.gain, axis=1)
        probabilities = np.full(self.gain.shape, 0.2 / (TREATMENTS - 1))
        probabilities[np.arange(KINDS), preferred] = 0.8
        self.safe = tether.Categorical.from_probabilities(probabilities)

    def probabilities(self, policy: tether.Policy) -> np.ndarray:
        """The probability of every treatment for every kind of patient."""
        return np.exp(policy.log_prob_all(np.arange(KINDS)))

    def expected_outcome(self, policy: tether.Policy) -> tuple[float, float]:
        """The true expected harm and gain of a policy."""
        table = self.probabilities(policy)
        return float((table * self.harm).sum() / KINDS), float((table * self.gain).sum() / KINDS)

    def observe(
        self, kinds: np.ndarray, treatments: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sample whether each patient is harmed, and the gain of the treatment."""
        harmed = rng.random(len(kinds)) < self.harm[kinds, treatments]
        gains = self.gain[kinds, treatments] + 0.5 * rng.normal(size=len(kinds))
        return harmed.astype(float), gains

    def learn(
        self, kinds: np.ndarray, treatments: np.ndarray, harmed: np.ndarray, gains: np.ndarray
    ) -> tether.Categorical:
        """Prefer gains and avoid harm, by their means for each kind and treatment."""
        sums = np.zeros((3, KINDS, TREATMENTS))
        for table, values in zip(sums, (np.ones(len(kinds)), gains, harmed), strict=True):
            np.add.at(table, (kinds, treatments), values)
        count, gain, harm = sums
        score = gain / (count + 0.5) - 4 * harm / (count + 0.5)
        log_safe = np.log(self.probabilities(self.safe))
        return tether.Categorical.from_logits(0.5 * log_safe + 3 * score)


def run_naive(clinic: Clinic, rng: np.random.Generator, rounds: int = ROUNDS) -> np.ndarray:
    """Deploy the largest beta that looks safe on all weighted data so far, and learn from it.

    Returns the harm, the gain and the expected harm of each round.
    """
    policy, past_probabilities, results, expected_harm = clinic.safe, [], [], np.nan
    columns: list[np.ndarray] = [np.empty(0, int), np.empty(0, int), np.empty(0), np.empty(0)]
    for _ in range(rounds):
        results.append((*clinic.expected_outcome(policy), expected_harm))
        past_probabilities.append(clinic.probabilities(policy))
        kinds = rng.integers(KINDS, size=PATIENTS_PER_ROUND)
        treatments = policy.sample(kinds, rng)
        new_columns = (kinds, treatments, *clinic.observe(kinds, treatments, rng))
        columns = [np.concatenate(pair) for pair in zip(columns, new_columns, strict=True)]
        kinds, treatments, harmed, _ = columns
        mixture = np.mean(past_probabilities, axis=0)[kinds, treatments]
        optimized, policy = clinic.learn(*columns), clinic.safe
        for beta in [*np.exp(np.linspace(-6, 8, 57)), np.inf]:
            candidate = tether.Tethered(clinic.safe, optimized, beta)
            weights = clinic.probabilities(candidate)[kinds, treatments] / mixture
            estimate = (weights * harmed).mean()
            if estimate <= ALPHA:
                policy, expected_harm = candidate, estimate
    return np.array(results)


def run_tethered(
    clinic: Clinic, rng: np.random.Generator, seed: int, rounds: int = ROUNDS
) -> np.ndarray:
    """Run the same optimizer with the controller; the monitor is off, so that no alarm helps."""
    results, optimized = [], None
    with tether.Controller(
        clinic.safe, alpha=ALPHA, store="sqlite://", alarm_risk=0.999, seed=seed
    ) as controller:
        for _ in range(rounds):
            round_ = controller.begin(optimized)
            taken = round_.act(rng.integers(KINDS, size=PATIENTS_PER_ROUND), rng)
            round_.observe(taken.ids, *clinic.observe(taken.contexts, taken.actions, rng))
            results.append((*clinic.expected_outcome(round_.policy), np.nan))
            rows = controller.training_rows()
            optimized = clinic.learn(rows.contexts, rows.actions, rows.loss, rows.reward)
    return np.array(results)


def simulate(runs: int) -> dict[str, np.ndarray]:
    """Run both procedures; each result has the shape runs × rounds × columns."""
    clinic = Clinic()
    naive = [run_naive(clinic, np.random.default_rng([run, 0])) for run in range(runs)]
    tethered = [run_tethered(clinic, np.random.default_rng([run, 1]), run) for run in range(runs)]
    return {"naive": np.stack(naive), "tether": np.stack(tethered)}


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over runs and its standard error."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def summarize(results: dict[str, np.ndarray]) -> tuple[str, str]:
    """Describe what each panel shows."""
    harm = {name: 100 * runs[:, 1:, HARM].mean(axis=0) for name, runs in results.items()}
    expected = 100 * results["naive"][:, 1:, EXPECTED_HARM].mean(axis=0)
    safe_gain = results["tether"][0, 0, GAIN]
    gain = {name: runs[:, -1, GAIN].mean() for name, runs in results.items()}
    return (
        f"The naive policy expects to harm {expected.min():.0f} to {expected.max():.0f} in 100 and "
        f"harms {harm['naive'].min():.0f} to {harm['naive'].max():.0f}: on the rows it learned "
        f"from, it has moved away from all the harm there is. Tether harms at most "
        f"{harm['tether'].max():.1f}.",
        f"Within what is tolerated, tether gains from round to round: by the last one "
        f"{gain['tether'] - safe_gain:.2f} more than the safe policy. The rest of "
        f"what the naive policy gains is bought with harm.",
    )


def draw(results: dict[str, np.ndarray], path: Path) -> None:
    """Draw two panels along the rounds: harm compared with alpha, and gain."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.0), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.52})
    figure.subplots_adjust(left=0.065, right=0.875, top=0.775, bottom=0.255)
    rounds, safe = np.arange(1, ROUNDS + 1), results["tether"][0, 0, :EXPECTED_HARM]
    limits = (0.6, ROUNDS + 0.4)
    top = 112 * results["naive"][:, :, HARM].mean(axis=0).max()
    left.fill_between(limits, 100 * ALPHA, top, color=NAIVE_COLOR, alpha=0.07, lw=0)
    left.axhline(100 * ALPHA, color=NAIVE_COLOR, lw=1)
    left.set_ylim(0, top)
    left.text(
        0.03, 0.97, "more than tolerated", color=NAIVE_COLOR, va="top", transform=left.transAxes
    )
    expected = 100 * results["naive"][:, :, EXPECTED_HARM].mean(axis=0)
    left.plot(rounds, expected, color=NAIVE_COLOR, lw=1.8, ls=(0, (1, 1.6)))
    for axes, column, scale in ((left, HARM, 100), (right, GAIN, 1)):
        for name, color in (("naive", NAIVE_COLOR), ("tether", TETHER_COLOR)):
            mean, error = mean_and_error(scale * results[name][:, :, column])
            axes.errorbar(rounds, mean, error, color=color, lw=2.2, marker="o", ms=5, capsize=3)
            axes.text(ROUNDS + 0.6, mean[-1], name, color=color, fontsize=10.5, va="center")
        axes.plot(limits, [scale * safe[column]] * 2, color=SAFE_COLOR, ls=(0, (5, 2.5)), lw=1.8)
        axes.text(
            ROUNDS + 0.6, scale * safe[column], "safe", color=SAFE_COLOR, fontsize=10.5, va="center"
        )
        axes.set_xlim(limits)
        axes.set_xticks(rounds)
        axes.set_xlabel("round", fontsize=10.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e8e8e8", lw=0.8)
        axes.set_axisbelow(True)
    left.text(
        ROUNDS + 0.6, expected[-1], "naive: expected", color=NAIVE_COLOR, fontsize=10.5, va="center"
    )
    left.set_title("Patients harmed in 100", loc="left", fontsize=12, pad=10)
    right.set_title("Gain of a treatment", loc="left", fontsize=12, pad=10)
    subtitle = (
        f"{KINDS} kinds of patients, {TREATMENTS} treatments, {PATIENTS_PER_ROUND} patients a "
        f"round, alpha = {ALPHA:g}; means of {len(results['naive'])} runs, ± one standard error"
    )
    figure.text(0.065, 0.875, subtitle, fontsize=10, color="#666666")
    title = "Learning from what one did oneself"
    figure.text(0.065, 0.925, title, fontsize=17, weight="bold")
    for axes, sentence in zip((left, right), summarize(results), strict=True):
        x = axes.get_position().x0
        figure.text(x, 0.135, textwrap.fill(sentence, 62), fontsize=10, color="#444444", va="top")
    figure.savefig(path, dpi=160)


def main() -> None:
    """Run the simulation, print the results and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path("docs/pictures/feedback_loop.png")
    parser.add_argument("path", nargs="?", type=Path, default=default)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    results = simulate(arguments.runs)
    for name, runs in results.items():
        mean, error = mean_and_error(runs[:, :, HARM])
        harm = ", ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
        print(f"{name}: harm by round {harm}")
    print(*summarize(results), sep="\n")
    draw(results, arguments.path)
    print(f"saved in {arguments.path}")


if __name__ == "__main__":
    main()
