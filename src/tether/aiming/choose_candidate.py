"""Choosing on training rows: which policy and family earn most after calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Actions, Contexts, Integers, Losses
from tether.aiming.candidates import Candidate
from tether.aiming.reward_model import fit_rewards
from tether.aiming.simulated_calibration import Tables, join_tables, tables_of
from tether.aiming.training_rows import LoggedRows, as_rows
from tether.control.family import Family
from tether.policies.policy import as_policy

Build: TypeAlias = Callable[[LoggedRows, np.random.Generator], Mapping[str, Any]]
"""From training rows to candidates by name, the plain one first."""
BUILD_FOLDS = 5
"""Candidates are built so often, each time without one fold of the training rows."""
CALIBRATION_REPEATS = 3
"""How often the rows are split in parts for simulated calibrations."""
CALIBRATION_PARTS = 3
"""A candidate is calibrated on all but one of so many parts of the rows, and valued on that one."""
MIN_ROWS_TO_CHOOSE = 40
"""With fewer training rows there is nothing to choose by, and the plain candidate is taken."""


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


@dataclass(frozen=True)
class Choice:
    """The candidate to calibrate, and the estimates by which it was chosen.

    Parameters
    ----------
    name : str
        The name of the chosen candidate.
    policy : Policy or Shortlist
        Its policy, built from all training rows: to be calibrated and served.
    family : str or Family
        Its family, for `calibrate`.
    estimates : mapping of str to ExpectedReward
        The estimate of every candidate, the plain one first.
    standard_errors : float
        How many standard errors a lead had to exceed.
    rows : int
        The number of training rows.
    """

    name: str
    policy: Any
    family: str | Family
    estimates: Mapping[str, ExpectedReward]
    standard_errors: float
    rows: int

    def __str__(self) -> str:
        if not self.estimates:
            return f"{self.name}: {self.rows} training rows are too few to choose by"
        plain = next(iter(self.estimates))
        width = max(map(len, self.estimates))
        lines = [
            f"chosen: {self.name}, by {self.rows} training rows",
            f"  {'candidate':<{width}}  expected reward  lead over {plain}",
        ]
        for name, each in self.estimates.items():
            lines.append(
                f"  {name:<{width}}  {each.reward:15.4g}  {each.lead:+.4g} ± {each.lead_error:.2g}"
            )
        if self.name == plain and len(self.estimates) > 1:
            lines.append(f"no lead is above {self.standard_errors:g} standard errors")
        return "\n".join(lines)


def choose(
    candidates: Mapping[str, Any] | Build,
    *,
    safe: Any,
    contexts: Contexts | None,
    actions: Actions,
    losses: Losses,
    rewards: ArrayLike,
    alpha: float | Mapping[str, float],
    rng: np.random.Generator,
    bound: float | Mapping[str, float] = 1.0,
    calibration_rows: int | None = None,
    standard_errors: float = 2.5,
    logged_by: Any = None,
) -> Choice:
    """Choose the candidate that earns most after calibration, judged by training rows alone.

    Candidates are built five times, each time without a fifth of the training rows, so that every
    row meets policies that were built without it. Then each candidate is calibrated on some rows,
    drawn with replacement as often as there will be calibration rows, and its tethered policy is
    valued on the remaining ones (doubly robust importance weighting). So nothing is valued on rows
    that it was fitted on or calibrated on. Of the candidates whose lead over the first, plain one
    is above `standard_errors` of its standard errors, the one with the largest lead after one
    standard error is subtracted is taken; the plain one if there is none.

    The guarantee is not touched: it comes from calibrating the chosen candidate on calibration
    rows, which must be others than these. The estimates are of policies built on four fifths of the
    training rows; their standard errors are over rows, and do not include how much a policy would
    change if it were built on others.

    Parameters
    ----------
    candidates : mapping of str to policy, or callable
        Policies by name, each a finite policy, a `Shortlist`, or a `Candidate` with a family; the
        first one is the plain one. Or a function of (rows, rng) that builds them from training
        rows, such as `aimed_candidates` makes: whatever is fitted must be fitted there.
    safe : FinitePolicy
        The safe policy, which took the actions.
    contexts : array-like, data frame, int or None
        The contexts of the training rows; None where there are none.
    actions : array-like
        The actions.
    losses : array-like of float, or mapping
        Their losses, or several losses by name.
    rewards : array-like of float
        Their rewards.
    alpha : float or mapping of str to float
        The tolerated expected loss, as for `calibrate`.
    rng : numpy.random.Generator
        The source of randomness.
    bound : float or mapping of str to float, default 1.0
        The largest possible loss.
    calibration_rows : int, optional
        How many rows there will be to calibrate on; by default as many as there are training rows.
    standard_errors : float, default 2.5
        How many standard errors a lead must exceed. The default allows for a choice among ten
        candidates.
    logged_by : FinitePolicy, optional
        The policy that took the actions, if it was not the safe one: after several rounds, a
        `Mixture` of the policies that were served. Not for shortlists.

    Returns
    -------
    Choice
        The chosen policy, built on all training rows, its family, and all estimates.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value, or a candidate has infinitely many actions.

    Examples
    --------
    >>> import tether
    >>> rng = np.random.default_rng(0)
    >>> safe = tether.Categorical.from_probabilities([0.8, 0.1, 0.1])
    >>> greedy = tether.Categorical.from_probabilities([0.1, 0.1, 0.8])
    >>> better = tether.Categorical.from_probabilities([0.3, 0.68, 0.02])
    >>> actions = safe.sample(900, rng)
    >>> choice = tether.choose(
    ...     {"plain": greedy, "better": better}, safe=safe, contexts=None, actions=actions,
    ...     losses=0.6 * (actions == 2), rewards=1.0 * (actions > 0), alpha=0.1, rng=rng)
    >>> choice.name
    'better'
    """
    rows = as_rows(contexts, actions, losses, rewards, _scoring(safe))
    generator = validate.generator("rng", rng)
    margin = validate.number(
        "standard_errors", standard_errors, above=0, below=np.inf, including=(0,)
    )
    target = len(rows)
    if calibration_rows is not None:
        target = validate.integer_at_least("calibration_rows", calibration_rows, 1)
    build = candidates if callable(candidates) else _fixed(candidates)
    final = _candidates(build(rows, generator))
    plain = next(iter(final))
    name, estimates = plain, {}
    if len(rows) >= MIN_ROWS_TO_CHOOSE and len(final) > 1:
        simulation = _Simulation(rows, safe, alpha, bound, target, generator, logged_by)
        simulation.build(build, tuple(final))
        estimates = simulation.estimates(plain)
        clear = {
            key: each.lead - each.lead_error
            for key, each in estimates.items()
            if each.lead > margin * each.lead_error
        }
        name = max(clear, key=lambda key: clear[key]) if clear else plain
    chosen = final[name]
    return Choice(name, chosen.policy, chosen.family, estimates, margin, len(rows))


class _Simulation:
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
            for name, each in _candidates(build(others, self.rng)).items():
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


def _fixed(candidates: Mapping[str, Any]) -> Build:
    if not isinstance(candidates, Mapping):
        raise TypeError(
            f"candidates must be a mapping of policies by name, or a function of (rows, rng) that "
            f"returns one, got {candidates!r}"
        )
    return lambda rows, rng: candidates


def _candidates(made: Any) -> dict[str, Candidate]:
    if not isinstance(made, Mapping) or not made:
        raise TypeError(f"candidates must be a mapping with at least one policy, got {made!r}")
    return {
        str(name): each if isinstance(each, Candidate) else Candidate(each)
        for name, each in made.items()
    }


def _scoring(safe: Any) -> Any:
    """The safe policy; what can only draw stays as it is."""
    scores = hasattr(safe, "log_prob") or hasattr(safe, "predict_proba")
    return as_policy("safe", safe) if scores else safe
