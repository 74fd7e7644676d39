"""Worlds where everything is known: contexts, policies and losses on a finite grid.

A continuous action is a fine grid, so that sampling, ratios and the risk that a deployed policy
really has are exact numbers, and a simulation is limited by nothing but its number of repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

import tether
from benchmarks.validity_table import Served
from tether.control.families import find_family


@dataclass(frozen=True)
class World:
    """Tables of contexts × actions: two policies, losses, and a reward."""

    name: str
    log_safe: np.ndarray
    log_optimized: np.ndarray
    losses: dict[str, np.ndarray]
    reward: np.ndarray
    alpha: dict[str, float]
    rows: int
    draws: int
    """Proposals in all, or in each context of a world with contexts."""
    tables: bool = False
    """Whether the log carries tables of all actions rather than proposals."""
    rounds: int = 1
    share: np.ndarray = field(default_factory=lambda: np.ones(1))

    @property
    def contextual(self) -> bool:
        """Whether actions answer contexts."""
        return len(self.log_safe) > 1

    @property
    def bound(self) -> dict[str, float]:
        """The largest possible loss of each kind."""
        return {name: float(np.ceil(loss.max())) for name, loss in self.losses.items()}

    def deployed(self, log_density: np.ndarray) -> tuple[dict[str, float], float]:
        """The true risk of a policy for every loss, and its reward."""
        density = np.exp(log_density)
        expect = lambda values: float(self.share @ (density * values).sum(axis=1))  # noqa: E731
        return {name: expect(loss) for name, loss in self.losses.items()}, expect(self.reward)

    def tethered(self, family: str, log_beta: float, blend: float = 0.0) -> np.ndarray:
        """The log-density of the tethered policy in every context, with its exact normalizer."""
        chosen, optimized = find_family(family), self.log_optimized
        if blend:
            optimized = np.log((1 - blend) * np.exp(optimized) + blend * np.exp(self.log_safe))
        log_psi = np.zeros((len(self.log_safe), 1))
        if np.isfinite(log_beta) and not chosen.normalized:
            kernel = chosen.log_kernel(self.log_safe, optimized, log_beta)
            log_psi = np.logaddexp.reduce(kernel, axis=1, keepdims=True)
        return chosen.log_density(self.log_safe, optimized, log_beta, log_psi)

    def tethered_by(self, found: tether.Calibration) -> np.ndarray:
        """The log-density of the policy that a calibration allows."""
        return self.tethered(found.family, found.log_beta, found.blend)

    def served(
        self, log_density: np.ndarray, log_beta: float, found: tether.Calibration | None = None
    ) -> Served:
        """What a run deployed, with its true risks and the share of the reward that is kept."""
        risks, reward = self.deployed(log_density)
        (_, safe), (_, best) = self.deployed(self.log_safe), self.deployed(self.log_optimized)
        return Served(risks, log_beta, found, (reward - safe) / (best - safe))

    def act(self, log_density: np.ndarray, contexts: np.ndarray, rng) -> np.ndarray:
        """One action in each context."""
        sums = np.cumsum(np.exp(log_density), axis=1)
        # One long staircase: context c climbs from c to c + 1.
        stairs = (sums / sums[:, -1:] + np.arange(len(sums))[:, None]).ravel()
        found = np.searchsorted(stairs, rng.random(len(contexts)) + contexts)
        return found - contexts * log_density.shape[1]

    def collect(self, log_density: np.ndarray, rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """Contexts as they come, and a policy's actions in them."""
        contexts = rng.choice(len(self.share), size=rows, p=self.share)
        return contexts, self.act(log_density, contexts, rng)

    def log(self, contexts, actions, log_mix=None, *, marginal=False) -> tether.Log:
        """What a user would hand to tether; `marginal` forgets the contexts, which is wrong."""
        columns = {
            "loss": {name: loss[contexts, actions] for name, loss in self.losses.items()},
            "log_safe": self.log_safe[contexts, actions],
            "log_optimized": self.log_optimized[contexts, actions],
        }
        if log_mix is not None:
            columns["log_mix"] = log_mix[contexts, actions]
        if self.contextual and not marginal:
            if self.tables:
                columns["log_safe_all"] = self.log_safe[contexts]
                columns["log_optimized_all"] = self.log_optimized[contexts]
                if log_mix is not None:
                    columns["log_mix_all"] = log_mix[contexts]
            else:
                columns["context"] = np.arange(len(contexts))
        return tether.Log(**columns)

    def proposals(
        self, contexts, rng, log_mix=None, *, marginal=False, budget=0
    ) -> tether.Proposals | None:
        """Draws for a log: half from each policy in every context, or optimized ones at large.

        A family with a budget gets as many draws of each policy for every row.
        """
        if self.tables and not marginal:
            return None
        if (self.contextual and not marginal) or budget:
            draws = self.draws if self.contextual else 2 * budget
            label = np.repeat(np.arange(len(contexts)), draws)
            where = contexts[label]
            source = np.tile(["safe", "optimized"], len(where) // 2)
            drawn = np.where(
                source == "safe",
                self.act(self.log_safe, where, rng),
                self.act(self.log_optimized, where, rng),
            )
            columns = {"source": source}
            if self.contextual:
                columns["context"] = label
        else:
            where, drawn = self.collect(self.log_optimized, len(contexts), rng)
            columns = {}
        if log_mix is not None:
            columns["log_mix"] = log_mix[where, drawn]
        return tether.Proposals(
            self.log_safe[where, drawn], self.log_optimized[where, drawn], **columns
        )


def _normalized(log_density: np.ndarray) -> np.ndarray:
    log_density = np.atleast_2d(log_density)
    return log_density - np.logaddexp.reduce(log_density, axis=1, keepdims=True)


def _gaussian(
    name: str,
    rows: int,
    *,
    loss: Callable[[np.ndarray], np.ndarray] = lambda action: (action > 1.5).astype(float),
    alpha: float = 0.1,
    mean: float = 1.0,
    deviation: float = 0.8,
    rounds: int = 1,
) -> World:
    """N(0, 1) against another Gaussian: reward grows with the action, and so does the danger."""
    grid = np.linspace(-6, 6, 2401)
    return World(
        name,
        _normalized(-(grid**2) / 2),
        _normalized(-(((grid - mean) / deviation) ** 2) / 2),
        {"loss": loss(grid)[None]},
        grid[None],
        {"loss": alpha},
        rows,
        rows,
        rounds=rounds,
    )


def _heavy_tail(rows: int) -> World:
    """Student t with 5 degrees of freedom against a shifted one with 2: ratios have a long tail."""
    grid = np.linspace(-60, 60, 6001)
    student = lambda x, df: -(df + 1) / 2 * np.log1p(x**2 / df)  # noqa: E731
    return World(
        "heavy tail",
        _normalized(student(grid, 5)),
        _normalized(student(grid - 0.5, 2)),
        {"loss": (np.abs(grid) > 2.5).astype(float)[None]},
        np.minimum(np.maximum(grid, 0), 5)[None],
        {"loss": 0.08},
        rows,
        rows,
    )


def _unequal_contexts(rows: int, tables: bool, *, safe_risk: float | None = None) -> World:
    """Two contexts: in one the policies agree, in the other the optimized one is all but apart.

    With `safe_risk` the safe policy does harm with this probability in both of them.
    """
    safe = np.full((2, 10), 0.1)
    safe[1] = [0.95 / 9] * 9 + [0.05]
    if safe_risk is not None:
        other = [(1 - safe_risk) / 9] * 9
        safe = np.array([[safe_risk, *other], [*other, safe_risk]])
    agree = np.full(10, 0.1) + np.linspace(-0.02, 0.02, 10)
    apart = np.array([0.002] * 8 + [0.004, 0.98])
    loss = np.zeros((2, 10))
    loss[0, 0] = 0.6 if safe_risk is None else 1.0
    loss[1, 9] = 1.0
    return World(
        f"unequal contexts, {'tables' if tables else 'draws'}",
        np.log(safe),
        _normalized(np.log(np.stack((agree, apart)))),
        {"loss": loss},
        np.tile(np.linspace(0, 1, 10), (2, 1)),
        {"loss": 0.12},
        rows,
        8,
        tables=tables,
        share=np.array([0.5, 0.5]),
    )


def _finite_actions(rows: int, two: bool = False, seed: int = 0, **more) -> World:
    """Forty contexts and five actions; the optimized policy follows a reward that hides harm."""
    rng = np.random.default_rng(seed)
    safe = _normalized(rng.normal(size=(40, 5)) * 0.7)
    reward = rng.normal(size=(40, 5))
    harm = 1 / (1 + np.exp(3.2 - 1.2 * reward))
    losses = {"loss": harm}
    alpha = {"loss": 0.11}
    if two:
        delay = 1 / (1 + np.exp(2.2 + 1.5 * rng.normal(size=(40, 5)) - 0.5 * reward))
        losses = {"harm": harm, "delay": delay * 2}
        alpha = {"harm": 0.12, "delay": 0.48}
    return World(
        "two constraints" if two else "finite actions",
        safe,
        _normalized(safe + 1.5 * reward),
        losses,
        reward,
        alpha,
        rows,
        8,
        tables=True,
        share=np.full(40, 1 / 40),
        **more,
    )


def _gaussian_contexts(rows: int) -> World:
    """Thirty contexts, a Gaussian action in each: policies differ by context, draws are few."""
    grid = np.linspace(-6, 8, 701)
    shift = np.linspace(0, 2.0, 30)[:, None]
    return World(
        "Gaussian contexts, draws",
        _normalized(np.tile(-(grid**2) / 2, (30, 1))),
        _normalized(-((grid - shift) ** 2) / 2),
        {"loss": np.tile((grid > 1.5).astype(float), (30, 1))},
        np.tile(grid, (30, 1)),
        {"loss": 0.1},
        rows,
        8,
        share=np.full(30, 1 / 30),
    )


def safe_risk_alpha(rows: int, *, tables: bool = True, contexts: bool = True) -> World:
    """The safe policy's risk is alpha itself: on many logs no beta passes."""
    if contexts:
        world = _unequal_contexts(rows, tables, safe_risk=0.12)
    else:
        world = _gaussian("Gaussian shift", rows, alpha=0.12)
        density = np.exp(world.log_safe[0])
        above = np.append(np.cumsum(density[::-1])[::-1][1:], 0.0)
        # One point of the grid is harmful to the degree that makes the risk alpha.
        loss = np.clip((0.12 - above) / density, 0, 1)
        world = replace(world, losses={"loss": loss[None]})
    return replace(world, name=f"safe risk = alpha, n = {rows:,}, {_kind(world)}")


def _kind(world: World) -> str:
    return "marginal" if not world.contextual else "tables" if world.tables else "draws"


def argmax(rows: int, tables: bool, seed: int = 2) -> World:
    """Finite actions with an optimized policy that takes one action in each context."""
    world = _finite_actions(rows, seed=seed)
    best = np.argmax(world.reward, axis=1)[:, None] == np.arange(world.reward.shape[1])
    with np.errstate(divide="ignore"):
        log_optimized = np.log(best.astype(float))
    name = f"argmax, n = {rows:,}, {'tables' if tables else 'draws'}"
    return replace(world, name=name, log_optimized=log_optimized, tables=tables)


def all_worlds() -> list[World]:
    """Every world of the table."""
    return [
        _gaussian("Gaussian shift", 200),
        _gaussian("n = 20", 20, mean=2, deviation=0.7, loss=lambda action: action > 2.0),
        _heavy_tail(300),
        _gaussian("loss in [0, 1]", 200, loss=lambda a: np.clip(a / 3, 0, 1), alpha=0.18),
        _unequal_contexts(300, tables=True),
        _unequal_contexts(300, tables=False),
        _finite_actions(200),
        _gaussian_contexts(200),
        _finite_actions(300, two=True),
        _gaussian("Gaussian shift", 100, rounds=3),
        _finite_actions(100, rounds=3, seed=1),
    ]
