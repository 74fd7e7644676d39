"""Planning: how many rows a calibration needs before any beta passes, and what beta to expect."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core import validate
from tether._core.columns import Columns
from tether._core.description import Described, Description
from tether.control.plan_families import find_planned, make_model
from tether.control.plan_inputs import (
    measure_inputs,
    measure_max_ratio,
    measure_population,
    refuse_never_taken,
)
from tether.control.plan_log import beta_of
from tether.control.plan_model import MAX_PLANNED_ROWS, PlanModel
from tether.control.plan_population import Population
from tether.control.plan_rows import (
    LARGEST_PLAN,
    TooManyRowsError,
    outlook,
    rows_for,
    rows_over_levels,
)
from tether.control.plan_summary import describe_plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tether.control.log import Log

ROW_MULTIPLES = (1, 2, 5, 10, 100)
"""The sizes of logs for which a plan states beta, as multiples of the likely number of rows."""
ALPHAS_ON_CURVE, PROMISES_ON_CURVE = 25, 9
"""For how many levels a plan states the rows that they need."""


@dataclass(frozen=True)
class Plan(Described):
    """What a log of a given size can be expected to allow.

    A log *passes* if calibrating it finds a beta; where a promise was named, one whose whole stated
    promise is at most that. Of everything that differs between logs of one size, their mean loss
    decides the most whether they pass. So a plan computes a calibration in which all other sums
    are at their expectation given the mean loss, and takes the mean loss to be the safe risk
    (`rows_needed`) or the one that logs do not exceed with probability `pass_probability`
    (`rows_likely`). With a promise the alpha inside it grows with the rows, towards the promise.

    What is expected is computed from the rows of the log; those of the next log are taken to be
    like them. Without a log the model is: a loss is 0 or `bound`, which is the hardest case for a
    given risk, and log ratios are normal with standard deviation `log_ratio_spread` among harmless
    and among harmful actions, shifted so that the optimized policy's risk is `optimized_risk`. For
    clip this is also assumed in every context alike; for mix contexts do not matter.

    How accurate it is: where the truth is a large log, rows for a promise were within a quarter of
    those with which 90 % of simulated logs passed, and of those with which half did, from 30 rows
    on, the noise of the simulation included (`benchmarks/plan_rows.py`). The rows for an alpha are
    exact for losses of 0 or the bound. A plan is no more accurate than the risks it is given: a log
    knows its own safe risk to about √(safe risk/rows).

    Parameters
    ----------
    alpha : float, optional
        The tolerated expected loss; None where a promise was named instead.
    promise : float, optional
        The whole stated bound that was named: alpha, stability and existence together.
    bound : float
        The largest possible loss.
    safe_risk, optimized_risk : float
        The expected loss of each policy.
    log_ratio_spread : float
        The standard deviation of the log ratios.
    pass_probability : float
        The probability with which `rows_likely` rows pass.
    rows_needed : float
        The fewest rows that pass if their mean loss is exactly the safe risk; inf if none do.
    rows_likely : float
        The fewest rows from which on logs pass with probability `pass_probability`; inf if none do.
    betas : tuple of (int, float)
        Numbers of rows, and the beta of the family to expect at each.
    promises : tuple of (int, float)
        The same numbers of rows, and the whole promise to expect to be stated at each.
    family : str, default "clip"
        The family that is planned.
    max_ratio : float, optional
        The largest ratio that the next action can have, where it is known; without it, the largest
        to expect among as many draws as rows.
    not_modelled : str, optional
        What of a calibration the plan does not model, in words.
    log_rows : int, optional
        The rows of the log that the plan was measured from.
    beta_of_log : float, optional
        The beta of a calibration on that log, 0 if none has a useful promise; for mix with a
        largest ratio.
    beta_limit : float, optional
        The beta to expect of arbitrarily many rows, where some number is enough.

    Examples
    --------
    >>> made = plan(alpha=0.1, safe_risk=0.05, optimized_risk=0.2, rows=1000)
    >>> [(rows, round(beta, 2)) for rows, beta in made.betas]
    [(1000, 1.63)]
    """

    alpha: float | None
    promise: float | None
    bound: float
    safe_risk: float
    optimized_risk: float
    log_ratio_spread: float
    pass_probability: float
    rows_needed: float
    rows_likely: float
    betas: tuple[tuple[int, float], ...]
    promises: tuple[tuple[int, float], ...]
    family: str = "clip"
    max_ratio: float | None = None
    not_modelled: str | None = None
    log_rows: int | None = None
    beta_of_log: float | None = None
    beta_limit: float | None = None
    _model: PlanModel | None = field(default=None, repr=False, compare=False)

    @property
    def possible(self) -> bool:
        """Whether some number of rows is enough."""
        return math.isfinite(self.rows_needed)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values.

        Returns
        -------
        dict
            One entry per field.
        """
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}

    def to_frame(self) -> Columns:
        """Return what each size of the log can be expected to allow.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `rows`, `beta` and `promise`.
        """
        return Columns(
            rows=np.array([rows for rows, _ in self.betas], dtype=np.int64),
            beta=np.array([beta for _, beta in self.betas], dtype=np.float64),
            promise=np.array([stated for _, stated in self.promises], dtype=np.float64),
        )

    def curve(self, *, points: int | None = None) -> Columns:
        """Compute the rows that other alphas would need, or other promises if one was named.

        Parameters
        ----------
        points : int, optional
            How many levels to compute, at least 2; by default 25 alphas, or 9 promises, each of
            which takes a fraction of a second.

        Returns
        -------
        Columns
            A dictionary of arrays: `alpha` or `promise`, in increasing order and with the one that
            was named, and `rows_needed` and `rows_likely` for each; inf where no number is enough.

        Raises
        ------
        TypeError, ValueError
            If `points` is not an integer of at least 2.
        """
        if points is None:
            points = ALPHAS_ON_CURVE if self.promise is None else PROMISES_ON_CURVE
        model = self._model
        if model is None:  # built by hand
            risks = self.safe_risk / self.bound, self.optimized_risk / self.bound
            population = Population.from_figures(*risks, self.log_ratio_spread)
            model = make_model(self.family, population, self.max_ratio)
        return rows_over_levels(self, model, validate.integer_at_least("points", points, 2))

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the rows that are needed against alpha, or against the promise if one was named.

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
        from tether.report.plan_plot import plot_plan

        return plot_plan(self, ax)

    def _describe(self) -> Description:
        return describe_plan(self)


def plan(
    log: Log | None = None,
    *,
    safe_risk: float | None = None,
    alpha: float | None = None,
    promise: float | None = None,
    bound: float = 1.0,
    optimized_risk: float | None = None,
    log_ratio_spread: float | None = None,
    rows: int | None = None,
    pass_probability: float = 0.9,
    family: str | None = None,
    max_ratio: float | None = None,
) -> Plan:
    """Estimate how many rows to log, and what beta and stated promise to expect.

    With n rows of the safe policy, n·(alpha − mean loss) must be at least bound − alpha before any
    beta passes. A promise to be stated needs more: room for stability and existence beside alpha.
    A plan is an expectation under the model of `Plan`, which says how accurate it is, and not a
    promise. It is for a promise on average; with a `confidence` the same beta takes several times
    as many rows.

    Parameters
    ----------
    log : Log, optional
        A log of the safe policy, with one loss. Its rows are what the plan takes for the truth. If
        `safe_risk`, `optimized_risk` or `log_ratio_spread` is passed, the others are measured from
        the log, and the plan is that of the three figures.
    safe_risk : float, optional
        The expected loss of the safe policy, from 0 to `bound`; required without a log.
    alpha : float, optional
        The tolerated expected loss, above 0 and below `bound`.
    promise : float, optional
        The whole bound to be stated, instead of `alpha`.
    bound : float, default 1.0
        The largest possible loss.
    optimized_risk : float, optional
        The expected loss of the optimized policy; without a log that of the safe policy by default.
    log_ratio_spread : float, optional
        The standard deviation of the log ratio of optimized over safe density; without a log 1 by
        default.
    rows : int, optional
        The number of rows for which to state beta; by default several multiples of the likely one,
        and the number of rows in the log.
    pass_probability : float, default 0.9
        The probability with which the likely number of rows passes.
    family : str, optional
        The family to plan for, "clip" or "mix"; by default clip, but mix for a log of propensities
        alone (with contexts, `max_ratio`, and no tables of all actions), and budgeted clip where a
        log has contexts and neither. Budgeted clip is planned as clip, and the plan says so.
    max_ratio : float, optional
        A number that the ratio of optimized over safe density does not exceed; by default that of
        the log, or of its tables of all actions.

    Returns
    -------
    Plan
        The rows needed, the rows that are likely to pass, and the beta to expect.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or not in its range, or both or neither of `alpha` and
        `promise` are passed.

    Examples
    --------
    >>> made = plan(alpha=0.1, safe_risk=0.05)
    >>> made.rows_needed, made.rows_likely
    (18, 69)

    From a log that is too small, how large one like it should be:

    >>> from tether import Log
    >>> log = Log([0.0] * 19 + [1.0], log_safe=[-1.0] * 20, log_optimized=[-0.9, -1.1] * 10)
    >>> plan(log, alpha=0.1).safe_risk
    0.05
    """
    from_rows = log is not None and safe_risk is optimized_risk is log_ratio_spread is None
    if log is not None:
        measured = measure_inputs(log)
        safe_risk = measured.safe_risk if safe_risk is None else safe_risk
        if optimized_risk is None:
            optimized_risk = measured.optimized_risk
        if log_ratio_spread is None:
            log_ratio_spread = measured.log_ratio_spread
    if safe_risk is None:
        raise TypeError("safe_risk is required: the safe policy's expected loss, or a log of it")
    validate.one_target(alpha, promise)
    bound = validate.number("bound", bound, above=0, below=np.inf)
    if promise is None:
        alpha = validate.number("alpha", alpha, above=0, below=bound)
    else:
        promise = validate.number("promise", promise, above=0, below=bound)
    planned = find_planned(family, log)
    if log is not None and planned.family != "mix":
        refuse_never_taken(log)
    if max_ratio is not None:
        max_ratio = validate.number("max_ratio", max_ratio, above=1, below=np.inf, including=(1,))
    elif log is not None:
        max_ratio = measure_max_ratio(log)
    population = None
    if from_rows and log is not None:
        population = measure_population(log, bound)
    safe_risk = _checked_risk("safe_risk", safe_risk, bound)
    optimized_risk = _checked_risk(
        "optimized_risk", safe_risk if optimized_risk is None else optimized_risk, bound
    )
    spread = 1.0 if log_ratio_spread is None else log_ratio_spread
    spread = validate.number("log_ratio_spread", spread, above=0, below=100)
    pass_probability = validate.number("pass_probability", pass_probability, above=0, below=1)
    if population is None:
        population = Population.from_figures(safe_risk / bound, optimized_risk / bound, spread)
    model = make_model(planned.family, population, max_ratio)
    target = (
        None if alpha is None else alpha / bound,
        None if promise is None else promise / bound,
    )
    try:
        rows_needed, rows_likely = rows_for(model, *target, pass_probability)
    except TooManyRowsError:
        named = f"alpha = {alpha:g}" if promise is None else f"promise = {promise:g}"
        raise ValueError(
            f"more than {LARGEST_PLAN:.0e} rows would be needed: {named} is too close to "
            f"safe_risk = {safe_risk:g} for a bound of {bound:g}"
        ) from None
    if rows is not None:
        sizes = [validate.integer_at_least("rows", rows)]
    else:
        finite = math.isfinite(rows_likely)
        sizes = [int(rows_likely * multiple) for multiple in ROW_MULTIPLES] if finite else []
        if log is not None and finite:
            sizes = sorted({*sizes, len(log)})
    beta_limit = None
    if math.isfinite(rows_needed):
        most = max(MAX_PLANNED_ROWS, int(rows_likely))
        beta_limit = outlook(model, *target, most).beta
    outlooks = [outlook(model, *target, size) for size in sizes]
    return Plan(
        alpha=alpha,
        promise=promise,
        bound=bound,
        safe_risk=safe_risk,
        optimized_risk=optimized_risk,
        log_ratio_spread=spread,
        pass_probability=pass_probability,
        rows_needed=rows_needed,
        rows_likely=rows_likely,
        betas=tuple((size, found.beta) for size, found in zip(sizes, outlooks, strict=True)),
        promises=tuple(
            (size, bound * found.promise) for size, found in zip(sizes, outlooks, strict=True)
        ),
        family=planned.family,
        max_ratio=max_ratio,
        not_modelled=planned.not_modelled,
        log_rows=None if log is None else len(log),
        beta_of_log=None if log is None else beta_of(log, planned.family, alpha, promise, bound),
        beta_limit=beta_limit,
        _model=model,
    )


def _checked_risk(name: str, value: float, bound: float) -> float:
    """A risk, from 0 to the bound."""
    return validate.number(name, value, above=0, below=bound, including=(0, bound))
