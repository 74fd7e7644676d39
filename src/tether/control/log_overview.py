"""What a log shows before it is calibrated: how far the policies are apart, where losses are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.columns import Columns
from tether._core.description import Described, Description
from tether._core.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIO_BINS = 10
"""Into how many groups of about equal size the rows are put by their ratio."""
COLUMNS_OF_ROWS = ("log_safe", "log_optimized", "context", "reward", "log_mix")
ACTION_TABLES = ("log_safe_all", "log_optimized_all", "log_mix_all")


class LogOverview(Described):
    """What every log can show of itself; `Log` holds the columns."""

    loss: dict[str, Floats]
    log_safe: Floats
    log_optimized: Floats
    reward: Floats | None
    context: NDArray[Any] | None
    log_mix: Floats | None
    log_safe_all: Floats | None
    log_optimized_all: Floats | None
    log_mix_all: Floats | None
    max_ratio: float | None
    approximate: str | None
    warnings: tuple[str, ...]

    @property
    def log_ratio(self) -> Floats:
        """The log of optimized over safe probability of each row; −inf where it is 0."""
        return self.log_optimized - self.log_safe

    @property
    def overlap(self) -> float:
        """How many rows the log is worth for the optimized policy as it is.

        The effective sample size of the weights optimized over logged probability; 0 where the
        optimized policy takes none of the logged actions.
        """
        log_weight = self.log_optimized - (self.log_safe if self.log_mix is None else self.log_mix)
        total = np.logaddexp.reduce(log_weight)
        if total == -np.inf:
            return 0.0
        return float(np.exp(2 * total - np.logaddexp.reduce(2 * log_weight)))

    def to_frame(self) -> Columns:
        """Return the rows of the log as columns, which `Log.from_frame` accepts.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: the losses by name (one
            called like another column as `loss[name]`), `log_safe`, `log_optimized`, and what else
            the log has of `context`, `reward`, `log_mix`, `max_ratio` (the same in every row) and
            the tables, one column per action (`log_safe_all_0`, …).
        """
        taken = {*COLUMNS_OF_ROWS, *ACTION_TABLES, "max_ratio"}
        columns = Columns(
            {f"loss[{name}]" if name in taken else name: each for name, each in self.loss.items()}
        )
        for name in COLUMNS_OF_ROWS:
            if (values := getattr(self, name)) is not None:
                columns[name] = values
        if self.max_ratio is not None:
            columns["max_ratio"] = np.full(len(self.log_safe), self.max_ratio)
        for name in ACTION_TABLES:
            if (table := getattr(self, name)) is not None:
                columns |= {f"{name}_{i}": table[:, i] for i in range(table.shape[1])}
        return columns

    def by_ratio(self, bins: int = RATIO_BINS) -> Columns:
        """Average the losses of rows with similar ratios of optimized over safe probability.

        If the mean loss rises with the ratio, the optimized policy prefers what costs more, and
        beta stays small; if it does not, beta can be large.

        Parameters
        ----------
        bins : int, default 10
            Into how many groups of about equal size the rows are put; equal ratios stay together.
            Rows that the optimized policy never takes are a group of their own, the first.

        Returns
        -------
        Columns
            A dictionary of arrays: `lowest_log_ratio` and `highest_log_ratio` of each group,
            `rows`, and the mean of each loss with its standard error, `loss` and `loss_error`;
            several losses as `loss[name]` and `loss[name]_error`.

        Raises
        ------
        ValueError
            If `bins` is not an integer of at least 1.
        """
        bins = validate.integer_at_least("bins", bins)
        groups = _groups(self.log_ratio, bins)
        table = Columns(
            lowest_log_ratio=np.array([self.log_ratio[rows].min() for rows in groups]),
            highest_log_ratio=np.array([self.log_ratio[rows].max() for rows in groups]),
            rows=np.array([len(rows) for rows in groups]),
        )
        for key, losses in self.loss.items():
            name = "loss" if list(self.loss) == ["loss"] else f"loss[{key}]"
            table[name] = np.array([losses[rows].mean() for rows in groups])
            table[f"{name}_error"] = np.array([_standard_error(losses[rows]) for rows in groups])
        return table

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw how the ratios of the two policies are distributed, and the mean loss along them.

        Pyplot is not used. Needs the extra `plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the mean loss; by default a new figure that shows the ratios too.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from tether.report.log_plot import plot_log

        return plot_log(self, ax)

    def _describe(self) -> Description:
        rows = len(self.log_safe)
        by = "the safe policy" if self.log_mix is None else "a mixture of policies"
        facts = []
        for name, losses in self.loss.items():
            spread = _standard_error(losses)
            error = f" ± {spread:.2g}" if np.isfinite(spread) else ""
            limits = f"from {losses.min():.4g} to {losses.max():.4g}"
            facts.append((name, f"{losses.mean():.4g}{error} on average, {limits}"))
        if self.reward is not None:
            facts.append(("reward", f"{self.reward.mean():.4g} on average"))
        if self.context is not None:
            facts.append(("contexts", f"{len(np.unique(self.context)):,} different ones"))
        elif self.log_safe_all is None:
            facts.append(("contexts", "none"))
        if self.log_safe_all is not None:
            facts.append(("actions", f"{self.log_safe_all.shape[1]:,} in every row, with tables"))
        facts.append(("ratios", _ratios_in_words(self.log_ratio)))
        worth = f"{self.overlap:,.1f} of {rows:,} rows is what the log is worth for the optimized"
        facts.append(("overlap", f"{worth} policy as it is (effective sample size)"))
        return Description(
            f"log of {rows:,} rows, produced by {by}",
            facts=tuple(facts),
            warnings=(*([] if self.approximate is None else [self.approximate]), *self.warnings),
        )


def _ratios_in_words(log_ratio: Floats) -> str:
    """The ratios of optimized over safe probability: the middle of them, and the largest."""
    finite = log_ratio[np.isfinite(log_ratio)]
    never = len(log_ratio) - len(finite)
    text = ""
    if len(finite):
        low, high = np.quantile(finite, [0.05, 0.95])
        text = (
            f"optimized over safe probability is {_ratio(low)} to {_ratio(high)} in nine rows of "
            f"ten, and {_ratio(finite.max())} at most"
        )
    if never:
        text += ("; " if text else "") + (
            f"the optimized policy never takes the action of {never:,} rows"
        )
    return text


def _ratio(log_ratio: float) -> str:
    return f"{np.exp(log_ratio):.3g}" if abs(log_ratio) < 300 else f"exp({log_ratio:.4g})"


def _groups(log_ratio: Floats, bins: int) -> list[NDArray[np.intp]]:
    """The rows of each group, by increasing ratio; rows with equal ratios are in the same one."""
    never = np.flatnonzero(np.isneginf(log_ratio))
    rest = np.flatnonzero(~np.isneginf(log_ratio))
    groups = [never] if len(never) else []
    if len(rest):
        order = rest[np.argsort(log_ratio[rest], kind="stable")]
        ordered = log_ratio[order]
        starts = np.arange(1, bins) * len(order) // bins
        # A group begins where its first ratio begins.
        starts = np.unique(np.searchsorted(ordered, ordered[starts], side="left"))
        groups += [part for part in np.split(order, starts) if len(part)]
    return groups


def _standard_error(values: Floats) -> float:
    """The standard error of a mean; NaN for a single value."""
    if len(values) < 2:
        return float("nan")
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
