"""Proposals: fresh draws of the policies, with log-probabilities but without losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import frames, validate
from tether._core.frame_contexts import UNSTATED, ContextColumns, read_contexts
from tether._core.row_indexes import check_row_indexes
from tether._core.types import Booleans, Floats, Frame
from tether.control.policy_path import PolicyPath
from tether.control.score_checks import refuse_probabilities

if TYPE_CHECKING:
    from tether.control.parts.in_parts import ProposalsInParts

SOURCES = ("safe", "optimized")


class Proposals:
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

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, length or values, or a policy made a draw whose
        log-probability under it is −inf.

    Examples
    --------
    >>> Proposals([-1.0, -2.0, -0.5], [-0.4, -1.0, -2.0], source=["optimized", "optimized", "safe"])
    Proposals(1 safe and 2 optimized draws)
    """

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
        columns = {"log_safe": log_safe, "log_optimized": log_optimized, "context": context}
        check_row_indexes({**columns, "log_mix": log_mix, "source": source})
        self.log_safe = validate.log_probabilities("log_safe", log_safe, zero=True)
        rows = len(self.log_safe)
        self.log_optimized = validate.log_probabilities("log_optimized", log_optimized, zero=True)
        validate.same_length("log_optimized", self.log_optimized, "log_safe", rows)
        self.from_safe = _from_safe(source, rows)
        for policy, values, drew in (
            ("safe", self.log_safe, self.from_safe),
            ("optimized", self.log_optimized, ~self.from_safe),
        ):
            if (
                policy_path is None
                and drew.any()
                and values.min() == -np.inf
                and (impossible := drew & np.isneginf(values)).any()
            ):
                accepted = f"a finite log-probability, since the {policy} policy drew this row"
                validate.reject(f"log_{policy}", values, impossible, accepted)
        self._refuse_probabilities()
        self.policy_path = policy_path
        if policy_path is not None:
            validate.same_length("policy_path", policy_path.log_density, "log_safe", rows)
            if policy_path.drawn_at is None:
                raise ValueError("policy_path of proposals needs drawn_at: which policy drew them")
        self.context: NDArray[Any] | None = None
        if context is not None:
            self.context = validate.labels("context", context, rows)
        self.log_mix: Floats | None = None
        if log_mix is not None:
            self.log_mix = validate.log_probabilities("log_mix", log_mix, zero=True)
            validate.same_length("log_mix", self.log_mix, "log_safe", rows)

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        context: ContextColumns = UNSTATED,
        log_safe: str = "log_safe",
        log_optimized: str = "log_optimized",
        log_mix: str | None = None,
        source: str | None = None,
    ) -> Self:
        """Build proposals from the columns of a frame, by name.

        Contexts must be stated, as in `Log.from_frame`. Columns called `log_mix` and `source` are
        used if they exist, even if they are not named here.

        Parameters
        ----------
        frame : frame
            A pandas, polars or Arrow table, a dictionary of arrays, or a structured array.
        context : str, sequence of str or None
            The columns that state the contexts of the log, or None if it has none.
        log_safe, log_optimized : str
            The columns of log-probabilities.
        log_mix : str, optional
            The column of the mixture.
        source : str, optional
            The column of policies that made the draws, or "safe" or "optimized" for all draws; the
            optimized policy by default.

        Returns
        -------
        Proposals
            The proposals.

        Raises
        ------
        TypeError, ValueError
            If contexts are not stated, the frame has no such column, or the columns do not make
            proposals.

        Examples
        --------
        >>> columns = {"log_safe": [-1.0, -2.0], "log_optimized": [-2.0, -1.0]}
        >>> Proposals.from_frame(columns, context=None, source="safe")
        Proposals(2 safe and 0 optimized draws)
        """
        drawn_by: str | NDArray[Any] | None = source
        if source not in SOURCES or source in frames.names(frame):
            drawn_by = frames.optional(frame, "source", source)
        used = [log_safe, log_optimized, log_mix or "log_mix", source or "source"]
        return cls(
            frames.column(frame, "log_safe", log_safe),
            frames.column(frame, "log_optimized", log_optimized),
            context=read_contexts(frame, context, used),
            log_mix=frames.optional(frame, "log_mix", log_mix),
            source="optimized" if drawn_by is None else drawn_by,
        )

    @classmethod
    def scan(
        cls,
        source: Any,
        *,
        context: ContextColumns = UNSTATED,
        log_safe: str = "log_safe",
        log_optimized: str = "log_optimized",
        log_mix: str | None = None,
        drawn_by: str | None = None,
        where: Any = None,
    ) -> ProposalsInParts:
        """Name proposals that are larger than memory, and are read in parts.

        They go with a log of `tether.Log.scan` without contexts; the draws of a log with contexts
        are stored beside its rows. Needs the extra `scan`.

        Parameters
        ----------
        source : path, frame, callable or tether.scan.Source
            Where the draws are, as in `tether.Log.scan`.
        context : None
            Must be stated to be None.
        log_safe, log_optimized : str
            The columns of log-probabilities.
        log_mix : str, optional
            The column of the mixture.
        drawn_by : str, optional
            The column of policies that made the draws, or "safe" or "optimized" for all draws; the
            column `source` if there is one, else the optimized policy.
        where : pyarrow.compute.Expression, optional
            Which rows of Parquet files to read; columns in the names of folders, such as
            `day=2026-01-01`, may be used.

        Returns
        -------
        ProposalsInParts
            The proposals.

        Raises
        ------
        TypeError, ValueError
            If the source is none of these, contexts are stated, or it has no such column.
        """
        from tether.scan import scan_proposals

        scores = (log_safe, log_optimized, log_mix)
        return scan_proposals(
            source, context=context, scores=scores, drawn_by=drawn_by, where=where
        )

    def _refuse_probabilities(self) -> None:
        if self.log_safe.any():  # else the other column holds log ratios, often positive
            for name in ("log_safe", "log_optimized"):
                refuse_probabilities(name, getattr(self, name))

    def __len__(self) -> int:
        return len(self.log_safe)

    def __repr__(self) -> str:
        if self.policy_path is not None:
            return f"Proposals({len(self)} draws along a path of policies)"
        safe = int(self.from_safe.sum())
        contexts = "" if self.context is None else ", with contexts"
        return f"Proposals({safe} safe and {len(self) - safe} optimized draws{contexts})"


def _from_safe(source: str | ArrayLike, rows: int) -> Booleans:
    """Which draws the safe policy made."""
    if isinstance(source, str):
        return np.full(rows, validate.choice("source", source, SOURCES) == "safe")
    names = validate.labels("source", source, rows)
    unknown = ~np.isin(names, SOURCES)
    if unknown.any():
        validate.reject("source", names, unknown, "'safe' or 'optimized'")
    return np.asarray(names == "safe")
