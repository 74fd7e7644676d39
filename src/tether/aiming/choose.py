"""Choosing on training rows: which policy and family earn most after calibration.

Every candidate is scored on rows that it was built without, calibrated on some of them and valued
on others. With π_β the tethered policy, π₀ the safe one that took the actions (or the mixture that
did) and r̂ a reward model fitted elsewhere, the doubly robust value of a row is

    Σ_a π_β(a | x)·r̂(x, a)  +  π_β(a_i | x)/π₀(a_i | x)·(r_i − r̂(x, a_i)),

which is unbiased for the expected reward of π_β whatever r̂ is; a good r̂ makes it less noisy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import arrays, policy_calls, validate
from tether._core.arrays import Actions, Contexts, Floats, Integers, Losses
from tether._core.contexts import as_contexts, length
from tether.aiming.aim import THE_LOSS
from tether.aiming.fitted_loss import fit_rewards
from tether.aiming.loss_models import LossModel, predict_losses, predict_table
from tether.aiming.rows_and_candidates import Build, Candidate
from tether.control.calibrate import of_each
from tether.control.engine import Constraint, search
from tether.control.families import DEFAULT_BLEND, Family, blend_scores, find_family
from tether.control.log import Log
from tether.control.pose import pose
from tether.policies.decision_rows import LoggedRows
from tether.policies.normalizer import exact_log_psi
from tether.policies.policy import as_policy, is_finite, picked, positions, shared_actions
from tether.policies.shortlist import Shortlist

MIN_ROWS_TO_CHOOSE, BUILD_FOLDS = 40, 5
"""The fewest rows for a choice, below which the plain candidate is taken; the number of folds."""
CALIBRATION_REPEATS = CALIBRATION_PARTS = 3
"""How often the rows are split for simulated calibrations, and into how many parts."""
STANDARD_ERRORS, LEAST_RELATIVE_LEAD = 2.5, 1e-9
"""How many standard errors a lead must exceed; how large it is, relative to the reward, if it is no
rounding error."""


@dataclass(frozen=True)
class ExpectedReward:
    """What a candidate is estimated to earn per action after calibration.

    `lead` is how far this is above the plain candidate's, and `lead_error` its standard error over
    rows.
    """

    reward: float
    lead: float
    lead_error: float


@dataclass(frozen=True)
class Choice:
    """The candidate to calibrate, and the estimates by which it was chosen.

    Parameters
    ----------
    name, policy, family
        The name of the chosen candidate, its policy, built from all training rows, which is to be
        calibrated and served, and its family, for `calibrate`.
    estimates : mapping of str to ExpectedReward
        The estimate of every candidate, the plain one first; empty where there is no choice.
    rows : int
        The number of training rows.
    """

    name: str
    policy: Any
    family: str | Family
    estimates: Mapping[str, ExpectedReward]
    rows: int

    def __str__(self) -> str:
        lines = [f"chosen: {self.name}, by {self.rows} training rows"]
        width = max(map(len, self.estimates), default=0)
        for name, each in self.estimates.items():
            lead = f"lead {each.lead:+.4g} ± {each.lead_error:.2g}"
            lines.append(f"  {name:<{width}}  expected reward {each.reward:.4g}, {lead}")
        if self.estimates and self.name == next(iter(self.estimates)):
            lines.append(f"no lead is above {STANDARD_ERRORS:g} standard errors")
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
    logged_by: Any = None,
) -> Choice:
    """Choose the candidate that earns most after calibration, judged by training rows alone.

    Every row meets candidates that were built without it; each is calibrated on as many rows as
    there will be, and valued on others. Of the candidates whose lead over the first, plain one
    is above 2.5 of its standard errors, which is enough for ten candidates, the one with the
    largest lead after one standard error is subtracted is taken; the plain one if there is none.
    The guarantee comes from calibrating the chosen candidate on other rows than these.

    Parameters
    ----------
    candidates : mapping of str to policy, or callable
        Policies by name, each a finite policy, a `Shortlist`, or a `Candidate` with a family, the
        plain one first. Or a function of (rows, rng) that builds them from training rows, such as
        `aimed_candidates` makes: whatever is fitted must be fitted there.
    safe : FinitePolicy
        The safe policy, which took the actions.
    contexts, actions, losses, rewards : array-like
        The columns of the training rows; contexts may be a frame, and None where there are none;
        several losses are a mapping by name.
    alpha, bound : float or mapping of str to float
        The tolerated expected loss and the largest possible one, as for `calibrate`.
    rng : numpy.random.Generator
        The source of randomness.
    calibration_rows : int, optional
        How many rows there will be to calibrate on; by default as many as there are training rows.
    logged_by : FinitePolicy, optional
        What took the actions if not the safe policy: after several rounds, the `Mixture` of the
        policies that were served. Not for shortlists.
    """
    rows = _as_rows(contexts, actions, losses, rewards, safe)
    validate.generator("rng", rng)
    target = len(rows) if calibration_rows is None else calibration_rows
    validate.integer("calibration_rows", target)
    build = candidates if callable(candidates) else lambda rows, rng: candidates
    final = _as_candidates(build(rows, rng))
    name = plain = next(iter(final))
    estimates: dict[str, ExpectedReward] = {}
    if len(rows) >= MIN_ROWS_TO_CHOOSE and len(final) > 1:
        constraints = _constraints(rows, alpha, bound)
        tables = _held_out_tables(rows, build, tuple(final), logged_by, rng)
        estimates = _estimates(rows, tables, constraints, target, rng)
        leads = {
            key: each.lead - each.lead_error
            for key, each in estimates.items()
            if each.lead
            > STANDARD_ERRORS * each.lead_error + LEAST_RELATIVE_LEAD * abs(each.reward)
        }
        name = max(leads, key=lambda key: leads[key]) if leads else plain
    policy, family = final[name].policy, final[name].family
    return Choice(name, policy, family, estimates, len(rows))


def _as_rows(contexts: Any, actions: Any, losses: Any, rewards: Any, safe: Any) -> LoggedRows:
    """Rows from columns, checked for equal lengths."""
    columns = {"contexts": contexts, "actions": actions, "losses": losses, "rewards": rewards}
    arrays.check_row_indexes(columns)
    taken = arrays.plain_column("actions", actions)
    named = losses if isinstance(losses, Mapping) else {THE_LOSS: losses}
    checked = {name: validate.losses("losses", values) for name, values in named.items()}
    for values in checked.values():
        validate.same_length("losses", values, "actions", len(taken))
    reward = validate.floats("rewards", rewards, meaning="reward", finite=True)
    validate.same_length("rewards", reward, "actions", len(taken))
    if hasattr(safe, "predict_proba"):
        safe = as_policy("safe", safe)
    given = as_contexts(contexts, taken)
    return LoggedRows(given, taken, checked, reward, safe)


def _as_candidates(made: Any) -> dict[str, Candidate]:
    """Candidates by name; a policy without a family is calibrated with clip."""
    if not isinstance(made, Mapping) or not made:
        raise TypeError(f"candidates must be a mapping with at least one policy, got {made!r}")
    pairs = made.items()
    return {name: each if isinstance(each, Candidate) else Candidate(each) for name, each in pairs}


def _constraints(rows: LoggedRows, alpha: Any, bound: Any) -> tuple[Constraint, ...]:
    """The tolerated expected value of each loss, and the largest possible one."""
    names = list(rows.losses)
    levels, bounds = of_each("alpha", alpha, names), of_each("bound", bound, names)
    return tuple(Constraint(name or "loss", levels[name], bounds[name]) for name in names)


@dataclass(frozen=True)
class _Tables:
    """A candidate on rows: log-probabilities and predicted rewards of every action or position."""

    family: Family
    taken: Integers
    log_safe: Floats
    log_optimized: Floats
    predicted: Floats
    log_mix: Floats | None = None

    def calibrate(
        self, index: Integers, losses: Mapping[str, Floats], constraints: tuple[Constraint, ...]
    ) -> tuple[float, float]:
        """The log beta and blend that some rows allow; rows may be repeated."""
        taken = self.taken[index]
        safe, optimized = self.log_safe[index], self.log_optimized[index]
        mix = None if self.log_mix is None else self.log_mix[index]
        log = Log(
            {name or "loss": loss[index] for name, loss in losses.items()},
            picked(safe, taken),
            picked(optimized, taken),
            log_mix=None if mix is None else picked(mix, taken),
            log_safe_all=safe,
            log_optimized_all=optimized,
            log_mix_all=mix,
        )
        problem, _ = pose(log, None, self.family, "empirical", DEFAULT_BLEND, constraints)
        return min(search(problem).largest().values()), problem.blend

    def values(self, index: Integers, rewards: Floats, log_beta: float, blend: float) -> Floats:
        """The doubly robust value of each given row under what a calibration allows."""
        safe, taken = self.log_safe[index], self.taken[index]
        optimized = blend_scores(self.log_optimized[index], safe, blend)
        log_psi = exact_log_psi(safe, optimized, self.family, log_beta)[:, None]
        density = self.family.log_density(safe, optimized, log_beta, log_psi)
        logged = safe if self.log_mix is None else self.log_mix[index]
        weight = np.exp(picked(density, taken) - picked(logged, taken))
        surprise = rewards[index] - picked(self.predicted[index], taken)
        return np.asarray((np.exp(density) * self.predicted[index]).sum(axis=1) + weight * surprise)


def _held_out_tables(
    rows: LoggedRows, build: Build, names: tuple[str, ...], logged_by: Any, rng: np.random.Generator
) -> dict[str, tuple[Integers, _Tables]]:
    """For every candidate, the rows that it was built without, and its tables on them."""
    pieces: dict[str, list[tuple[Integers, _Tables]]] = {name: [] for name in names}
    fold = rng.permutation(len(rows)) % BUILD_FOLDS
    for number in range(BUILD_FOLDS):
        held_out = np.flatnonzero(fold == number)
        others, mine = rows.take(np.flatnonzero(fold != number)), rows.take(held_out)
        reward_model = fit_rewards(others.contexts, others.actions, others.rewards)
        for name, each in _as_candidates(build(others, rng)).items():
            if name in pieces:
                made = _tables_of(name, each, mine, reward_model, logged_by, rng)
                pieces[name].append((held_out, made))
    return {name: _joined(name, each) for name, each in pieces.items() if each}


def _joined(name: str, pieces: list[tuple[Integers, _Tables]]) -> tuple[Integers, _Tables]:
    tables = [each for _, each in pieces]
    if len({each.log_safe.shape[1] for each in tables}) > 1:
        raise ValueError(f"candidate {name!r} must always have the same number of actions")
    names = ["taken", "log_safe", "log_optimized", "predicted"]
    names += [] if tables[0].log_mix is None else ["log_mix"]
    columns = {each: np.concatenate([getattr(one, each) for one in tables]) for each in names}
    return np.concatenate([where for where, _ in pieces]), _Tables(tables[0].family, **columns)


def _tables_of(
    name: str,
    candidate: Candidate,
    rows: LoggedRows,
    reward_model: LossModel,
    logged_by: Any,
    rng: np.random.Generator,
) -> _Tables:
    """The tables of a candidate, over actions or, for a shortlist, over its candidates."""
    family, policy = find_family(candidate.family), candidate.policy
    if family.max_draws is not None:
        raise ValueError(f"candidate {name!r} has family {family.name!r}: use clip or mix")
    if isinstance(policy, Shortlist):
        if logged_by is not None:
            raise ValueError(f"logged_by must be None for a shortlist, such as candidate {name!r}")
        drawn, taken = policy.join(rows.contexts, rows.actions, rng)
        optimized = policy.required_picker.log_prob_all(drawn)
        log_safe = np.full(optimized.shape, -np.log(policy.size))
        predicted = predict_losses("rewards", reward_model, *drawn.pairs())
        shaped = predicted.reshape(log_safe.shape)
        return _Tables(family, taken, log_safe, optimized, shaped)
    policy, safe = as_policy(name, policy), as_policy("safe", rows.policy)
    if not (is_finite(policy) and is_finite(safe)):
        raise TypeError(
            f"candidate {name!r} has infinitely many actions: choose among shortlists of it, "
            f"tether.Shortlist(safe, optimized); got {arrays.shown(policy)}"
        )
    policies: dict[str, Any] = {"safe": safe, name: policy}
    if logged_by is not None:
        policies["logged_by"] = as_policy("logged_by", logged_by)
    actions: Any = shared_actions(tuple(policies.values()), tuple(policies))
    shape = (length(rows.contexts), len(actions))
    tables = [policy_calls.table(*each, rows.contexts, actions) for each in policies.items()]
    contexts = 1 if isinstance(rows.contexts, int) else rows.contexts
    tables.insert(2, predict_table("rewards", reward_model, contexts, actions))
    taken = positions(actions, rows.actions)
    return _Tables(family, taken, *(np.broadcast_to(table, shape) for table in tables))


def _estimates(
    rows: LoggedRows,
    tables: Mapping[str, tuple[Integers, _Tables]],
    constraints: tuple[Constraint, ...],
    target: int,
    rng: np.random.Generator,
) -> dict[str, ExpectedReward]:
    """Means over rows; where a candidate was not built, it is worth what the plain one is."""
    sums = {name: np.zeros(len(rows)) for name in tables}
    taken = {name: rows.take(known) for name, (known, _) in tables.items()}
    for _ in range(CALIBRATION_REPEATS):
        part = rng.permutation(len(rows)) % CALIBRATION_PARTS
        for number in range(CALIBRATION_PARTS):
            spread, plain = rng.random(target), np.zeros(len(rows))  # the same for all candidates
            for place, (name, (known, each)) in enumerate(tables.items()):
                values, mine = plain if place == 0 else plain.copy(), part[known] == number
                pool, valued = np.flatnonzero(~mine), np.flatnonzero(mine)
                if len(pool) and len(valued):
                    drawn = pool[(spread * len(pool)).astype(np.int64)]
                    found = each.calibrate(drawn, taken[name].losses, constraints)
                    values[known[valued]] = each.values(valued, taken[name].rewards, *found)
                sums[name] += values
    plain, estimates = next(iter(sums.values())), {}
    for name, total in sums.items():
        lead = (total - plain) / CALIBRATION_REPEATS
        estimates[name] = ExpectedReward(
            reward=float(total.mean() / CALIBRATION_REPEATS),
            lead=float(lead.mean()),
            lead_error=float(lead.std(ddof=1) / np.sqrt(len(lead))),
        )
    return estimates
