"""Choosing on training rows: which policy and family earn most after calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.types import Actions, Contexts, Losses
from tether.aiming.candidate_simulation import (
    Build,
    CandidateSimulation,
    ExpectedReward,
    as_candidates,
)
from tether.aiming.training_rows import as_rows
from tether.control.families import Family
from tether.policies.policy import as_policy

MIN_ROWS_TO_CHOOSE = 40
"""With fewer training rows there is nothing to choose by, and the plain candidate is taken."""

LEAST_RELATIVE_LEAD = 1e-9
"""A lead that is smaller, relative to the reward, may be a rounding error."""


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
        if not self.estimates and self.rows < MIN_ROWS_TO_CHOOSE:
            return f"{self.name}: {self.rows} training rows are too few to choose by"
        if not self.estimates:
            return f"{self.name}: there is no other candidate"
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
    final = as_candidates(build(rows, generator))
    plain = next(iter(final))
    name, estimates = plain, {}
    if len(rows) >= MIN_ROWS_TO_CHOOSE and len(final) > 1:
        simulation = CandidateSimulation(rows, safe, alpha, bound, target, generator, logged_by)
        simulation.build(build, tuple(final))
        estimates = simulation.estimates(plain)
        clear = {
            key: each.lead - each.lead_error
            for key, each in estimates.items()
            if each.lead > margin * each.lead_error + LEAST_RELATIVE_LEAD * abs(each.reward)
        }
        name = max(clear, key=lambda key: clear[key]) if clear else plain
    chosen = final[name]
    return Choice(name, chosen.policy, chosen.family, estimates, margin, len(rows))


def _fixed(candidates: Mapping[str, Any]) -> Build:
    if not isinstance(candidates, Mapping):
        raise TypeError(
            f"candidates must be a mapping of policies by name, or a function of (rows, rng) that "
            f"returns one, got {candidates!r}"
        )
    return lambda rows, rng: candidates


def _scoring(safe: Any) -> Any:
    """The safe policy; what can only draw stays as it is."""
    scores = hasattr(safe, "log_prob") or hasattr(safe, "predict_proba")
    return as_policy("safe", safe) if scores else safe
