"""Choosing on training rows: which policy and family earn most after calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Actions, Contexts, Floats, Integers, Losses
from tether.aiming.candidates import Candidate
from tether.aiming.fitted_loss import fit_loss
from tether.aiming.loss_model import LossModel
from tether.aiming.simulated_calibration import tables_of
from tether.aiming.training_rows import LoggedRows, as_rows
from tether.control.family import Family

Build: TypeAlias = Callable[[LoggedRows, np.random.Generator], Mapping[str, Any]]
"""From training rows to candidates by name, the plain one first."""
CHOICE_REPEATS = 2
"""How often the training rows are split in halves."""
CALIBRATION_FOLDS = 3
"""A candidate is calibrated on all but one of so many parts of a half, and valued on that part."""
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
            lines.append(f"no lead is above {self.standard_errors:g} standard error(s)")
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
    standard_errors: float = 1.0,
    logged_by: Any = None,
) -> Choice:
    """Choose the candidate that earns most after calibration, judged by training rows alone.

    The training rows are split in halves. Candidates are built on one half; on the other, each is
    calibrated on some rows, drawn with replacement as often as there will be calibration rows, and
    its tethered policy is valued on the remaining ones (doubly robust importance weighting). So
    nothing is valued on rows that it was fitted on or calibrated on. The candidate whose lead over
    the first, plain one is largest after subtracting `standard_errors` of its standard errors is
    taken, and the plain one if no such lead is above 0.

    The guarantee is not touched: it comes from calibrating the chosen candidate on calibration
    rows, which must be others than these. The estimates are of policies built on half of the
    training rows; their standard errors are over rows, and do not include how much a policy would
    change if it were built on others.

    Parameters
    ----------
    candidates : mapping of str to policy, or callable
        Policies by name, each a finite policy, a `Shortlist`, or a `Candidate` with a family; the
        first one is the plain one. Or a function of (rows, rng) that builds them from training
        rows, such as `aimed_candidates` makes: whatever is fitted must be fitted there.
    safe : FinitePolicy
        The safe policy, which took the actions unless `logged_by` did.
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
    standard_errors : float, default 1.0
        How many standard errors a lead must exceed.
    logged_by : FinitePolicy, optional
        The policy that took the actions, if it was not the safe one. For rows of several policies
        it is their `Mixture`, weighted by how many rows each took.

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
    rows = as_rows(contexts, actions, losses, rewards)
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
        for _ in range(CHOICE_REPEATS):
            first, second = np.array_split(generator.permutation(len(rows)), 2)
            for built_on, held_out in ((first, second), (second, first)):
                simulation.add(build, tuple(final), built_on, held_out)
        estimates = simulation.estimates(plain)
        cautious = {key: each.lead - margin * each.lead_error for key, each in estimates.items()}
        best = max(cautious, key=lambda key: cautious[key])
        name = best if cautious[best] > 0 else plain
    chosen = final[name]
    return Choice(name, chosen.policy, chosen.family, estimates, margin, len(rows))


class _Simulation:
    """Calibrates and values candidates on splits of the rows, and keeps one sum per row."""

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
        self.rows, self.safe, self.alpha, self.bound = rows, safe, alpha, bound
        self.target, self.rng, self.logged_by = target, rng, logged_by
        self.values: dict[str, Floats] = {}
        self.missing: dict[str, list[bool]] = {}

    def add(
        self, build: Build, names: tuple[str, ...], built_on: Integers, held_out: Integers
    ) -> None:
        """One split. A candidate that these rows do not give rise to is the plain one."""
        made = _candidates(build(self.rows.take(built_on), self.rng))
        plain = next(iter(made))
        reward_model = _fit_rewards(self.rows.take(built_on), self.rng)
        rows = self.rows.take(held_out)
        part = self.rng.permutation(len(rows)) % CALIBRATION_FOLDS
        drawn = [
            self.rng.choice(np.flatnonzero(part != number), size=self.target)
            for number in range(CALIBRATION_FOLDS)
        ]
        values: dict[str, Floats] = {}
        for name, candidate in made.items():
            tables = tables_of(
                name,
                candidate.policy,
                candidate.family,
                self.safe,
                rows,
                reward_model,
                self.rng,
                self.logged_by,
            )
            values[name] = np.empty(len(rows))
            for number in range(CALIBRATION_FOLDS):
                found = tables.calibrate(drawn[number], self.alpha, self.bound)
                valued = np.flatnonzero(part == number)
                values[name][valued] = tables.values(valued, found)
                self.missing.setdefault(name, []).append(not found.exists)
        for name in names:
            total = self.values.setdefault(name, np.zeros(len(self.rows)))
            total[held_out] += values.get(name, values[plain])

    def estimates(self, plain: str) -> dict[str, ExpectedReward]:
        """Means over rows, whose values are averages over splits."""
        means = {name: total / CHOICE_REPEATS for name, total in self.values.items()}
        estimates = {}
        for name, values in means.items():
            lead = values - means[plain]
            estimates[name] = ExpectedReward(
                float(values.mean()),
                float(lead.mean()),
                float(lead.std(ddof=1) / np.sqrt(len(lead))),
                float(np.mean(self.missing.get(name, [np.nan]))),
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


def _fit_rewards(rows: LoggedRows, rng: np.random.Generator) -> LossModel:
    """A reward model: the loss model of rewards that are scaled to [0, 1].

    It is a constant where contexts or actions are neither numbers nor labels.
    """
    low, high = float(rows.rewards.min()), float(rows.rewards.max())
    if low == high:
        return lambda contexts, actions: np.full(len(actions), low)
    share = np.clip((rows.rewards - low) / (high - low), 0.0, 1.0)
    try:
        model = fit_loss(rows.contexts, rows.actions, share, rng=rng)
    except TypeError:
        mean = float(rows.rewards.mean())
        return lambda contexts, actions: np.full(len(actions), mean)
    return lambda contexts, actions: low + (high - low) * model(contexts, actions)
