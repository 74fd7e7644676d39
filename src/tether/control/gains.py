"""What a calibration buys, estimated from its log: reward, loss, and how much changes.

These are estimates, not promises. Beta was found on the same rows, so that the estimated loss at
beta is a little too small on average; what the expected loss is at most is the promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.columns import Columns
from tether._core.description import Described, Description
from tether._core.types import Floats
from tether._core.validate import number
from tether.control.calibration import Calibration
from tether.control.changed_share import changed_share
from tether.control.densities import BudgetedDensities
from tether.control.log import Log
from tether.control.missing_actions import why_missing
from tether.control.problem import Problem
from tether.control.shared_draws import count_sharing
from tether.control.weighted_means import WeightedMean, weighted_difference, weighted_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARED_DRAWS_NOTE = (
    "rows share draws, and no interval allows for the noise that they have in common"
)
"""What is said where rows share draws."""
DEFAULT_INTERVAL = 0.95
"""The probability of the intervals."""


@dataclass(frozen=True)
class PolicyMeans:
    """The mean of one quantity, a reward or a loss, under the three policies.

    Parameters
    ----------
    safe, tethered, optimized : WeightedMean
        The mean under each policy.
    difference : WeightedMean
        By how much it is larger under the tethered policy than under the safe one.
    """

    safe: WeightedMean
    tethered: WeightedMean
    optimized: WeightedMean
    difference: WeightedMean


@dataclass(frozen=True)
class Gain(Described):
    """What the tethered policy of a calibration is expected to bring, estimated from the log.

    Parameters
    ----------
    log_beta : float
        Log of the calibrated beta.
    rows : int
        The number of rows of the log.
    reward : PolicyMeans, optional
        The expected rewards; None if the log has none.
    losses : mapping of str to PolicyMeans
        The expected losses, by name.
    changed : WeightedMean
        The share of decisions that change: the mean over contexts of the total variation distance
        between the safe and the tethered policy.
    traffic : float, optional
        The share of actions drawn from the optimized policy; None unless the family is mix.
    confidence : float
        The probability of the intervals, which are approximate.
    notes : tuple of str
        What the intervals do not allow for.

    Examples
    --------
    >>> import tether
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)
    >>> log = tether.Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2, reward=actions)
    >>> found = gain(tether.calibrate(log, alpha=0.2))
    >>> round(found.reward.difference.mean, 2), round(found.changed.mean, 2)
    (0.82, 0.35)
    """

    log_beta: float
    rows: int
    reward: PolicyMeans | None
    losses: Mapping[str, PolicyMeans]
    changed: WeightedMean
    traffic: float | None
    confidence: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values.

        Returns
        -------
        dict
            One entry per field; means that the log does not tell are None.
        """
        return asdict(self)

    def to_frame(self) -> Columns:
        """Return all estimates as columns.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `quantity`, `policy`, `mean`,
            `lower`, `upper` and `effective_sample_size`; NaN where the log does not tell.
        """
        rows = list(self._estimates())
        columns = Columns()
        columns["quantity"] = np.array([quantity for quantity, _, _ in rows])
        columns["policy"] = np.array([policy for _, policy, _ in rows])
        for name in ("mean", "lower", "upper", "effective_sample_size"):
            values = [getattr(estimate, name) for _, _, estimate in rows]
            columns[name] = np.array(values, dtype=np.float64)  # None becomes NaN
        return columns

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the expected rewards and losses of the three policies with their intervals.

        Pyplot is not used. Needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the rewards, or the first loss if there are none; by default a new figure
            with one panel for each quantity.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from tether.report.gain_plot import plot_gain

        return plot_gain(self, ax)

    def _describe(self) -> Description:
        facts = [
            (f"{quantity}, {policy}" if policy else quantity, str(estimate))
            for quantity, policy, estimate in self._estimates()
        ]
        if self.traffic is not None:
            facts.append(("traffic to optimized", f"{self.traffic:.4g}"))
        return Description(
            f"gain, estimated from {self.rows:,} rows, with approximate {self.confidence:.4g} "
            "intervals",
            facts=tuple(facts),
            warnings=self.notes,
            notes=("estimates, not promises: beta was found on the same rows",),
        )

    def _estimates(self) -> Iterator[tuple[str, str, WeightedMean]]:
        """Every estimate with its quantity and its policy."""
        quantities = {} if self.reward is None else {"reward": self.reward}
        for name, losses in self.losses.items():
            quantities["loss" if name == "loss" else f"loss[{name}]"] = losses
        for quantity, means in quantities.items():
            for policy in ("safe", "tethered", "optimized", "difference"):
                yield quantity, policy, getattr(means, policy)
        yield "decisions that change", "", self.changed


def gain(calibration: Calibration, *, confidence: float = DEFAULT_INTERVAL) -> Gain:
    """Estimate what a calibration buys, in rewards, losses and decisions that change.

    All means are weighted averages over the rows of the log (`WeightedMean`), with the weights of
    the safe policy, of the tethered policy as it would be served, and of the optimized policy as it
    was given, without any blend. Intervals are approximate, and a mean is not stated if the log is
    worth fewer than 30 rows of the policy.

    Parameters
    ----------
    calibration : Calibration
        What `calibrate` returned. One that was loaded from a file has no log, but the gain that it
        was saved with, with 0.95 intervals, if its log had rewards.
    confidence : float, default 0.95
        The probability of the intervals.

    Returns
    -------
    Gain
        Expected rewards (if the log has any) and losses, and the share of decisions that change.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value.
    RuntimeError
        If the calibration was loaded from a file that does not have this gain.

    Examples
    --------
    >>> import tether
    >>> log = tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50)
    >>> gain(tether.calibrate(log, alpha=0.1)).changed.mean
    0.0
    """
    if not isinstance(calibration, Calibration):
        raise TypeError(f"calibration must be a Calibration, got {type(calibration).__name__}")
    confidence = number("confidence", confidence, above=0, below=1)
    kept: Gain | None = calibration.__dict__.get("saved_gain")
    if kept is not None and kept.confidence == confidence:
        return kept
    problem, log_beta = calibration._problem, calibration.log_beta
    if not isinstance(problem, Problem):
        from tether.control.parts.gain import gain_in_parts  # which needs this module

        return gain_in_parts(calibration, problem, confidence)
    log, family = problem.given_log, problem.family
    weights = _Weights(problem, log_beta)

    def means(values: Floats, bound: float | None) -> PolicyMeans:
        options: dict[str, Any] = {"bound": bound, "confidence": confidence}
        safe = weighted_mean(values, weights.safe, **options)
        tethered = weighted_mean(values, weights.tethered, missing=weights.missing, **options)
        optimized = weighted_mean(values, weights.optimized, normalized=True, **options)
        difference = next((each for each in (tethered, safe) if not each.known), None)
        if difference is None:
            difference = weighted_difference(values, weights.tethered, weights.safe, **options)
        return PolicyMeans(safe, tethered, optimized, difference)

    return Gain(
        log_beta=log_beta,
        rows=len(log),
        reward=None if log.reward is None else means(log.reward, None),
        losses={
            each.name: means(log.loss[each.name], each.bound) for each in calibration.constraints
        },
        changed=changed_share(problem, log_beta, weights.safe, weights.tethered, confidence),
        traffic=family.optimized_share(log_beta) if family.single_draw else None,
        confidence=confidence,
        notes=tuple(_notes(problem, log)),
    )


class _Weights:
    """The log-weights of every row for the three policies."""

    def __init__(self, problem: Problem, log_beta: float) -> None:
        log, given = problem.log, problem.given_log
        self.safe = log.log_safe - problem.log_mix
        self.optimized = given.log_optimized - problem.log_mix
        self.tethered = self.safe
        if log_beta > -np.inf:
            cell = problem.densities.row
            density = problem.densities.log_density(log.log_safe, log.log_optimized, cell, log_beta)
            self.tethered = density - problem.log_mix
        self.missing = why_missing(problem, log_beta, self.tethered)


def _notes(problem: Problem, log: Log) -> Iterator[str]:
    if log.approximate is not None:
        yield "the log-probabilities are estimates, and no interval allows for their errors"
    if isinstance(problem.densities, BudgetedDensities):
        yield "weights come from draws: the share of decisions that change is a little too large"
    if count_sharing(problem):
        yield SHARED_DRAWS_NOTE
