"""The result of a method: the threshold, what is promised for it, and what is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from tether._core import records, validate
from tether._core.columns import Columns
from tether._core.description import Described, Description
from tether._core.types import Floats
from tether._core.useful_promise import is_useful
from tether.risk.kept_share import KeptShare
from tether.risk.selection_checks import find_problems
from tether.risk.selection_columns import selection_columns
from tether.risk.selection_stability import Stability
from tether.risk.selection_summary import describe_selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SELECTION_TEXT_ENTRIES = tuple(
    ["method", "loss", "safer", "statement", "warnings", "pooled_groups", "unit"]
)
"""Entries that hold text, even if a loss or group is called "inf" or "nan"."""
POOL_NAME = "(pooled)"
"""The name of the pool of small groups."""


class ThresholdCurve(NamedTuple):
    """The risk along the candidate thresholds, ready to plot.

    Parameters
    ----------
    threshold : numpy.ndarray
        Thresholds in increasing order; may include +inf.
    risk : numpy.ndarray
        The risk at each.
    """

    threshold: Floats
    risk: Floats


@dataclass(frozen=True, eq=False)
class Selection(records.Saved, Described):
    """A threshold and what is promised for it: keep what scores at least `threshold`.

    Returned by `gcrc`, `crc`, `monotonized_crc` and `ltt`. With several losses, `alpha`, `bound`,
    `risk` and `promise` are those of the binding loss, whose risk is largest relative to its alpha.

    Parameters
    ----------
    method : str
        The name of the method.
    threshold : float
        The chosen threshold. Where none passes, the safest: of the thresholds passed by the user,
        or +inf (−inf where smaller is safer) where every score is a candidate.
    exists : bool
        Whether any threshold passes; if not, the safest is served and nothing is promised.
    risk : float
        The risk that was compared with alpha, at the threshold. For LTT, the mean loss.
    alpha : float
        The level that the risk was compared with: the tolerated expected loss, or, where a promise
        was asked for, the level that was found for it.
    bound : float
        The largest possible loss.
    promise : float
        The stated bound on the expected loss: alpha, the stability term and the existence term
        together. The bound of the loss where nothing is promised.
    statement : str
        The promise in words, with its assumptions.
    loss : str
        The name of the loss.
    safer : str
        Which thresholds are safer: "larger" or "smaller" ones.
    n_items : int
        The number of items; those of groups that are in the pool as well count twice.
    effective_sample_size : float
        How many equally weighted items the weighted ones are worth.
    n_candidates : int
        The number of candidate thresholds.
    monotone : bool
        Whether no item's loss falls as the threshold gets bolder, and none can: the share of false
        claims of an item with several claims can.
    n_nonmonotone : int
        The number of items whose loss does.
    nonmonotone_items : tuple of int
        The indices of the first of these items.
    warnings : tuple of str, optional
        What a careful reader would want to know before deploying.
    stability_detail : Stability, optional
        The replace-one stability of the threshold, where it was measured.
    settings : dict, optional
        Further settings of the method.
    curve_thresholds : numpy.ndarray, optional
        The thresholds of the risk curve.
    curve_risks : numpy.ndarray, optional
        The risks of the risk curve.
    by_loss : tuple of Selection, optional
        One selection per loss, where there are several.
    groups : dict of str to Selection, optional
        One selection per group, where groups were passed.
    pooled_groups : tuple of str, optional
        The groups too small for a threshold of their own, which share that of the pool.
    target : float, optional
        The promise that was asked for; None where alpha was passed.
    stability_term : float, optional
        The part of the promise that pays for the dependence of the threshold on single items.
    existence_term : float, optional
        The part of the promise that pays for data on which no threshold passes and the safest is
        served: an estimate of E[(m − alpha)₊], where m is the mean loss of the safest threshold,
        as far as data on which something passes have to carry it.
    safe_loss : float, optional
        The mean loss of the safest threshold; NaN where it is not needed.
    safe_error : float, optional
        Its standard error, counting one item at the bound.
    kept : KeptShare, optional
        How much of the calibration data the threshold keeps, of groups without a useful promise
        nothing (with the loss "miss" everything); None for a loss matrix, which does not tell.
    curve_kept : numpy.ndarray, optional
        The share that each threshold of the risk curve keeps; empty where it is not known.

    Examples
    --------
    >>> import numpy as np, tether
    >>> found = tether.crc(np.tile([0.3, 0.1, 0.0], (99, 1)), alpha=0.2)
    >>> found.threshold, round(found.risk, 3), found.promise
    (1.0, 0.109, 0.2)
    """

    _kind: ClassVar[str] = "selection"
    _text_entries: ClassVar[tuple[str, ...]] = SELECTION_TEXT_ENTRIES

    method: str
    threshold: float
    exists: bool
    risk: float
    alpha: float
    bound: float
    promise: float
    statement: str
    loss: str
    safer: str
    n_items: int
    effective_sample_size: float
    n_candidates: int
    monotone: bool
    n_nonmonotone: int
    nonmonotone_items: tuple[int, ...]
    warnings: tuple[str, ...] = ()
    stability_detail: Stability | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    curve_thresholds: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    curve_risks: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    by_loss: tuple[Selection, ...] = ()
    groups: dict[str, Selection] = field(default_factory=dict)
    pooled_groups: tuple[str, ...] = ()
    target: float | None = None
    stability_term: float = 0.0
    existence_term: float = 0.0
    safe_loss: float = math.nan
    safe_error: float = math.nan
    kept: KeptShare | None = None
    curve_kept: Floats = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def tolerated(self) -> float:
        """What the user tolerates: the promise that was asked for, otherwise alpha."""
        return self.alpha if self.target is None else self.target

    @property
    def useful(self) -> bool:
        """Whether the promise says something, of each loss and group where there are several.

        A threshold passes and keeps something, and the stated bound is at most twice what is
        tolerated and clearly below the bound of the loss.
        """
        if parts := [*self.by_loss, *self.groups.values()]:
            return all(part.useful for part in parts)
        stated = self.exists and is_useful(self.promise, self.tolerated, self.bound)
        return stated and not self.keeps_nothing

    @property
    def keeps_nothing(self) -> bool:
        """Whether the threshold keeps none of the calibration data, as far as this is known."""
        return self.kept is not None and self.kept.kept == 0 < self.kept.total

    @property
    def refused_groups(self) -> tuple[str, ...]:
        """The groups without a useful promise, those that were pooled by their own names."""
        refused = [name for name, part in self.groups.items() if not part.useful]
        pooled = self.pooled_groups if POOL_NAME in refused else ()
        return (*(name for name in refused if name != POOL_NAME), *pooled)

    @property
    def kept_when_served(self) -> KeptShare | None:
        """What is kept where this is one of several groups: the safest without a useful promise."""
        if self.kept is None or self.useful:
            return self.kept
        if self.safer == "larger":
            return replace(self.kept, kept=0, emptied=self.kept.items)
        return replace(self.kept, kept=self.kept.total, emptied=0)

    @property
    def serves(self) -> bool:
        """Whether there is anything to filter by: a useful promise, or one in some group."""
        return any(part.useful for part in self.groups.values() or (self,))

    @property
    def stability(self) -> float:
        """How far the threshold moves when one item is replaced, ε̂; NaN where not measured."""
        return math.nan if self.stability_detail is None else self.stability_detail.epsilon

    def curve(self) -> ThresholdCurve:
        """Return the risk along the candidate thresholds.

        Returns
        -------
        ThresholdCurve
            Thresholds in increasing order and the risk at each: every candidate, or 1,001 of them
            where there are more.
        """
        return ThresholdCurve(self.curve_thresholds, self.curve_risks)

    def to_frame(self) -> Columns:
        """Return the risk curve as columns, one below the other for several losses or groups.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `threshold`, `risk`, and
            `kept`, the share of the calibration data that is kept (NaN where it is not known); with
            several losses or groups, `loss` or `group` first.
        """
        return selection_columns(self)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the risk along the thresholds, and how much each of them keeps.

        Alpha and the chosen threshold are marked. Several losses or groups are drawn as one line
        each. Does not use pyplot. Needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw the risk into; by default a new figure that shows what is kept too.

        Returns
        -------
        matplotlib.figure.Figure
            The figure that was drawn into.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from tether.report.selection_plot import plot_selection

        return plot_selection(self, ax)

    def for_group(self, group: str | int) -> Selection:
        """Return the selection of one group; small groups share that of the pool.

        Parameters
        ----------
        group : str or int
            The name of the group.

        Returns
        -------
        Selection
            The selection of this group.

        Raises
        ------
        ValueError
            If the group was not calibrated.
        """
        name = str(group)
        if name in self.pooled_groups:
            name = POOL_NAME
        if name not in self.groups:
            names = (*self.groups, *self.pooled_groups)
            known = ", ".join(repr(key) for key in names if key != POOL_NAME)
            if not known:
                raise ValueError(
                    f"groups: {str(group)!r} was given, but this selection has no groups: it has "
                    "one threshold for all claims"
                )
            raise ValueError(f"groups: {str(group)!r} was not calibrated; known: {known}")
        return self.groups[name]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values.

        Returns
        -------
        dict
            Numbers, strings, lists and dictionaries of them, as `json.dumps` accepts them.
        """
        content = {item.name: _plain(getattr(self, item.name)) for item in fields(self)}
        content["stability"] = self.stability
        content["useful"] = self.useful
        for name in ("stability_detail", "kept"):
            if (part := getattr(self, name)) is not None:
                content[name] = asdict(part)
        content["by_loss"] = [part.to_dict() for part in self.by_loss]
        content["groups"] = {name: part.to_dict() for name, part in self.groups.items()}
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Build a selection from what `to_dict` returned.

        Parameters
        ----------
        content : mapping
            The plain values, whether or not they have been JSON in between.

        Returns
        -------
        Selection
            The same selection.

        Raises
        ------
        TypeError
            If `content` is not a mapping.
        ValueError
            If an entry is missing, or contradicts others.
        """
        if not isinstance(content, Mapping):
            raise TypeError(f"content must be a mapping, got {type(content).__name__}")
        names = [item.name for item in fields(cls)]
        if missing := [name for name in names if name not in content]:
            raise ValueError(f"content is not a complete selection: {', '.join(missing)} missing")
        try:
            return cls._checked({name: content[name] for name in names}, content)
        except (TypeError, OverflowError, AttributeError) as error:  # an entry of another type
            raise ValueError(f"content is not a selection: {error}") from error

    @classmethod
    def _checked(cls, entries: dict[str, Any], content: Mapping[str, Any]) -> Self:
        """The selection with these entries, unless they contradict each other."""
        decoded = records.decode(entries, SELECTION_TEXT_ENTRIES)
        if decoded["stability_detail"] is not None:
            decoded["stability_detail"] = Stability(**decoded["stability_detail"])
        decoded["by_loss"] = tuple(cls.from_dict(part) for part in decoded["by_loss"])
        decoded["groups"] = {name: cls.from_dict(part) for name, part in decoded["groups"].items()}
        for name in ("nonmonotone_items", "warnings", "pooled_groups"):
            decoded[name] = tuple(decoded[name])
        if decoded["kept"] is not None:
            decoded["kept"] = KeptShare(**decoded["kept"])
        for name in ("curve_thresholds", "curve_risks", "curve_kept"):
            decoded[name] = validate.frozen(np.asarray(decoded[name], dtype=np.float64))
        shown = {name: content[name] for name in ("stability", "useful") if name in content}
        loaded = cls(**decoded)
        problem = next(find_problems(loaded, records.decode(shown)), None)
        if problem is not None:
            raise ValueError(problem)
        return loaded

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        return cls.from_dict(saved)

    def _describe(self) -> Description:
        return describe_selection(self)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
