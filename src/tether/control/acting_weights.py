"""Weights against the policy that acted in each row, and how large they can be in its context.

The conformal condition weighs a row against the mixture of all policies that produced the log. A
promise that holds with high probability over adaptively chosen rounds needs each weight to be
unbiased given the past, so here the density of the tethered policy is divided by that of the policy
that acted in the row. Betting needs a limit as well: a number that no weight can exceed in the
row's context. It may depend on the context and on the policies, but not on the action that was
taken, nor on the loss.

- Clip without contexts: the normalizing constant is not known, but is at most min(β, 1). Dividing
  by this gives weights with an expectation of at most 1, and a limit of max(β, 1).
- Tables of all actions: the largest weight among the actions of the context.
- Budgeted clip with unbiased weights from draws: N·max(β, 1) + 1, whatever the draws. It is a limit
  of weights that are unbiased given the context, so every row needs draws of its own: rows that
  share draws are not independent given the past.
- Mix without tables: no limit.

These are limits of tethered over safe density. If other policies acted, they are multiplied by the
largest ratio of safe density to that of the policy that acted.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tether._core.types import Floats
from tether._core.validate import same_length
from tether.control.acting import Acting
from tether.control.families import BudgetedClip, Clip, Mix
from tether.control.problem import Problem
from tether.control.shared_draws import count_sharing


class ActingWeights:
    """Log-weights of the rows of a problem at every beta, with their limits."""

    def __init__(self, problem: Problem, acting: Acting | None = None) -> None:
        _check_weights(problem)
        _check_acting(problem, acting)
        self.problem, self.acting = problem, acting
        log = problem.log
        self.log_logged = log.log_safe if acting is None else acting.log_logged
        self.log_base_limit: Floats | float = 0.0
        if acting is not None:
            given = acting.log_base_limit
            self.log_base_limit = np.inf if given is None else given
        self._cancels = isinstance(problem.family, Clip) and not log.contextual

    def at(self, log_beta: float) -> tuple[Floats, Floats | float]:
        """The log-weight of every row, and the log of its limit."""
        log = self.problem.log
        if self._cancels:
            scale = min(log_beta, 0.0)
            log_ratio = np.minimum(self.problem.log_ratio, log_beta) - scale
            log_weight = log_ratio + (log.log_safe - self.log_logged)
        else:
            log_weight = self._log_density(log.log_safe, log.log_optimized, log_beta)
            log_weight = log_weight - self.log_logged
        return log_weight, self._log_limit(log_beta)

    def _log_limit(self, log_beta: float) -> Floats | float:
        limit: Floats | float = np.inf
        if self._cancels:
            limit = max(log_beta, 0.0) + self.log_base_limit
        elif self.problem.log.log_safe_all is not None:
            limit = self._table_limit(log_beta)
        elif isinstance(self.problem.family, BudgetedClip):
            tries = np.log(self.problem.family.max_draws) + max(log_beta, 0.0)
            limit = np.logaddexp(tries, 0.0) + self.log_base_limit
        stated = self.problem.test_weight.constant
        if stated is not None and self.acting is None:  # the user's own bound on every weight
            limit = np.minimum(limit, np.log(stated))
        return limit

    def _table_limit(self, log_beta: float) -> Floats:
        """The largest weight among the actions of each row's tables."""
        log, acting = self.problem.log, self.acting
        if acting is not None and acting.log_logged_all is not None:
            return self._largest_in_tables(acting.log_logged_all, log_beta)
        if isinstance(self.problem.family, (Clip, Mix, BudgetedClip)):
            # Tethered over safe density grows with the ratio: look at the largest one only.
            ratio = self._log_density(np.zeros(len(log)), self._largest_log_ratio, log_beta)
        else:
            assert log.log_safe_all is not None
            ratio = self._largest_in_tables(log.log_safe_all, log_beta)
        return np.asarray(ratio + self.log_base_limit)

    def _largest_in_tables(self, log_logged_all: Floats, log_beta: float) -> Floats:
        log = self.problem.log
        assert log.log_safe_all is not None
        assert log.log_optimized_all is not None
        density = self._log_density(log.log_safe_all, log.log_optimized_all, log_beta)
        with np.errstate(invalid="ignore"):
            weight = density - log_logged_all
        return np.asarray(np.where(np.isneginf(density), -np.inf, weight).max(axis=1))

    @cached_property
    def _largest_log_ratio(self) -> Floats:
        """The largest log ratio among the actions that the safe policy can take, in each row."""
        log = self.problem.log
        assert log.log_safe_all is not None
        assert log.log_optimized_all is not None
        with np.errstate(invalid="ignore"):
            ratio = log.log_optimized_all - log.log_safe_all
        return np.asarray(np.where(np.isneginf(log.log_safe_all), -np.inf, ratio).max(axis=1))

    def _log_density(self, log_safe: Floats, log_optimized: Floats, log_beta: float) -> Floats:
        """The tethered density at actions in the contexts of the rows, one row of actions each."""
        densities = self.problem.densities
        cell = densities.row if log_safe.ndim == 1 else densities.row[:, None]
        return densities.log_density(log_safe, log_optimized, cell, log_beta)


def _check_weights(problem: Problem) -> None:
    """Refuse weights that are not unbiased given the past."""
    family, log = problem.family, problem.log
    if family.normalized or log.log_safe_all is not None:
        return
    if isinstance(family, Clip) and not log.contextual:
        return
    if not isinstance(family, BudgetedClip):
        raise ValueError(
            f"confidence needs weights without an estimated normalizing constant, and family "
            f"{family.name!r} has one here: give tables of all actions (log_safe_all, "
            f"log_optimized_all), or use family 'mix' or 'budgeted_clip'"
        )
    shared = count_sharing(problem)
    if shared:
        raise ValueError(
            f"confidence needs draws of its own for every row, but {shared} of {len(log)} rows "
            f"share those of another row of their context: give {family.max_draws} draws of each "
            f"policy for every row, or tables of all actions"
        )


def _check_acting(problem: Problem, acting: Acting | None) -> None:
    """Refuse a log of several policies that does not say which of them acted in each row."""
    log = problem.log
    if acting is None:
        if log.log_mix is not None:
            raise ValueError(
                "confidence needs acting=tether.control.Acting(log_logged=…) in the log, the "
                "log-density of each action under the policy that acted in its row: the log has "
                "log_mix, the mixture of several policies, against which weights are not unbiased "
                "if later policies were chosen from earlier losses; if every action was drawn from "
                "the mixture itself, log_logged is log_mix"
            )
        return
    same_length("log_logged", acting.log_logged, "log_safe", len(log))
    if (table := acting.log_logged_all) is not None:
        if log.log_safe_all is None:
            raise ValueError("log_logged_all needs log_safe_all and log_optimized_all in the log")
        if table.shape != log.log_safe_all.shape:
            raise ValueError(
                f"log_logged_all has shape {table.shape} but log_safe_all {log.log_safe_all.shape}"
            )
    if acting.log_base_limit is not None:
        same_length("log_base_limit", acting.log_base_limit, "log_safe", len(log))
        excess = log.log_safe - acting.log_logged - acting.log_base_limit
        if not (excess <= 1e-6).all():
            row = int(np.argmax(~(excess <= 1e-6)))
            raise ValueError(
                f"log_base_limit[{row}] is {acting.log_base_limit[row]:g}, below log_safe − "
                f"log_logged = {log.log_safe[row] - acting.log_logged[row]:g} of its own row"
            )
