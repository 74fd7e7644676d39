"""The result of calibration: how far, what is promised, and how much to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tether._core import records
from tether._core.types import Floats
from tether._core.validate import frozen
from tether.control import diagnostics, summary
from tether.control.constraint import Constraint
from tether.control.problem import Weights
from tether.control.stability import instability, leave_one_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """The calibrated risk of one constraint along beta, ready to plot."""

    log_beta: Floats
    risk: Floats

    @property
    def beta(self) -> Floats:
        """Beta itself, where it is a number."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_beta)


@dataclass(frozen=True)
class Calibration:
    """How far the optimized policy may go: everything at `beta` and below it passes.

    `beta` is 0 when nothing passes, which means: serve the safe policy; and inf when the optimized
    policy passes whole. Properties that take time are computed when first asked for and kept.
    """

    log_beta: float
    """Log of beta, exact where beta itself would overflow."""
    constraints: tuple[Constraint, ...]
    """Every loss with its alpha and bound."""
    log_beta_by_constraint: Mapping[str, float]
    """Log of the largest beta that each constraint allows by itself; the smallest is deployed."""
    family: str
    test_weight: str | float
    """How the test point was weighed: "empirical", "analytic" or a number."""
    rows: int
    contextual: bool
    _weights: Weights | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_weights(
        cls,
        weights: Weights,
        constraints: tuple[Constraint, ...],
        log_beta_by_constraint: dict[str, float],
    ) -> Self:
        """A fresh result that can still compute its diagnostics."""
        return cls(
            log_beta=min(log_beta_by_constraint.values()),
            constraints=constraints,
            log_beta_by_constraint=log_beta_by_constraint,
            family=weights.family.name,
            test_weight=weights.test_weight,
            rows=len(weights.log),
            contextual=weights.log.contextual,
            _weights=weights,
        )

    @property
    def beta(self) -> float:
        """The control parameter to deploy with: 0 is the safe policy, inf the optimized one."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_beta))

    @property
    def exists(self) -> bool:
        """Whether any beta passes; if none does, not even the safe policy, only it is served."""
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
        """The calibrated risk at beta of every constraint."""
        return {each.name: each.risk(self._evidence, self.reached) for each in self.constraints}

    @cached_property
    def stability(self) -> float:
        """ε̂: how much beta moves when one row is left out, relative to itself."""
        weights = self._evidence
        without = np.min([leave_one_out(each, weights) for each in self.constraints], axis=0)
        share, _ = self._shares
        return instability(
            self.log_beta, without, share, self.smoothness, weights.reach(self.log_beta)
        )

    @cached_property
    def smoothness(self) -> float:
        """K of the family, measured on this log where the family does not state it."""
        known = self._evidence.family.smoothness
        return diagnostics.measured_smoothness(self._evidence) if known is None else known

    @property
    def promise(self) -> float:
        """What the expected loss is promised to stay below: α + max(α, B − α)·ε̂, at most B.

        Where no beta passes nothing is promised, and this is B.
        """
        return self.promises[self.binding.name]

    @property
    def promises(self) -> dict[str, float]:
        """The promise for every constraint."""
        if not self.exists:
            return {each.name: each.bound for each in self.constraints}
        return {
            each.name: min(
                each.bound, each.alpha + max(each.alpha, each.bound - each.alpha) * self.stability
            )
            for each in self.constraints
        }

    @cached_property
    def effective_sample_size(self) -> float:
        """How many equally weighted rows the weighted log is worth."""
        share, _ = self._shares
        squares = float((share * share).sum())
        return float(share.sum() ** 2 / squares) if squares > 0 else 0.0

    @cached_property
    def max_weight(self) -> float:
        """The largest share of the whole weight that one point has, the test point included."""
        share, last = self._shares
        return float(max(share.max(), last))

    @cached_property
    def relative_weights(self) -> tuple[float, ...]:
        """How unequal the rows are at beta: the 0 %, 1 %, …, 100 % quantiles of weight over mean.

        All are 1 where every row counts the same, and 0 where no row counts at all.
        """
        share, _ = self._shares
        mean = float(share.mean())
        relative = share / mean if mean > 0 else share
        return tuple(np.quantile(relative, np.linspace(0, 1, 101)).tolist())

    @cached_property
    def acceptance(self) -> float:
        """The share of its draws that a rejection sampler keeps; nan for a family that says not."""
        return float(np.exp(self._evidence.log_acceptance(self.reached)))

    @cached_property
    def rows_beyond_draws(self) -> int:
        """How many rows have a ratio above that of every draw: the draws do not cover them."""
        return diagnostics.rows_beyond(self._evidence)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What a careful reader would want to know before deploying, in words."""
        return tuple(diagnostics.doubts(self, self._evidence))

    def curve(self, constraint: str | None = None, *, points: int = 256) -> Curve:
        """Beta and calibrated risk at the breakpoints, thinned to about `points` of them.

        A loaded calibration has the curve that it was saved with, whatever `points` says.
        """
        if not isinstance(points, int) or points < 2:
            raise ValueError(f"points must be a whole number of at least 2, got {points!r}")
        name = self.binding.name if constraint is None else constraint
        saved: dict[str, Curve] = self.__dict__.get("_curves", {})
        if name in saved:
            return saved[name]
        chosen = {each.name: each for each in self.constraints}
        if name not in chosen:
            raise ValueError(f"constraint must be one of {sorted(chosen)}, got {name!r}")
        log_beta, risk = diagnostics.risk_curve(chosen[name], self._evidence, self.log_beta, points)
        return Curve(frozen(log_beta), frozen(risk))

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the calibrated risk along beta, with alpha, beta and the neighbourhood of beta.

        Draws into the matplotlib axes `ax` or into a figure of its own, which is returned; pyplot
        is left alone. Needs the extra `plot`.
        """
        from tether.report.calibration_plot import plot_calibration

        return plot_calibration(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """Everything, diagnostics included, as plain values."""
        plain = {name: getattr(self, name) for name in (*_STATED, *_DERIVED)}
        plain["constraints"] = [asdict(each) for each in self.constraints]
        for name in ("beta", "exists", "alpha", "bound", "risk", "promise", "promises"):
            plain[name] = getattr(self, name)
        plain["log_beta_by_constraint"] = dict(self.log_beta_by_constraint)
        plain["assumptions"] = summary.ASSUMPTIONS
        plain["curves"] = {
            each.name: {"log_beta": curve.log_beta.tolist(), "risk": curve.risk.tolist()}
            for each in self.constraints
            for curve in (self.curve(each.name),)
        }
        return plain

    def save(self, path: str | Path) -> None:
        """Write everything as JSON."""
        records.write(path, "calibration", self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; all of it is there except the log itself."""
        saved = records.read(path, "calibration")
        try:
            return cls.from_dict(saved)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`, whether or not `content` has been JSON in between."""
        if not isinstance(content, Mapping):
            raise TypeError(f"content must be a mapping, got {type(content).__name__}")
        needed = (*_STATED, *_DERIVED, "constraints", "curves")
        lacking = [name for name in needed if name not in content]
        if lacking:
            raise ValueError(f"this is no whole calibration: it lacks {', '.join(lacking)}")
        saved = records.decode(dict(content))
        stated = {name: saved[name] for name in _STATED}
        stated["constraints"] = tuple(Constraint(**each) for each in saved["constraints"])
        loaded = cls(**stated)
        loaded.__dict__.update({name: saved[name] for name in _DERIVED})
        for name in ("warnings", "relative_weights"):
            loaded.__dict__[name] = tuple(saved[name])
        loaded.__dict__["_curves"] = {
            name: Curve(frozen(np.array(curve["log_beta"])), frozen(np.array(curve["risk"])))
            for name, curve in saved["curves"].items()
        }
        return loaded

    def __str__(self) -> str:
        return summary.of_calibration(self)

    @property
    def _evidence(self) -> Weights:
        if self._weights is None:
            raise RuntimeError("this was not saved with the calibration and the log is not at hand")
        return self._weights

    @cached_property
    def _shares(self) -> tuple[Floats, float]:
        """The weights at beta, which several diagnostics read."""
        return self._evidence.shares(self.reached)

    @property
    def reached(self) -> float:
        """Log beta, or the nearest finite one with the same policy if the family settles."""
        return float(np.clip(self.log_beta, *self._evidence.reach(self.log_beta)))


_STATED = ("log_beta", "log_beta_by_constraint", "family", "test_weight", "rows", "contextual")
_DERIVED = (
    "risks",
    "stability",
    "smoothness",
    "effective_sample_size",
    "max_weight",
    "relative_weights",
    "acceptance",
    "rows_beyond_draws",
    "warnings",
)
