"""Worlds whose risks are known exactly: few contexts, finitely many actions, tables of both.

A Gaussian world is a fine grid of actions in a single context. The same world can be logged in
three ways: without contexts, with tables of all actions, or with draws of both policies in each
context.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tether

Array = np.ndarray


@dataclass(frozen=True)
class World:
    """Two policies over finitely many actions in each context, with losses and rewards.

    Tables are (contexts × actions). A loss is drawn with the probability in `loss`, unless
    `graded`, where it is that number itself.
    """

    name: str
    safe: Array
    optimized: Array
    loss: Array
    reward: Array
    contexts: Array
    view: str = "marginal"  # "tables" or "draws"
    draws: int = 0  # of each policy, in all or for each row
    graded: bool = False

    def policy(self, family: str, log_beta: float) -> Array:
        """The tethered policy's table, by the definition of the family."""
        if log_beta == -np.inf:
            return self.safe
        if log_beta == np.inf:
            return self.optimized
        beta = np.exp(log_beta)
        if family == "mix":
            return (self.safe + beta * self.optimized) / (1 + beta)
        kernel = np.minimum(self.optimized, beta * self.safe)
        psi = kernel.sum(axis=1, keepdims=True)
        if family == "clip":
            return kernel / psi
        budget = int(family.removeprefix("budgeted_clip(").rstrip(")"))
        accepted = 1 - (1 - psi / min(beta, 1.0)) ** budget
        return accepted * kernel / psi + (1 - accepted) * self.safe

    def mean(self, policy: Array, values: Array) -> float:
        """The expectation of losses or rewards under a policy."""
        return float(self.contexts @ (policy * values).sum(axis=1))

    def risk(self, family: str, log_beta: float) -> float:
        return self.mean(self.policy(family, log_beta), self.loss)

    def gain(self, family: str, log_beta: float) -> float:
        return self.mean(self.policy(family, log_beta) - self.safe, self.reward)

    def best_gain(self, family: str, tolerated: float) -> float:
        """The gain of the largest beta up to which every risk is tolerated."""
        log_betas = np.linspace(-12, 12, 961)
        risks = np.array([self.risk(family, each) for each in log_betas])
        passing = np.flatnonzero(np.cumsum(risks > tolerated) == 0)
        if not len(passing):
            return 0.0
        last = passing[-1] == len(risks) - 1 and self.risk(family, np.inf) <= tolerated
        return self.gain(family, np.inf if last else log_betas[passing[-1]])

    def rows(self, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Contexts, actions of the safe policy, and losses."""
        context = rng.choice(len(self.contexts), count, p=self.contexts)
        action = draw(self.safe[context], rng)
        chance = self.loss[context, action]
        return context, action, chance if self.graded else (rng.random(count) < chance) * 1.0

    def log(
        self, count: int, rng: np.random.Generator, *, rewards: bool = False
    ) -> tuple[tether.Log, tether.Proposals | None]:
        """A log of so many rows, and the proposals that go with it."""
        context, action, loss = self.rows(count, rng)
        with np.errstate(divide="ignore"):
            log_safe, log_optimized = np.log(self.safe), np.log(self.optimized)
        columns = {"log_safe": log_safe[context, action]}
        columns["log_optimized"] = log_optimized[context, action]
        if rewards:
            columns["reward"] = self.reward[context, action] + rng.normal(size=count)
        if self.view == "tables":
            tables = {
                "log_safe_all": log_safe[context],
                "log_optimized_all": log_optimized[context],
            }
            return tether.Log(loss, **columns, context=context, **tables), None
        where, label = np.zeros(self.draws, int), {}
        if self.view == "draws":
            where, row = np.repeat(context, self.draws), np.arange(count)
            columns["context"] = row
            label = {"context": np.tile(np.repeat(row, self.draws), 2)}
        log = tether.Log(loss, **columns)
        if not self.draws:
            return log, None
        drawn = [draw(table[where], rng) for table in (self.safe, self.optimized)]
        places = np.concatenate([where, where]), np.concatenate(drawn)
        source = np.repeat(["safe", "optimized"], len(where))
        scores = log_safe[places], log_optimized[places]
        return log, tether.Proposals(*scores, source=source, **label)


def draw(probabilities: Array, rng: np.random.Generator) -> Array:
    """One action per row of a table of probabilities."""
    heap = np.cumsum(probabilities, axis=1)
    return (heap < rng.random((len(heap), 1)) * heap[:, -1:]).sum(axis=1)


def _normal(points: Array, mean: float, deviation: float) -> Array:
    density = np.exp(-(((points - mean) / deviation) ** 2) / 2)
    return (density / density.sum())[None]


def gaussian(limit: float = 1.5, mean: float = 1.0, deviation: float = 0.8) -> World:
    """Safe N(0, 1), optimized N(1, 0.8), a loss above a limit; the action is its own reward."""
    points = np.linspace(-6, 7, 1301)
    tables = _normal(points, 0, 1), _normal(points, mean, deviation)
    loss = (points > limit)[None] * 1.0
    return World("Gaussian", *tables, loss, points[None], np.ones(1), draws=1000)


def rare_harm(rows: int, safe_risk: float = 0.098) -> World:
    """Two harmful rows on average; with none, what mix saves elsewhere pays for the test point."""
    rare = 2.1 / rows
    tables = np.array([[0.9, 0.1 - rare, rare]]), np.array([[1e-6, 0.83, 0.17 - 1e-6]])
    loss, reward = np.array([[(safe_risk - rare) / 0.9, 0.0, 1.0]]), np.array([[0.0, 1.0, 1.0]])
    return World("rare harm", *tables, loss, reward, np.ones(1), "tables", graded=True)


def rise_and_fall() -> World:
    """The risk rises with beta and then falls: a test at the last root would be wrong."""
    tables = np.array([[0.6, 0.3, 0.1]]), np.array([[0.05, 0.05, 0.9]])
    loss, reward = np.array([[0.02, 0.3, 0.05]]), np.array([[0.0, 0.0, 1.0]])
    return World("rise and fall", *tables, loss, reward, np.ones(1), draws=1000)


def unequal_contexts(view: str = "tables", draws: int = 0) -> World:
    """In one context of two the policies are far apart and harm is likely; a global ψ is wrong."""
    even, rare = np.full(10, 0.1), np.full(10, 0.01)
    safe, optimized = np.array([even, rare]), np.array([even, np.full(10, 0.11)])
    safe[1, 0], optimized[1, 0] = 0.91, 0.01
    loss, reward = np.full((2, 10), 0.02), np.zeros((2, 10))
    loss[1], reward[1] = 0.8, 1.0
    loss[1, 0], reward[1, 0] = 0.03, 0.0
    name = f"unequal contexts, {view}" + (f" {draws}" if draws else "")
    return World(name, safe, optimized, loss, reward, np.array([0.5, 0.5]), view, draws)


def eight_actions(seed: int = 1) -> World:
    """Four hundred contexts with eight actions, whose harm goes along with their reward."""
    rng = np.random.default_rng(seed)
    shape = (400, 8)
    score, reward = rng.normal(size=shape), rng.normal(size=shape)
    harm = 1 / (1 + np.exp(4.2 - 0.9 * reward - 1.3 * rng.normal(size=shape)))
    tables = [np.exp(each) for each in (score, score + 1.2 * reward)]
    safe, optimized = (each / each.sum(axis=1, keepdims=True) for each in tables)
    for _ in range(20):  # a safe risk of 0.05
        harm = np.minimum(harm * 0.05 / (safe * harm).sum(axis=1).mean(), 1.0)
    contexts = np.full(400, 1 / 400)
    return World("eight actions, tables", safe, optimized, harm, reward, contexts, "tables")


def many_prompts(view: str = "draws", draws: int = 4, seed: int = 5) -> World:
    """Forty prompts, of which half are harmless with policies far apart."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(40, 12))
    far = np.where(np.arange(40) % 2, 1.0, 4.0)[:, None] * rng.normal(size=(40, 12))
    safe, optimized = (np.exp(each) for each in (score, score + far))
    tables = [each / each.sum(axis=1, keepdims=True) for each in (safe, optimized)]
    harmful = (np.arange(40) % 2 == 1)[:, None]
    loss = np.where(harmful, 0.25 / (1 + np.exp(-2 * far)), 0.0)
    name = f"forty prompts, {view} {draws}"
    return World(name, *tables, loss, far, np.full(40, 1 / 40), view, draws)
