"""Several rounds of `tether.Controller` with its defaults, in worlds whose risks are exact.

The safe policy serves the first round. The optimized policy of each later round is learned from the
training rows of all rounds before, and follows the reward alone. Shown is the risk of what each of
the later rounds deploys.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import numpy as np

import tether
from benchmarks import rounds_worlds, shortlist_world
from benchmarks.prompt_world import FAR, HARM, NEAR, clip_risk
from benchmarks.validity_table import Case, Served
from tether.rounds import Round, TrainingRows

ROUNDS = 4
"""The first is the safe policy's."""


class Rounds(Protocol):
    """A world for several rounds."""

    name: str
    alpha: float
    safe: Any

    def arrive(self, rows: int, rng: np.random.Generator) -> Any:
        """The contexts of a round."""
        ...

    def outcome(self, contexts: Any, actions: Any, rng: np.random.Generator) -> Any:
        """Losses and rewards."""
        ...

    def improve(self, rows: TrainingRows) -> Any:
        """A policy that follows the rewards of these rows."""
        ...

    def risk(self, begun: Round, optimized: Any) -> float:
        """The expected loss of what a round deploys."""
        ...


class Prompts:
    """The prompts of `prompt_world` with continuous actions, where normalizers are not known."""

    alpha = 0.07

    def __init__(self, prompts: int = 40) -> None:
        self.name, self.prompts = f"{prompts} prompts", prompts
        self.harmful = np.arange(prompts) < prompts // 2
        self.safe = tether.Gaussian(0.0)

    def arrive(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """All prompts alike."""
        return rng.integers(self.prompts, size=rows)

    def outcome(self, contexts, actions, rng) -> tuple[np.ndarray, np.ndarray]:
        """Harm or none; the reward grows with the action, faster where nothing is harmful."""
        slope = np.where(self.harmful, NEAR, FAR)[contexts]
        loss = (actions > HARM) & self.harmful[contexts]
        return loss.astype(float), slope * actions + rng.normal(size=len(actions))

    def improve(self, rows: TrainingRows) -> tether.Gaussian:
        """In each prompt a mean as large as the slope of the reward."""
        count = np.bincount(rows.contexts, minlength=self.prompts)
        sums = [
            np.bincount(rows.contexts, each, self.prompts)
            for each in (rows.actions, rows.reward, rows.actions * rows.reward, rows.actions**2)
        ]
        action, reward, product, square = (each / np.maximum(count, 1) for each in sums)
        slope = (product - action * reward) / np.maximum(square - action**2, 0.1)
        shift = np.where(count > 3, np.clip(slope, 0.1, FAR), 0.1)
        return _Shifted(shift)

    def risk(self, begun: Round, optimized: Any) -> float:
        """In closed form, for the budget that is served."""
        shift = optimized.shift[self.harmful]
        if begun.beta == 0:
            return float(clip_risk(-np.inf, shift).sum()) / self.prompts
        found = begun.calibration
        budget = int(found.family.removeprefix("budgeted_clip(").removesuffix(")"))
        return float(clip_risk(found.log_beta, shift, budget).sum()) / self.prompts


class _Shifted(tether.Gaussian):
    """A Gaussian with a mean for each prompt."""

    def __init__(self, shift: np.ndarray) -> None:
        self.shift = shift
        super().__init__(lambda contexts: shift[contexts])


class Shortlists:
    """The contexts and actions of `shortlist_world`, with a picker that learns what pays."""

    alpha = shortlist_world.ALPHA

    def __init__(self, size: int) -> None:
        self.name, self.size = f"shortlists of {size}", size
        self.safe = tether.Shortlist(shortlist_world.draw, size=size)

    def arrive(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Both contexts alike."""
        return rng.integers(2, size=rows)

    def outcome(self, contexts, actions, rng) -> tuple[np.ndarray, np.ndarray]:
        """The reward is the action, with noise."""
        reward = actions + rng.normal(size=len(actions))
        return shortlist_world.losses(contexts, actions), reward

    def improve(self, rows: TrainingRows) -> _Table:
        """Scores by the mean reward of each value, held back where there are few rows."""
        total, count = np.zeros((2, len(shortlist_world.VALUES))), 2.0
        place = (rows.contexts, _place(rows.actions))
        counts = np.full(total.shape, count)
        np.add.at(total, place, rows.reward)
        np.add.at(counts, place, 1)
        return _Table(2 * total / counts)

    def risk(self, begun: Round, optimized: Any) -> float:
        """A sum over all shortlists."""
        family = "clip" if begun.calibration is None else begun.calibration.family
        with np.errstate(divide="ignore"):
            log_beta = float(np.log(begun.beta))
        values = shortlist_world.VALUES
        risks = [
            shortlist_world.risk_of(
                optimized.table[context],
                shortlist_world.losses(np.full(len(values), context), values),
                self.size,
                family,
                log_beta,
            )
            for context in (0, 1)
        ]
        return float(np.mean(risks))


class _Table:
    """A score of candidates, by context and value."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def __call__(self, contexts: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return self.table[np.asarray(contexts)[:, None], _place(candidates)]


def _place(actions: np.ndarray) -> np.ndarray:
    return np.searchsorted(shortlist_world.VALUES, actions)


class Treatments(rounds_worlds.FiniteActions):
    """Twelve kinds of patients and five treatments, with tables of all actions."""

    name, alpha = "treatments", 0.12

    def risk(self, begun: Round, optimized: Any) -> float:
        """A sum over the table."""
        return self.expected(begun.policy)[0]


def controlled(
    world: Rounds, rows: int, asked: dict[str, float], rng: np.random.Generator
) -> list[Served]:
    """One complete run: what each round after the first deployed."""
    found, optimized = [], None
    run = tether.Controller(world.safe, store="sqlite://", seed=int(rng.integers(2**31)), **asked)
    with run:
        for number in range(ROUNDS):
            begun = run.begin(optimized)
            if number:
                risk = world.risk(begun, optimized)
                with np.errstate(divide="ignore"):
                    log_beta = float(np.log(begun.beta))
                found.append(Served({"loss": risk}, log_beta, begun.calibration))
            taken = begun.act(world.arrive(rows, rng), rng)
            begun.observe(taken.ids, *world.outcome(taken.contexts, taken.actions, rng))
            optimized = world.improve(run.training_rows())
    return found


def cases() -> list[Case]:
    """Every world, with alpha."""
    found = []
    for world, rows, repeats in (
        (Prompts(), 400, 200),
        (Prompts(), 4_000, 60),
        (Shortlists(4), 400, 300),
        (Shortlists(16), 2_000, 60),
        (Treatments(), 400, 300),
    ):
        found.append(
            Case(
                f"{world.name}, {rows:,} rows",
                "Controller, alpha",
                {"loss": world.alpha},
                partial(controlled, world, rows, {"alpha": world.alpha}),
                repeats,
                10,
                first_round=2,
            )
        )
    return found
