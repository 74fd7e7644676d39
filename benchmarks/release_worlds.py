"""Simulated releases: new systems of known risk, and procedures that choose the share of each step.

Losses are 0 or 1, so all that is kept of a step are counts, and thousands of releases run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tether.release import ArmCounts, Guardrail, ramp_share
from tether.release.calibration_window import LEAST_PART_OF_WINDOW
from tether.release.risk_bounds import anytime_bound, expected_bound
from tether.release.share_formulas import calibrated_share, exact_share

CONFIDENCE = 0.95


@dataclass(frozen=True)
class World:
    """Two systems: their risks, the keys of a step, and how losses are reported.

    A loss of 1 is late (it comes one step after its key) or never comes with the first of two
    probabilities, a loss of 0 with the second.
    """

    name: str
    new_risk: float
    old_risk: float = 0.01
    alpha: float = 0.02
    keys: int = 1000
    old_rows: int = 2000
    steps: int = 12
    changes_at: int | None = None
    risk_after: float = 0.3
    late: tuple[float, float] = (0.0, 0.0)
    missing: tuple[float, float] = (0.0, 0.0)

    def risk_of_new(self, step: int) -> float:
        """The new system's risk in a step, counted from 1."""
        changed = self.changes_at is not None and step >= self.changes_at
        return self.risk_after if changed else self.new_risk


@dataclass
class Batch:
    """The keys that the new system answered in one step, one count per run."""

    rows: np.ndarray
    losses: np.ndarray
    late_losses: np.ndarray
    late_zeros: np.ndarray
    missing_losses: np.ndarray
    missing_zeros: np.ndarray

    @classmethod
    def draw(cls, world: World, rows: np.ndarray, risk: float, rng: np.random.Generator) -> Batch:
        """What happens to so many keys."""
        losses = rng.binomial(rows, risk)
        counts = []
        for each, late, missing in zip(
            (losses, rows - losses), world.late, world.missing, strict=True
        ):
            never = rng.binomial(each, missing)
            counts.append((rng.binomial(each - never, late), never))
        (late_l, never_l), (late_z, never_z) = counts
        return cls(rows, losses, late_l, late_z, never_l, never_z)

    def pending_as_bound(self, *, late: bool) -> tuple[np.ndarray, np.ndarray]:
        """Rows and losses; what is not known counts as 1."""
        unknown_zeros = self.missing_zeros + (self.late_zeros if late else 0)
        return self.rows, self.losses + unknown_zeros

    def known_only(self, *, late: bool) -> tuple[np.ndarray, np.ndarray]:
        """Rows and losses without those that are not known: wrong."""
        losses = self.losses - self.missing_losses - (self.late_losses if late else 0)
        zeros = self.rows - self.losses - self.missing_zeros - (self.late_zeros if late else 0)
        return losses + zeros, losses


@dataclass
class State:
    """What a procedure knows when a step begins: one entry per run."""

    world: World
    step: int
    old_rows: np.ndarray
    old_losses: np.ndarray
    start: tuple[np.ndarray, np.ndarray]
    batches: list[Batch] = field(default_factory=list)
    shares: list[np.ndarray] = field(default_factory=list)
    memory: dict[str, np.ndarray] = field(default_factory=dict)


Procedure = Callable[[State], np.ndarray]


def windowed(
    formula: str, wait: int = 0, *, dropped: bool = False, promise: float | None = None
) -> Procedure:
    """The ramp of the package: the share of each step from the rows of the calibration window.

    `wait` steps pass before a step's rows are used; `dropped` ignores unknown losses, which is
    wrong. With a `promise`, alpha is what it leaves in each release. The rule is that of
    `tether.rounds.releases.next_step` for many releases at once, and a test compares the two.
    """

    def share(state: State) -> np.ndarray:
        rows0, losses0 = state.start
        if "alpha" not in state.memory:
            state.memory["alpha"] = _alphas(state, promise)
        alpha, old_bound = state.memory["alpha"], expected_bound(rows0, losses0, 1.0)
        if len(state.batches) <= wait:
            none = np.zeros(len(rows0))
            state.memory |= {"rows": none, "since": none, "since losses": none}
            return _formula(formula, none, none, old_bound, alpha)
        batch = state.batches[-1 - wait]
        count = batch.known_only if dropped else batch.pending_as_bound
        (rows, losses), later = count(late=wait == 0), count(late=False)
        earlier = state.memory["since"], state.memory["since losses"]
        rows, losses = earlier[0] + rows, earlier[1] + losses
        taken = rows >= LEAST_PART_OF_WINDOW * state.memory["rows"]
        state.memory["rows"] = np.where(taken, rows, state.memory["rows"])
        state.memory["since"] = np.where(taken, 0, earlier[0] + later[0])
        state.memory["since losses"] = np.where(taken, 0, earlier[1] + later[1])
        made = _formula(formula, rows, losses, old_bound, alpha)
        return np.where(taken, made, state.shares[-1])

    return share


def all_rows(formula: str) -> Procedure:
    """The share of each step from all rows so far, of both systems."""

    def share(state: State) -> np.ndarray:
        rows, losses = _sums(state)
        old_bound = expected_bound(state.old_rows, state.old_losses, 1.0)
        return _formula(formula, rows, losses, old_bound, state.world.alpha)

    return share


def confident(state: State) -> np.ndarray:
    """With confidence: bounds at all times, from all rows."""
    alpha, error = state.world.alpha, (1 - CONFIDENCE) / 2
    old = anytime_bound(state.old_rows, state.old_losses, 1.0, alpha, error)
    new = anytime_bound(*_sums(state), 1.0, alpha, error)
    return np.where(new <= alpha, 1.0, calibrated_share(old, new, np.array(alpha)))


def fixed_canary(state: State) -> np.ndarray:
    """Steps of 1, 5, 25, 50 and 100 %; back to 0 for good if a step's mean loss is above alpha."""
    stages = (0.01, 0.05, 0.25, 0.5, 1.0)
    now = stages[min(state.step, len(stages)) - 1]
    failed = state.memory.setdefault("failed", np.zeros(len(state.old_rows), bool))
    if state.batches:
        rows, losses = state.batches[-1].known_only(late=True)
        failed |= losses > state.world.alpha * rows
    return np.where(failed, 0.0, now)


def peeking_test(state: State) -> np.ndarray:
    """Half of the keys each; after every step a two-sided test at 5 %, and the winner takes all."""
    decided = state.memory.setdefault("decided", np.full(len(state.old_rows), np.nan))
    if state.batches:
        rows, losses = _sums(state)
        rows0 = state.old_rows - state.start[0]
        losses0 = state.old_losses - state.start[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            pooled = (losses + losses0) / (rows + rows0)
            error = np.sqrt(pooled * (1 - pooled) * (1 / rows + 1 / rows0))
            z = (losses / rows - losses0 / rows0) / error
        open_ = np.isnan(decided)
        decided[open_ & (z > 1.96)] = 0.0
        decided[open_ & (z < -1.96)] = 1.0
    return np.where(np.isnan(decided), 0.5, decided)


def simulate(
    world: World, procedure: Procedure, runs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares, risks and the rows of the windows, steps × runs."""
    rows = np.full(runs, world.old_rows)
    losses = rng.binomial(rows, world.old_risk)
    state = State(world, 1, rows, losses, (rows, losses))
    risks, windows = [], []
    for step in range(1, world.steps + 1):
        state.step = step
        share, risk = procedure(state), world.risk_of_new(step)
        state.shares.append(share)
        windows.append(state.memory.get("rows", np.zeros(runs)))
        risks.append((1 - share) * world.old_risk + share * risk)
        new = rng.binomial(world.keys, share)
        state.batches.append(Batch.draw(world, new, risk, rng))
        state.old_rows = state.old_rows + world.keys - new
        state.old_losses = state.old_losses + rng.binomial(world.keys - new, world.old_risk)
    return np.stack(state.shares), np.stack(risks), np.stack(windows)


def alpha_left(promise: float, rows: int, losses: int) -> float:
    """The alpha that a promise leaves, given the rows of the old system."""
    none, old = {"loss": ArmCounts(0, 0.0)}, {"loss": ArmCounts(rows, float(losses))}
    found = ramp_share({"loss": Guardrail(promise=promise)}, old=old, new=none)
    return found.guardrails["loss"].alpha


def _alphas(state: State, promise: float | None) -> np.ndarray:
    """The alpha of each release."""
    rows, losses = state.start
    if promise is None:
        return np.full(len(rows), state.world.alpha)
    known = {each: alpha_left(promise, int(rows[0]), each) for each in set(losses.tolist())}
    return np.array([known[each] for each in losses.tolist()])


def _formula(
    formula: str, rows: np.ndarray, losses: np.ndarray, old_bound: np.ndarray, alpha: np.ndarray
) -> np.ndarray:
    if formula == "exact":
        return exact_share(rows, losses, old_bound, alpha)
    return calibrated_share(old_bound, expected_bound(rows, losses, 1.0), alpha)


def _sums(state: State) -> tuple[np.ndarray, np.ndarray]:
    """All rows of the new system so far; unknown losses count as 1."""
    rows = losses = np.zeros(len(state.old_rows))
    for number, batch in enumerate(state.batches):
        late = number == len(state.batches) - 1
        more_rows, more_losses = batch.pending_as_bound(late=late)
        rows, losses = rows + more_rows, losses + more_losses
    return rows, losses
