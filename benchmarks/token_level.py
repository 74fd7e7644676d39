"""What a tether at every token earns, beside clip, mix and best of 16, at equal alpha.

Languages of `benchmarks.markov_language`, over answer lengths, divergences and rounds. In each
round a family is calibrated on all rows so far, against the mixture of what served, and serves. All
families are calibrated in the same way: on a grid of betas, by the definition of the condition.
Clip gives up after 16 draws, as it does with contexts. A cell has the reward that is gained over
the safe model, in standard deviations of its answers' rewards, and the true risk.

    python -m benchmarks.token_level --runs 20
    python -m benchmarks.token_level --only token --runs 8 --lengths 16 64
    python -m benchmarks.token_level --smoothness
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.markov_language import LOG_BETAS, MarkovLanguage, log_densities

ALPHA, ROWS, ROUNDS, BUDGET, POOL = 0.1, 500, 4, 16, 20_000
DRAWS_PER_LEVEL = 32
FAMILIES = ("token clip", "token mix", "clip", "mix", "best of 16")


@dataclass(frozen=True)
class Answers:
    """Answers with their scores, losses and rewards."""

    log_safe: np.ndarray
    log_optimized: np.ndarray
    loss: np.ndarray
    reward: np.ndarray


@dataclass(frozen=True)
class Bench:
    """A language, and pools of answers of both models from which draws are taken."""

    world: MarkovLanguage

    @cached_property
    def pools(self) -> dict[str, Answers]:
        """Answers of the safe and of the optimized model."""
        rng = np.random.default_rng(1)
        models = {"safe": self.world.safe, "optimized": self.world.optimized}
        return {
            name: self.scored(self.world.draw(each, POOL, rng)) for name, each in models.items()
        }

    def scored(self, pairs: np.ndarray) -> Answers:
        """Answers with everything that is known of them."""
        scores = log_densities(pairs, np.array([self.world.safe, self.world.optimized]))
        return Answers(*scores.T, self.world.losses(pairs), self.world.rewards(pairs))

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The mean and the standard deviation of the safe model's rewards."""
        return self.world.mean_reward(self.world.safe), float(self.pools["safe"].reward.std())

    def taken(self, source: str, size, rng: np.random.Generator) -> Answers:
        """Answers drawn from a pool."""
        pool, index = self.pools[source], rng.integers(POOL, size=size)
        return Answers(*(getattr(pool, name)[index] for name in Answers.__annotations__))


def largest_passing(log_weights, log_test, loss) -> int:
    """The column of the largest beta that passes with all smaller ones; −1 for none."""
    top = np.maximum(log_weights.max(axis=0), log_test)
    weights, test = np.exp(log_weights - top), np.exp(log_test - top)
    risk = (loss @ weights + test) / (weights.sum(axis=0) + test)
    failing = np.flatnonzero(risk > ALPHA + 1e-12)
    return int(failing[0]) - 1 if len(failing) else log_weights.shape[1] - 1


def mixture(log_safe, table, served) -> np.ndarray:
    """The log-density of the mixture of what served: −1 is the safe model, else a column."""
    each = [log_safe if column < 0 else table[..., column] for column in served]
    return np.logaddexp.reduce(each, axis=0) - np.log(len(served))


def token_rounds(bench: Bench, family: str, rng: np.random.Generator) -> list:
    """The policy that is tethered at every token."""
    world = bench.world
    path = np.concatenate([world.token_path(family), world.optimized[None]])
    served, rows, shown = [-1], [], []
    for _ in range(ROUNDS):
        model = world.safe if served[-1] < 0 else path[served[-1]]
        rows.append(world.draw(model, ROWS, rng))
        pairs = np.concatenate(rows)
        table, answers = log_densities(pairs, path), bench.scored(pairs)
        log_mix = mixture(answers.log_safe, table, served)
        drawn = np.concatenate([world.draw(each, DRAWS_PER_LEVEL, rng) for each in path])
        at = np.repeat(np.arange(len(path)), DRAWS_PER_LEVEL)
        drawn_table = log_densities(drawn, path)
        drawn_mix = mixture(bench.scored(drawn).log_safe, drawn_table, served)
        log_test = [(drawn_table[at <= k, k] - drawn_mix[at <= k]).max() for k in range(len(path))]
        served.append(largest_passing(table - log_mix[:, None], np.array(log_test), answers.loss))
        model = world.safe if served[-1] < 0 else path[served[-1]]
        shown.append((world.risk(model), world.mean_reward(model), 1.0))
    return shown


def mix_rounds(bench: Bench, rng: np.random.Generator) -> list:
    """The safe or the optimized model answers, as beta says."""
    betas, share = np.linspace(-14, 10, 97), 1 / (1 + np.exp(-np.linspace(-14, 10, 97)))
    ends = [bench.world.safe, bench.world.optimized]
    risks, rewards = (
        [f(each) for each in ends] for f in (bench.world.risk, bench.world.mean_reward)
    )

    def density(answers):
        both = np.logaddexp(answers.log_safe[:, None], answers.log_optimized[:, None] + betas)
        return both - np.logaddexp(0, betas)

    def draw(column):
        count = rng.binomial(ROWS, share[column])
        return joined(
            [bench.taken("safe", ROWS - count, rng), bench.taken("optimized", count, rng)]
        )

    def value(column):
        s = 0.0 if column < 0 else share[column]
        return (1 - s) * risks[0] + s * risks[1], (1 - s) * rewards[0] + s * rewards[1], 1.0

    return _answer_rounds(bench, density, draw, value, rng)


def clip_rounds(bench: Bench, rng: np.random.Generator) -> list:
    """Accept-reject on whole answers; after 16 rejected draws the safe model answers."""
    ratios = [each.log_optimized - each.log_safe for each in bench.pools.values()]
    ranks = np.linspace(0, 1, 49)
    betas = np.unique(np.concatenate([np.quantile(each, ranks) for each in ratios]))

    def accept(log_ratio, log_beta):
        return np.exp(np.minimum(0, log_ratio - log_beta if log_beta < 0 else log_beta - log_ratio))

    accepted = [accept(ratios[int(beta >= 0)], beta) for beta in betas]
    p = np.array([each.mean() for each in accepted])
    fallback = (1 - p) ** BUDGET
    tries = np.where(p > 0, (1 - fallback) / np.maximum(p, 1e-300), BUDGET)

    def density(answers):
        log_ratio = (answers.log_optimized - answers.log_safe)[:, None]
        proposed = np.minimum(log_ratio, betas) - np.minimum(betas, 0)
        with np.errstate(divide="ignore"):
            both = np.logaddexp(np.log(tries) + proposed, np.log(fallback))
        return answers.log_safe[:, None] + both

    def draw(column):
        beta = betas[column]
        proposed = bench.taken("safe" if beta < 0 else "optimized", (ROWS, BUDGET), rng)
        log_ratio = proposed.log_optimized - proposed.log_safe
        good = rng.random((ROWS, BUDGET)) < accept(log_ratio, beta)
        first, instead = good.argmax(axis=1), bench.taken("safe", ROWS, rng)
        return Answers(
            *(
                np.where(
                    good.any(axis=1),
                    getattr(proposed, name)[np.arange(ROWS), first],
                    getattr(instead, name),
                )
                for name in Answers.__annotations__
            )
        )

    def value(column):
        safe = bench.pools["safe"]
        if column < 0:
            return safe.loss.mean(), safe.reward.mean(), 1.0
        pool, weight = list(bench.pools.values())[int(betas[column] >= 0)], accepted[column]
        rest = fallback[column]
        return (
            *(
                (1 - rest) * (weight @ getattr(pool, name)) / max(weight.sum(), 1e-300)
                + rest * getattr(safe, name).mean()
                for name in ("loss", "reward")
            ),
            tries[column] + rest,
        )

    return _answer_rounds(bench, density, draw, value, rng)


def _answer_rounds(bench, density, draw, value, rng) -> list:
    """Rounds of a family whose density follows from the scores of whole answers."""
    served, rows, shown = [-1], [], []
    for _ in range(ROUNDS):
        rows.append(bench.taken("safe", ROWS, rng) if served[-1] < 0 else draw(served[-1]))
        answers = joined(rows)
        table = density(answers)
        fresh = joined([bench.taken(name, 320, rng) for name in bench.pools])
        fresh_table = density(fresh)
        log_test = fresh_table - mixture(fresh.log_safe, fresh_table, served)[:, None]
        log_weights = table - mixture(answers.log_safe, table, served)[:, None]
        served.append(largest_passing(log_weights, log_test.max(axis=0), answers.loss))
        shown.append(value(served[-1]))
    return shown


def best_rounds(bench: Bench, rng: np.random.Generator) -> list:
    """16 answers of the safe model, of which one is picked by its log ratio, clipped."""

    def score_of(answers):
        ratio = answers.log_optimized - answers.log_safe
        return ratio - np.logaddexp.reduce(ratio, axis=1)[:, None]

    known = score_of(bench.taken("safe", (1_000, BUDGET), rng)) + np.log(BUDGET)
    betas = np.unique(np.append(np.quantile(known, np.linspace(0, 1, 48)), np.log(BUDGET)))

    def table_of(answers, betas=betas):
        kernel = np.minimum(score_of(answers)[:, :, None], betas - np.log(BUDGET))
        return kernel - np.logaddexp.reduce(kernel, axis=1)[:, None]

    def chances(answers, column):
        if column < 0:
            return np.full(answers.loss.shape, 1 / BUDGET)
        return np.exp(table_of(answers, betas[[column]])[:, :, 0])

    served, rows, picked, shown = [-1], [], [], []
    for _ in range(ROUNDS):
        rows.append(bench.taken("safe", (ROWS, BUDGET), rng))
        chance = chances(rows[-1], served[-1]).cumsum(axis=1)
        level = rng.random(ROWS)[:, None] * chance[:, -1:]
        picked.append((level > chance).sum(axis=1))
        answers, index = joined(rows), np.concatenate(picked)
        table = table_of(answers)
        uniform = np.full(table.shape[:2], -np.log(BUDGET))
        log_weights = table - mixture(uniform, table, served)[:, :, None]
        own = np.arange(len(index)), index
        served.append(
            largest_passing(log_weights[own], log_weights.max(axis=(0, 1)), answers.loss[own])
        )
        new = bench.taken("safe", (2_000, BUDGET), rng)
        chance = chances(new, served[-1])
        shown.append(
            (*((chance * each).sum(axis=1).mean() for each in (new.loss, new.reward)), BUDGET)
        )
    return shown


def joined(parts) -> Answers:
    """Answers one below the other."""
    return Answers(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in Answers.__annotations__
        )
    )


def run(bench: Bench, family: str, rng: np.random.Generator) -> np.ndarray:
    """Risk, reward and draws per answer in every round."""
    if family.startswith("token"):
        return np.array(token_rounds(bench, family.split()[1], rng))
    return np.array(
        {"clip": clip_rounds, "mix": mix_rounds, "best of 16": best_rounds}[family](bench, rng)
    )


def smoothness(bench: Bench, family: str, rng: np.random.Generator) -> str:
    """How fast log-densities move with log beta, at draws of each policy of the path."""
    path = bench.world.token_path(family)
    slopes = []
    for column in range(0, len(path) - 1, 4):
        pairs = bench.world.draw(path[column], 200, rng)
        scores = log_densities(pairs, path[[column, column + 1]])
        slopes.append(np.abs(scores[:, 1] - scores[:, 0]) / (LOG_BETAS[1] - LOG_BETAS[0]))
    slope = np.array(slopes)
    return f"{np.sqrt((slope**2).mean(axis=1)).max():.2f} / {slope.max():.1f}"


def print_smoothness(arguments: argparse.Namespace) -> None:
    """A table of slopes: root mean square at the steepest beta / the largest of all."""
    print("| tokens | nats | token clip | token mix |\n| --- | --- | --- | --- |")
    for length in arguments.lengths:
        for nats in arguments.nats:
            if nats <= 2 * length:
                bench = Bench(MarkovLanguage(length, nats, "spread"))
                cells = [
                    smoothness(bench, family, np.random.default_rng(0))
                    for family in ("clip", "mix")
                ]
                print(f"| {length} | {nats:g} | {cells[0]} | {cells[1]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--harm", choices=("spread", "rare"), action="append")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--nats", type=float, nargs="+", default=[1, 5, 20, 40])
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--smoothness", action="store_true", help="slopes instead of rewards")
    arguments = parser.parse_args()
    if arguments.smoothness:
        return print_smoothness(arguments)
    families = [family for family in FAMILIES if arguments.only in family]
    print("| harm | tokens | nats | optimized | " + " | ".join(families) + " |")
    print("| --- " * (4 + len(families)) + "|")
    for harm in arguments.harm or ("spread", "rare"):
        for length in arguments.lengths:
            for nats in arguments.nats:
                if nats > 2 * length:
                    continue  # further than these models can be apart
                bench = Bench(MarkovLanguage(length, nats, harm))
                mean, deviation = bench.scale
                best = bench.world.optimized
                gain = (bench.world.mean_reward(best) - mean) / deviation
                cells = [f"{gain:.2f} ({bench.world.risk(best):.2f})"]
                for family in families:
                    runs = np.array(
                        [
                            run(bench, family, np.random.default_rng(k))
                            for k in range(arguments.runs)
                        ]
                    )
                    average = runs.mean(axis=0)
                    reward = (average[:, 1] - mean) / deviation
                    cell = f"{reward[0]:.2f} → {reward[-1]:.2f} ({average[-1, 0]:.3f})"
                    if family == "clip":
                        cell += f", {average[-1, 2]:.1f} draws"
                    cells.append(cell)
                print(f"| {harm} | {length} | {nats:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
