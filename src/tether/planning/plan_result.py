"""The result of planning: how many rows are needed, and what beta to expect."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core import validate
from tether._core.columns import Columns
from tether._core.description import Described, Description
from tether.planning.plan_summary import describe_plan
from tether.planning.planned_family import make_model
from tether.planning.population import Population
from tether.planning.rows_needed import AnyModel, rows_over_levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

    With a confidence a log passes if it certifies a beta. Near the safe policy all weights are 1,
    so only losses decide this: `rows_likely` is exact for losses of 0 or one size, and otherwise by
    the mean loss as above. Beta is the one that the test certifies with the log of its capital
    at the expectation, which is that of half of all logs.

    What is expected is computed from the rows of the log; those of the next log are taken to be
    like them, in contexts like theirs where the log has tables of all actions. Without a log the
    model is: a loss is 0 or `bound`, which is the hardest case for a given risk, and log ratios are
    normal with standard deviation `log_ratio_spread` among harmless and among harmful actions,
    shifted so that the optimized policy's risk is `optimized_risk`. For clip this is also assumed
    in every context alike; for mix contexts do not matter.

    How accurate it is: where the truth is a large log, rows for a promise were within a quarter of
    those with which 90 % of simulated logs passed, and of those with which half did, from 30 rows
    on, with and without a confidence, the noise of the simulation included
    (`benchmarks/plan_rows.py`). The rows for an alpha are exact for losses of 0 or the bound. A
    plan is no more accurate than the risks it is given: a log knows its own safe risk to about
    √(safe risk/rows).

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
        The fewest rows that pass if their mean loss is exactly the safe risk; inf if none do. For a
        promise or a confidence these are about the rows with which half of all logs pass.
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
        The beta of a calibration on that log, 0 if none has a useful promise; for logs with tables
        of all actions, and for mix with a largest ratio. For others draws decide it.
    beta_limit : float, optional
        The beta to expect of arbitrarily many rows, where some number is enough.
    confidence : float, optional
        The probability over logs with which the promise is to hold; None where it is to hold on
        average over them.
    refuted_by : tuple of str, default ()
        How the log refutes what it states; a plan that is measured from it means nothing then.

    Examples
    --------
    >>> from tether.planning import plan
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
    confidence: float | None = None
    refuted_by: tuple[str, ...] = ()
    _model: AnyModel | None = field(default=None, repr=False, compare=False)

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
            A dictionary of arrays, which data-frame libraries accept: `rows`, `beta` and `promise`,
            and `confidence` where one was named.
        """
        table = Columns(
            rows=np.array([rows for rows, _ in self.betas], dtype=np.int64),
            beta=np.array([beta for _, beta in self.betas], dtype=np.float64),
            promise=np.array([stated for _, stated in self.promises], dtype=np.float64),
        )
        if self.confidence is not None:
            table["confidence"] = np.full(len(self.betas), self.confidence)
        return table

    def curve(self, *, points: int | None = None) -> Columns:
        """Compute the rows that other alphas would need, or other promises if one was named.

        Parameters
        ----------
        points : int, optional
            How many levels to compute, at least 2; by default 25 alphas, or 9 promises or
            levels with a confidence, each of which takes a fraction of a second.

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
            quick = self.promise is None and self.confidence is None
            points = ALPHAS_ON_CURVE if quick else PROMISES_ON_CURVE
        model = self._model
        if model is None:  # built by hand
            risks = self.safe_risk / self.bound, self.optimized_risk / self.bound
            population = Population.from_figures(*risks, self.log_ratio_spread)
            model = make_model(self.family, population, self.max_ratio, self.confidence)
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
