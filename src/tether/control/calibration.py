"""The result of calibration: how far, what is promised, and how much to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tether._core import records
from tether._core.columns import Columns
from tether._core.description import Described, Description
from tether._core.ties import limit_if_tied
from tether._core.useful_promise import is_useful
from tether.control import calibration_record
from tether.control.calibration_log_facts import CalibrationLogFacts
from tether.control.calibration_warnings import find_warnings
from tether.control.constraint import Constraint
from tether.control.curve import Curve, curve_columns
from tether.control.diagnostics import RISK_TOLERANCE, Diagnostics, DiagnosticsInMemory
from tether.control.problem import Problem
from tether.control.promise import NearestPromise, PromiseTerms, make_promise, unforeseen_loss
from tether.control.summary import describe_calibration, write_statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tether.control.gains import Gain
    from tether.control.parts.problem import ProblemInParts


@dataclass(frozen=True)
class Calibration(CalibrationLogFacts, records.Saved, Described):
    """How far the optimized policy may go: everything at `beta` and below it passes.

    `beta` is 0 when nothing passes, which means: serve the safe policy; and inf when the optimized
    policy passes as it is. Properties that take time are computed when first needed and kept. A
    saved calibration has everything except its log.

    Parameters
    ----------
    log_beta : float
        Log of beta, exact where beta itself would overflow.
    constraints : tuple of Constraint
        Every loss with its alpha and bound.
    log_beta_by_constraint : mapping of str to float
        Log of the largest beta that each constraint allows by itself; the smallest is deployed.
    family : str
        The name of the family.
    test_weight : str or float
        How the test point was weighted: "empirical", "analytic" or a number.
    rows : int
        The number of rows of the log.
    contextual : bool
        Whether the log has contexts.
    blend : float, default 0.0
        The share of the safe policy that is blended into the optimized one, which never takes some
        actions by itself.
    asked_promise : mapping of str to float, optional
        The promise that was asked for instead of alpha, for each loss.
    confidence : float, optional
        The probability over logs with which the promise holds, where it is not in expectation.
    upper_bounds : mapping of str to float, optional
        With a confidence, the smallest alpha that would be certified at beta, for each loss.
    actions : int, optional
        How many actions, or candidates of a shortlist, the tables of the log list.
    approximate : str, optional
        What is approximate about the log-probabilities, and so about the promise.
    policies : mapping of str to str, optional
        Digests of the policies "safe" and "optimized", of those that have one, where the log is
        from `tether.make_log`; of a shortlist, how its "picker" picks, what draws its
        "candidates", and its "scorer". Serving others is noticed.
    nearest : NearestPromise, optional
        Where no beta has the promise that was asked for, the smallest promise that was found.

    Examples
    --------
    >>> import tether
    >>> found = tether.calibrate(tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50), alpha=0.1)
    >>> found.exists, found.promise < 0.2
    (True, True)
    """

    _kind: ClassVar[str] = "calibration"

    log_beta: float
    constraints: tuple[Constraint, ...]
    log_beta_by_constraint: Mapping[str, float]
    family: str
    test_weight: str | float
    rows: int
    contextual: bool
    blend: float = 0.0
    asked_promise: Mapping[str, float] | None = None
    confidence: float | None = None
    upper_bounds: Mapping[str, float] | None = None
    actions: int | None = None
    approximate: str | None = None
    policies: Mapping[str, str] | None = None
    nearest: NearestPromise | None = None
    _stored_problem: Problem | ProblemInParts | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def beta(self) -> float:
        """The control parameter to deploy with: 0 is the safe policy, inf the optimized one."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_beta))

    @property
    def exists(self) -> bool:
        """Whether any beta passes; if none does, only the safe policy is served."""
        return self.log_beta > -np.inf

    @property
    def binding(self) -> Constraint:
        """The constraint that stops beta first."""
        return min(self.constraints, key=lambda each: self.log_beta_by_constraint[each.name])

    @property
    def alpha(self) -> float:
        """The tolerated expected loss of the binding constraint."""
        return self.binding.alpha

    @property
    def bound(self) -> float:
        """The largest possible loss of the binding constraint."""
        return self.binding.bound

    @property
    def risk(self) -> float:
        """The calibrated risk at beta of the binding constraint."""
        return self.risks[self.binding.name]

    @cached_property
    def risks(self) -> dict[str, float]:
        """The calibrated risk at beta of every constraint; alpha where only rounding exceeds it."""
        measured = self._diagnostics.risks()
        return {
            each.name: limit_if_tied(measured[each.name], each.alpha, RISK_TOLERANCE)
            for each in self.constraints
        }

    @cached_property
    def safe_losses(self) -> dict[str, float] | None:
        """The safe policy's mean loss on the log, for every loss; None if loaded from a file."""
        if self._stored_problem is None:
            return None
        return {each.name: self._diagnostics.safe_mean(each).mean for each in self.constraints}

    @property
    def ratio_error(self) -> float:
        """The factor by which every importance weight may be wrong, in either direction."""
        return self.binding.ratio_error

    @cached_property
    def robustness(self) -> float:
        """The largest ratio error at which a beta still passes; below 1 where none passes.

        With a confidence, the largest at which one is certified.
        """
        return self._diagnostics.robustness()

    @cached_property
    def stability(self) -> float:
        """How much the policy moves when one row is left out: ε in the promise.

        0 with a confidence, whose promise does not need it.
        """
        return 0.0 if self.confidence is not None else self._diagnostics.stability()

    @cached_property
    def smoothness(self) -> float | None:
        """K of the family; None where it states none."""
        return self._problem.family.smoothness

    @property
    def promise(self) -> float:
        """The stated upper bound on the expected loss, at most B: the sum of `promise_terms`.

        Where no beta passes nothing is promised, and this is B.
        """
        return self.promises[self.binding.name]

    @property
    def promises(self) -> dict[str, float]:
        """The promise for every constraint."""
        terms = self.promise_terms
        return {
            each.name: terms[each.name].total if self.exists else each.bound
            for each in self.constraints
        }

    @cached_property
    def promise_terms(self) -> dict[str, PromiseTerms]:
        """What each promise is made of: alpha, stability, safe excess, and what is unforeseen."""
        of = self.constraints
        if self.confidence is not None:
            return {each.name: PromiseTerms(each.alpha, 0.0, 0.0, each.bound) for each in of}
        stability, terms = self.stability if self.exists else np.inf, {}
        for each in of:
            at = self._problem, each, self.log_beta
            unforeseen = unforeseen_loss(*at, lambda: self.acceptance)
            safe = self._diagnostics.safe_mean(each)
            terms[each.name] = make_promise(each, stability, safe, unforeseen)
        return terms

    @property
    def useful(self) -> bool:
        """Whether the promise says something: a beta passes, and each promise is worth stating.

        A promise near the bound, or of more than twice what was asked for, is not. Nor is any where
        the log does not contain what the tethered policy does (`covered`), or refutes what it
        states (`refuted_by`).
        """
        asked = self.asked_promise or {each.name: each.alpha for each in self.constraints}
        return (
            self.exists
            and self.covered
            and not self.refuted_by
            and all(
                is_useful(self.promises[each.name], asked[each.name], each.bound)
                for each in self.constraints
            )
        )

    @property
    def statement(self) -> str:
        """The promise in one sentence."""
        return write_statement(self)

    @cached_property
    def effective_sample_size(self) -> float:
        """How many equally weighted rows the weighted log is worth."""
        return self._diagnostics.effective_sample_size()

    @cached_property
    def max_weight(self) -> float:
        """The largest share of the total weight that one point has, the test point included."""
        return self._diagnostics.max_weight()

    @cached_property
    def relative_weights(self) -> tuple[float, ...]:
        """How unequal the rows are at beta: the 0 %, 1 %, …, 100 % quantiles of weight over mean.

        All are 1 where every row counts the same, and 0 where no row counts at all.
        """
        return self._diagnostics.relative_weights()

    @cached_property
    def acceptance(self) -> float:
        """The share of proposals that a rejection sampler accepts; NaN where it is unknown."""
        return self._diagnostics.acceptance()

    @cached_property
    def rows_beyond_draws(self) -> int:
        """How many rows have a larger ratio than every draw: the draws do not cover them."""
        return self._diagnostics.rows_beyond_draws()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What a careful reader would want to know before deploying, in words."""
        return tuple(find_warnings(self, self._problem, self._diagnostics))

    @cached_property
    def saved_gain(self) -> Gain | None:
        """What the calibration buys, as `tether.gain` states it.

        None if the log has neither rewards nor tables of all actions.
        """
        return None if self._stored_problem is None else self._diagnostics.gain(self)

    @property
    def effective_log_beta(self) -> float:
        """Log beta, or the nearest finite one with the same policy if the family saturates."""
        return float(np.clip(self.log_beta, *self._problem.reach(self.log_beta)))

    def curve(self, constraint: str | None = None, *, points: int = 256) -> Curve:
        """Compute beta and calibrated risk at the breakpoints, thinned to about `points` of them.

        A loaded calibration has the curve that it was saved with, whatever `points` says.

        Parameters
        ----------
        constraint : str, optional
            The name of a loss; that of the binding constraint by default.
        points : int, default 256
            How many points to compute.

        Returns
        -------
        Curve
            The calibrated risk along beta.

        Raises
        ------
        ValueError
            If there is no such constraint, or `points` is less than 2.
        """
        if not isinstance(points, int) or points < 2:
            raise ValueError(f"points must be an integer of at least 2, got {points!r}")
        name = self.binding.name if constraint is None else constraint
        saved: dict[str, Curve] = self.__dict__.get("_curves", {})
        if name in saved:
            return saved[name]
        chosen = {each.name: each for each in self.constraints}
        if name not in chosen:
            raise ValueError(f"constraint must be one of {sorted(chosen)}, got {name!r}")
        return self._diagnostics.curve(chosen[name], points)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the calibrated risk along beta, with alpha, beta and the neighborhood of beta.

        Pyplot is not used. Needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from tether.report.calibration_plot import plot_calibration

        return plot_calibration(self, ax)

    def to_frame(self) -> Columns:
        """Return the risk curves of all constraints as columns.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `constraint`, `log_beta`,
            `beta` and `risk`.
        """
        return curve_columns({each.name: self.curve(each.name) for each in self.constraints})

    def to_dict(self) -> dict[str, Any]:
        """Return everything, diagnostics included, as plain values.

        Returns
        -------
        dict
            What `save` writes and `from_dict` reads.
        """
        return calibration_record.to_dict(self)

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        return calibration_record.from_file(cls, saved)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Build a calibration from what `to_dict` returned, directly or read from JSON.

        Parameters
        ----------
        content : mapping
            What `to_dict` returned.

        Returns
        -------
        Calibration
            The same calibration without its log.

        Raises
        ------
        TypeError, ValueError
            If `content` is not a mapping, lacks entries, or contradicts itself.
        """
        return calibration_record.from_dict(cls, content)

    def _describe(self) -> Description:
        return describe_calibration(self)

    @property
    def _problem(self) -> Problem | ProblemInParts:
        if self._stored_problem is None:
            raise RuntimeError(
                "this calibration was loaded from a file, which does not contain the log: "
                "calibrate again to compute this"
            )
        return self._stored_problem

    @cached_property
    def _diagnostics(self) -> Diagnostics:
        problem = self._problem
        if isinstance(problem, Problem):
            return DiagnosticsInMemory(self, problem)
        from tether.control.parts.diagnostics import DiagnosticsInParts  # only for logs in parts

        return DiagnosticsInParts(self, problem)
