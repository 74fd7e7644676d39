"""Proposals: fresh draws of the policies, with log-probabilities but without losses."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike, NDArray

from tether._core import frames, validate
from tether._core.arrays import Booleans, Floats, Frame, check_row_indexes
from tether._core.frames import UNSTATED, ContextColumns, read_contexts
from tether._core.rows import Rows
from tether.control.columns import (
    DRAW_COLUMNS,
    SOURCES,
    Columned,
    PolicyPath,
    check_draws,
    choose,
    from_safe,
    read,
    scan_draws,
    used,
)


class Proposals(Columned):
    """Draws from which the test weight and, with contexts, unbiased weights are made.

    With contexts, every context of the log needs draws of both policies: as many of each as a
    sampler may make for one action.

    Parameters
    ----------
    log_safe : array_like
        The log-probability of each draw under the safe policy; −inf where it never takes the
        action.
    log_optimized : array_like
        The same under the optimized policy.
    context : array_like, optional
        The context of each draw: an integer or a string per row, labeled as in the log.
    log_mix : array_like, optional
        The log-density of each draw under the mixture that produced the log; required if the log
        has it.
    source : str or array_like, default "optimized"
        The policy that made the draws, "safe" or "optimized"; one for all draws or one per row.
    policy_path : PolicyPath, optional
        The log-density of each draw along a path of policies, and which of them drew it
        (`drawn_at`); `source` then says nothing.

    Examples
    --------
    >>> Proposals([-1.0, -2.0, -0.5], [-0.4, -1.0, -2.0], source=["optimized", "optimized", "safe"])
    Proposals(1 safe and 2 optimized draws)
    """

    _known = (*DRAW_COLUMNS, "from_safe")
    log_safe: Floats
    log_optimized: Floats
    log_mix: Floats | None
    from_safe: Booleans

    def __init__(
        self,
        log_safe: ArrayLike,
        log_optimized: ArrayLike,
        *,
        context: ArrayLike | None = None,
        log_mix: ArrayLike | None = None,
        source: str | ArrayLike = "optimized",
        policy_path: PolicyPath | None = None,
    ) -> None:
        given = {"log_safe": log_safe, "log_optimized": log_optimized, "log_mix": log_mix}
        check_row_indexes({**given, "context": context, "source": source})
        rows = len(validate.floats("log_safe", log_safe))
        given["from_safe"] = from_safe(source, rows)
        if policy_path is not None:
            if policy_path.drawn_at is None:
                raise ValueError("policy_path of proposals needs drawn_at: which policy drew them")
            validate.same_length("policy_path", policy_path, "log_safe", rows)
            given |= {"log_path": policy_path.log_density, "drawn_at": policy_path.drawn_at}
        columns = check_draws(given)
        self.policy_path = policy_path
        self.context: NDArray[Any] | None = None
        if context is not None:
            self.context = validate.labels("context", context, rows)
        self.rows = Rows(columns)

    @classmethod
    def of_rows(cls, rows: Rows) -> Self:
        """Make proposals of rows that lie anywhere; arrays exist if they lie in memory."""
        proposals = cls.__new__(cls)
        proposals.rows, proposals.context, proposals.policy_path = rows, None, None
        return proposals

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        context: ContextColumns = UNSTATED,
        source: str | None = None,
        **columns: str | None,
    ) -> Self:
        """Build proposals from the columns of a frame, by name.

        Contexts must be stated, as in `Log.from_frame`. Columns called `log_mix` and `source` are
        used if they exist.

        Parameters
        ----------
        frame : frame
            A pandas, polars or Arrow table, a dictionary of arrays, or a structured array.
        context : str, sequence of str or None
            The columns that state the contexts of the log, or None if it has none.
        source : str, optional
            The column of policies that made the draws, or "safe" or "optimized" for all draws; the
            optimized policy by default.
        **columns : str
            Where `log_safe`, `log_optimized` and `log_mix` are, if not in columns of that name.
        """
        known = frames.names(frame)
        chosen = choose(known, columns, DRAW_COLUMNS)
        drawn_by: Any = source
        if source not in SOURCES or source in known:
            drawn_by = frames.optional(frame, "source", source)
        return cls(
            **read(frame, chosen),
            context=read_contexts(frame, context, {*used(chosen), source or "source"}),
            source="optimized" if drawn_by is None else drawn_by,
        )

    @classmethod
    def scan(
        cls,
        source: Any,
        *,
        context: ContextColumns = UNSTATED,
        drawn_by: str | None = None,
        where: Any = None,
        **columns: str | None,
    ) -> Self:
        """Name proposals that are larger than memory, and are read in parts.

        They go with a log without contexts; the draws of a log with contexts are stored beside its
        rows. Needs the extra `scan`.

        Parameters
        ----------
        source : path, frame, callable or tether.scan.OnRay
            Where the draws are, as in `tether.Log.scan`.
        context, **columns
            As in `from_frame`.
        drawn_by : str, optional
            The column of policies that made the draws, or one of them, as `source` there.
        where : pyarrow.dataset.Expression, optional
            Which rows of Parquet files to read.
        """
        return cls.of_rows(scan_draws(source, where, context, drawn_by, columns))

    def __repr__(self) -> str:
        if self.policy_path is not None:
            return f"Proposals({len(self)} draws along a path of policies)"
        safe = int(self.from_safe.sum())
        contexts = "" if self.context is None else ", with contexts"
        return f"Proposals({safe} safe and {len(self) - safe} optimized draws{contexts})"
