"""How much traffic may move to a cheap language model: `python -m experiments.routing`.

Both models' answers are known for every prompt. The log is made by a safe policy that shows it
one answer a prompt; the risk and the share of whatever is deployed are then exact on held-out
prompts, since the probabilities of both actions are known there and so are their losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression

import tether
from experiments import data, harness
from experiments.routing import figures

ACTIONS = ["cheap", "expensive"]
ALWAYS_CHEAP = tether.Categorical.from_probabilities([1.0, 0.0], actions=ACTIONS)
METHODS = ["clip", "mix", "budgeted_clip(8)", "marginal", "no router"]


@dataclass(frozen=True)
class Prompts:
    """What is known of each prompt: its number, and which model answers it rightly.

    The number of a prompt is what policies take as its context; repeats of a text share one.
    """

    number: np.ndarray
    benchmark: np.ndarray
    right: np.ndarray
    """A row a prompt; columns as in `ACTIONS`."""

    @property
    def loss(self) -> np.ndarray:
        """1 where the model is wrong and the expensive one is right: never for the expensive."""
        return (~self.right & self.right[:, [1]]).astype(float)

    def __getitem__(self, rows: np.ndarray) -> Prompts:
        return Prompts(self.number[rows], self.benchmark[rows], self.right[rows])

    def split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Prompts]:
        """Parts with so many distinct prompts each, and the rest; repeats stay together."""
        shuffled = rng.permutation(self.number.max() + 1)
        part = np.empty(len(shuffled), dtype=int)
        for which, numbers in enumerate(np.split(shuffled, np.cumsum(sizes))):
            part[numbers] = which
        return [self[np.flatnonzero(part[self.number] == k)] for k in range(len(sizes) + 1)]


def load(task: harness.Task) -> tuple[Prompts, Any]:
    """All prompts, and of each distinct one its words and pairs of words, hashed and counted."""
    table = data.load("routellm", stand_in=task.quick)
    counter = HashingVectorizer(
        ngram_range=(1, 2), n_features=task["features"], alternate_sign=False, norm=None
    )
    number, texts = table["prompt"].factorize()
    right = table[["correct_mixtral_8x7b", "correct_gpt4_1106"]].to_numpy()
    return Prompts(number, table["benchmark"].to_numpy(dtype=str), right), counter.transform(texts)


def learn(number: np.ndarray, lost: np.ndarray, words: Any, task: harness.Task) -> tether.Policy:
    """A router: logistic regression of whether the expensive model is needed, classes balanced.

    A model that regards every prompt alike would answer half and half; where the words say that the
    cheap model is rather safer than on average, it prefers the cheap one, the more so the colder.
    What it answers is tabled once for all prompts.
    """
    columns = TfidfTransformer(sublinear_tf=True).fit(words[number]).transform(words)
    router = LogisticRegression(C=task["strength"], class_weight="balanced", solver="liblinear")
    router.fit(columns[number], np.where(lost, "expensive", "cheap"))
    policy = tether.Categorical.from_classifier(router, temperature=task["temperature"])
    return tether.Categorical(policy.log_prob_all(columns), actions=policy.actions)


def safe_policy(cheap: float) -> tether.Policy:
    """The expensive model, but now and then, whatever the prompt, the cheap one."""
    return tether.Categorical.from_probabilities([cheap, 1 - cheap], actions=ACTIONS)


@dataclass(frozen=True)
class Trial:
    """One split: the safe policy, the router, and what the safe policy did on the log's prompts."""

    safe: Any
    router: Any
    log: Prompts
    actions: np.ndarray
    rng: np.random.Generator
    logs: dict[str, tether.Log] = field(default_factory=dict)

    @classmethod
    def begin(cls, safe: Any, router: Any, log: Prompts, rng: np.random.Generator) -> Trial:
        """Let the safe policy answer the log's prompts."""
        return cls(safe, router, log, safe.sample(log.number, rng), rng)

    @property
    def losses(self) -> np.ndarray:
        """What the logged answers cost: all that calibration is told of right and wrong."""
        return self.log.loss[np.arange(len(self.actions)), self._columns(self.actions)]

    def deploy(self, method: str, alpha: float) -> tuple[Any, Any]:
        """Calibrate one method at alpha: what was found, and the policy to serve."""
        if method == "marginal":
            return self._marginal(alpha)
        towards = "always cheap" if method == "no router" else "router"
        optimized = ALWAYS_CHEAP if method == "no router" else self.router
        if towards not in self.logs:
            self.logs[towards] = tether.make_log(
                self.safe, optimized, self.log.number, self.actions, self.losses
            )
        family = "mix" if method == "no router" else method
        found = tether.calibrate(self.logs[towards], alpha=alpha, family=family)
        return found, tether.Tethered(self.safe, optimized, found)

    def _marginal(self, alpha: float) -> tuple[Any, Any]:
        """Algorithm 1 to the letter: one normalizer for all prompts, and draws of the router.

        `Tethered` would refuse this calibration where there are contexts, so only its beta is used.
        """
        asked = self.log.number
        drawn = self.router.sample(asked, self.rng)
        found = tether.calibrate(
            tether.Log(
                self.losses,
                self.safe.log_prob(asked, self.actions),
                self.router.log_prob(asked, self.actions),
            ),
            tether.Proposals(self.safe.log_prob(asked, drawn), self.router.log_prob(asked, drawn)),
            alpha=alpha,
        )
        return found, tether.Tethered(self.safe, self.router, found.beta)

    @staticmethod
    def _columns(actions: np.ndarray) -> np.ndarray:
        return (actions == ACTIONS[1]).astype(int)


def measure(policy: Any, held_out: Prompts) -> dict[str, float]:
    """Exact on these prompts: share to the cheap model, risk and accuracy, also by benchmark."""
    chance = np.exp(policy.log_prob_all(held_out.number))
    chance = np.broadcast_to(chance, held_out.right.shape)
    risk, accuracy = (chance * held_out.loss).sum(axis=1), (chance * held_out.right).sum(axis=1)
    found = {"share": chance[:, 0].mean(), "risk": risk.mean(), "accuracy": accuracy.mean()}
    for name in np.unique(held_out.benchmark):
        chosen = held_out.benchmark == name
        found[f"share_{name}"] = chance[chosen, 0].mean()
        found[f"risk_{name}"] = risk[chosen].mean()
    return {name: float(value) for name, value in found.items()}


def trials(task: harness.Task, prompts: Prompts, words: Any) -> Iterator[dict[str, Any]]:
    """Every split, method and alpha, and for the first splits other safe policies and curves."""
    for split in range(task["splits"]):
        rng = np.random.default_rng([task["seed"], split])
        train, log, held_out = prompts.split([task["train_prompts"], task["log_prompts"]], rng)
        router = learn(train.number, train.loss[:, 0] > 0, words, task)
        first = split < task["exploration_splits"]
        for cheap in sorted({task["safe_cheap"], *(task["exploration"] if first else [])}):
            trial = Trial.begin(safe_policy(cheap), router, log, rng)
            shared, chosen = {"split": split, "safe_cheap": cheap}, cheap == task["safe_cheap"]
            for name, policy in (("safe", trial.safe), ("router", router)):
                yield {**shared, "method": name, **measure(policy, held_out)}
            for alpha in task["alphas"]:
                for method in METHODS if chosen else METHODS[:3]:
                    found, policy = trial.deploy(method, alpha)
                    measured = measure(policy, held_out)
                    more = {"alpha": alpha, "beta": found.beta, "safe_only": not found.exists}
                    more["promise"] = found.promise if first and chosen else np.nan
                    yield {**shared, "method": method, **more, **measured}
            if first and chosen:
                low, high, count = task["curve_betas"]
                for beta in np.geomspace(low, high, int(count)):
                    for family in ("clip", "mix"):
                        policy = tether.Tethered(trial.safe, router, float(beta), family=family)
                        more = {"method": f"curve of {family}", "beta": beta}
                        yield {**shared, **more, **measure(policy, held_out)}
        print(f"\rsplit {split + 1} of {task['splits']}", end="", flush=True)
    print()


def summarize(found: pd.DataFrame, by: list[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Mean and standard error over splits of the columns, one row for each group."""
    rows = []
    for key, group in found.groupby(by, sort=False, dropna=False):
        row = dict(zip(by, key, strict=True))
        for column in columns:
            row[column], row[f"{column}_error"] = harness.mean_and_error(group[column])
        rows.append(row | {"splits": len(group)})
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Clip, mix, budgeted clip and the marginal formula, and how much to explore."""
    task = harness.begin(__file__, arguments)
    prompts, words = load(task)
    found = pd.DataFrame(trials(task, prompts, words))
    found["safe_only"] = found["safe_only"].astype(float)
    curve = found["method"].str.startswith("curve")
    chosen = found[~curve & (found["safe_cheap"] == task["safe_cheap"])]
    columns = ["share", "risk", "accuracy", "safe_only"]
    rows = summarize(chosen, ["method", "alpha"], columns)
    for row in rows:
        same = (chosen["method"] == row["method"]) & (chosen["alpha"] == row["alpha"])
        if same.any():
            row["median_promise"] = float(chosen["promise"][same].median())
            row["holds_alpha"] = bool(row["risk"] <= row["alpha"] + 3 * row["risk_error"])
    names = np.unique(prompts.benchmark)
    parts = [f"{what}_{name}" for name in names for what in ("share", "risk")]
    tried = found[found["method"].isin(METHODS[:3]) & (found["split"] < task["exploration_splits"])]
    explored = summarize(tried, ["safe_cheap", "method", "alpha"], columns)
    curves = summarize(found[curve], ["method", "beta"], ["share", "risk"])
    task.table("routing", [*rows[2:], *rows[:2]])  # the two policies as they are have fewer cells
    task.table("benchmarks", summarize(chosen, ["method", "alpha"], parts))
    task.table("exploration", explored)
    task.table("curves", curves)
    task.figure("routing", figures.routing(rows, curves, task["alphas"]))
    task.figure("exploration", figures.exploration(explored, task["alphas"]))
    for row in rows:
        print(
            f"{row['method']:16s} alpha {row['alpha']:5g}: to the cheap model {row['share']:6.1%} "
            f"± {row['share_error']:.1%}, risk {row['risk']:.4f} ± {row['risk_error']:.4f}"
        )
    task.close()


if __name__ == "__main__":
    main()
