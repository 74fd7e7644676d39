"""Simulated calibrations of several candidates on training rows.

Every candidate is built on folds of the rows and scored on the rows that it was built without. Then
it is calibrated on some of these rows and valued on others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tether._core.types import Integers
from tether.aiming.candidates import Candidate
from tether.aiming.reward_model import fit_rewards
from tether.aiming.simulated_calibration import Tables, join_tables, tables_of
from tether.aiming.training_rows import LoggedRows
from tether.policies.policy import as_policy

Build: TypeAlias = Callable[[LoggedRows, np.random.Generator], Mapping[str, Any]]
"""From training rows to candidates by name, the plain one first."""
BUILD_FOLDS = 5
"""Candidates are built so often, each time without one fold of the training rows."""
CALIBRATION_REPEATS = 3
"""How often the rows are split in parts for simulated calibrations."""
CALIBRATION_PARTS = 3
"""A candidate is calibrated on all but one of so many parts of the rows, and valued on that one."""


@dataclass(frozen=True)
class ExpectedReward:
    """What a candidate is estimated to earn after calibration.

    Parameters
    ----------
    reward : float
        The expected reward per action.
    lead : float
        By how much it is above the plain candidate's.
    lead_error : float
        The standard error of the lead, over training rows.
    no_beta : float
        The share of simulated calibrations in which no beta passed.
    """

    reward: float
    lead: float
    lead_error: float
    no_beta: float


class CandidateSimulation:
    """Builds candidates on folds of the rows, then calibrates and values them on the others."""

    def __init__(
        self,
        rows: LoggedRows,
        safe: Any,
        alpha: Any,
        bound: Any,
        target: int,
        rng: np.random.Generator,
        logged_by: Any,
    ) -> None:
        self.logged_by = None if logged_by is None else as_policy("logged_by", logged_by)
        self.rows, self.safe, self.alpha, self.bound = rows, safe, alpha, bound
        self.target, self.rng = target, rng
        self.tables: dict[str, Tables] = {}
        self.known: dict[str, Integers] = {}

    def build(self, build: Build, names: tuple[str, ...]) -> None:
        """Tables of every candidate on rows that it was built without.

        Rows on which a candidate could not be built are unknown to it.
        """
        pieces: dict[str, list[Tables]] = {name: [] for name in names}
        where: dict[str, list[Integers]] = {name: [] for name in names}
        fold = self.rng.permutation(len(self.rows)) % BUILD_FOLDS
        for number in range(BUILD_FOLDS):
            held_out = np.flatnonzero(fold == number)
            others, rows = self.rows.take(np.flatnonzero(fold != number)), self.rows.take(held_out)
            reward_model = fit_rewards(others)
            for name, each in as_candidates(build(others, self.rng)).items():
                if name in pieces:
                    made = tables_of(
                        name,
                        each.policy,
                        each.family,
                        self.safe,
                        rows,
                        reward_model,
                        self.rng,
                        self.logged_by,
                    )
                    pieces[name].append(made)
                    where[name].append(held_out)
        for name in names:
            if pieces[name]:
                self.known[name] = np.concatenate(where[name])
                losses = self.rows.take(self.known[name]).losses
                self.tables[name] = join_tables(name, pieces[name], losses)

    def estimates(self, plain: str) -> dict[str, ExpectedReward]:
        """Means over rows, whose values are averages over splits into parts."""
        sums = {name: np.zeros(len(self.rows)) for name in self.tables}
        missing: dict[str, list[bool]] = {name: [] for name in self.tables}
        for _ in range(CALIBRATION_REPEATS):
            part = self.rng.permutation(len(self.rows)) % CALIBRATION_PARTS
            for number in range(CALIBRATION_PARTS):
                spread = self.rng.random(self.target)  # the same draws for all candidates
                values = np.zeros(len(self.rows))
                for name in sorted(self.tables, key=lambda each: each != plain):
                    tables, known = self.tables[name], self.known[name]
                    valued = np.flatnonzero(part[known] == number)
                    pool = np.flatnonzero(part[known] != number)
                    if len(pool) and len(valued):
                        drawn = pool[(spread * len(pool)).astype(np.int64)]
                        found = tables.calibrate(drawn, self.alpha, self.bound)
                        mine = values.copy()  # where it is unknown, the plain candidate's
                        mine[known[valued]] = tables.values(valued, found)
                        missing[name].append(not found.exists)
                    else:
                        mine = values.copy()
                    if name == plain:
                        values = mine
                    sums[name] += mine
        means = {name: total / CALIBRATION_REPEATS for name, total in sums.items()}
        estimates = {}
        for name, values in means.items():
            lead = values - means[plain]
            estimates[name] = ExpectedReward(
                float(values.mean()),
                float(lead.mean()),
                float(lead.std(ddof=1) / np.sqrt(len(lead))),
                float(np.mean(missing[name])) if missing[name] else np.nan,
            )
        return estimates


def as_candidates(made: Any) -> dict[str, Candidate]:
    """Candidates by name; a policy without a family is calibrated with clip."""
    if not isinstance(made, Mapping) or not made:
        raise TypeError(f"candidates must be a mapping with at least one policy, got {made!r}")
    return {
        str(name): each if isinstance(each, Candidate) else Candidate(each)
        for name, each in made.items()
    }
