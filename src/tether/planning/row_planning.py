"""Planning: how many rows a calibration needs before any beta passes, and what beta to expect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tether._core import validate
from tether.planning.first_passing import LARGEST_PLAN, TooManyRowsError
from tether.planning.log_verdict import beta_of, refutations_of
from tether.planning.plan_inputs import (
    measure_inputs,
    measure_max_ratio,
    measure_population,
    refuse_never_taken,
    rows_with_tables,
)
from tether.planning.plan_model import MAX_PLANNED_ROWS
from tether.planning.plan_result import Plan
from tether.planning.planned_family import find_planned, make_model
from tether.planning.population import Population
from tether.planning.rows_needed import outlook, rows_for

if TYPE_CHECKING:
    from tether.control.log import Log

ROW_MULTIPLES = (1, 2, 5, 10, 100)
"""The sizes of logs for which a plan states beta, as multiples of the likely number of rows."""


def plan(
    log: Log | None = None,
    *,
    safe_risk: float | None = None,
    alpha: float | None = None,
    promise: float | None = None,
    confidence: float | None = None,
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
    With a confidence, the losses must show that the safe policy's risk is at most alpha, which
    takes several times as many rows. A plan is an expectation under the model of `Plan`, which says
    how accurate it is, and not a promise.

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
        The whole bound to be stated, instead of `alpha`; with a confidence they are the same.
    confidence : float, optional
        The probability over logs with which the promise is to hold, as in `calibrate`; by default
        it is to hold on average over logs.
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
        log has contexts and neither. Budgeted clip is planned as clip, and the plan says so. With
        tables of all actions, clip is planned with the weights of each row in its own context.
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
    >>> made = plan(alpha=0.1, safe_risk=0.05, confidence=0.95)
    >>> made.rows_needed, made.rows_likely
    (239, 472)

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
    if confidence is not None:
        confidence = validate.number("confidence", confidence, above=0, below=1)
    planned = find_planned(family, log, from_rows=from_rows)
    if log is not None and planned.family != "mix":
        refuse_never_taken(log)
    if max_ratio is not None:
        max_ratio = validate.number("max_ratio", max_ratio, above=1, below=np.inf, including=(1,))
    elif log is not None:
        max_ratio = measure_max_ratio(log)
    population, known_rows = None, None
    if from_rows and log is not None:
        population = measure_population(log, bound)
        known_rows = rows_with_tables(log, bound, thinned=confidence is not None)
    safe_risk = _checked_risk("safe_risk", safe_risk, bound)
    optimized_risk = _checked_risk(
        "optimized_risk", safe_risk if optimized_risk is None else optimized_risk, bound
    )
    spread = 1.0 if log_ratio_spread is None else log_ratio_spread
    spread = validate.number("log_ratio_spread", spread, above=0, below=100)
    pass_probability = validate.number("pass_probability", pass_probability, above=0, below=1)
    if population is None:
        population = Population.from_figures(safe_risk / bound, optimized_risk / bound, spread)
    model = make_model(planned.family, population, max_ratio, confidence, known_rows)
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
    asked = {"alpha": alpha, "promise": promise, "confidence": confidence, "bound": bound}
    outlooks = [outlook(model, *target, size) for size in sizes]
    return Plan(
        alpha=alpha,
        promise=promise,
        confidence=confidence,
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
        beta_of_log=None if log is None else beta_of(log, planned.family, asked),
        beta_limit=beta_limit,
        refuted_by=() if log is None else refutations_of(log),
        _model=model,
    )


def _checked_risk(name: str, value: float, bound: float) -> float:
    """A risk, from 0 to the bound."""
    return validate.number(name, value, above=0, below=bound, including=(0, bound))
