"""The log: what was done, what it cost, and how likely each policy was to do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import frames, validate
from tether._core.frame_contexts import UNSTATED, ContextColumns, read_contexts
from tether._core.row_indexes import check_row_indexes
from tether._core.shown import shown
from tether._core.types import Floats, Frame, Losses
from tether.control.acting import Acting
from tether.control.log_checks import (
    checked_max_ratio,
    checked_share,
    named_losses,
    warn_and_keep,
)
from tether.control.log_overview import LogOverview
from tether.control.policy_path import PolicyPath
from tether.control.repeated_rows import repeated_rows_warning
from tether.control.score_checks import refuse_probabilities
from tether.control.scored_by import ScoredBy
from tether.control.table_checks import check_tables, read_table

if TYPE_CHECKING:
    from tether.control.parts.in_parts import LogInParts


class Log(LogOverview):
    """One row per action: its loss, and its log-probability under both policies.

    A log with contexts or tables is always calibrated with one normalizing constant per context.
    The arrays are not copied unless they must be converted, and cannot be changed through the log.

    Parameters
    ----------
    loss : array_like or mapping of str to array_like
        The loss of each action, finite and at least 0; several losses by name.
    log_safe : array_like
        The log-probability or log-density of each action under the safe policy; finite.
    log_optimized : array_like
        The same under the optimized policy; −inf where it never takes the action.
    context : array_like, optional
        The context of each action: an integer or a string per row.
    log_mix : array_like, optional
        The log-density of the mixture of policies that produced the rows, see
        `mixture_log_density`. By default the safe policy produced them all.
    log_safe_all, log_optimized_all : array_like, optional
        For a finite action set, the log-probabilities of every action (rows × actions), with which
        normalizing constants are exact.
    log_mix_all : array_like, optional
        The mixture at every action; required with the tables if `log_mix` is given.
    safe_share : float, optional
        The share of rows that the safe policy produced. The analytic test weight needs it if
        `log_mix` is given.
    max_ratio : float, optional
        A number that optimized over safe probability exceeds for no action in any context, such as
        one over the smallest propensity. It gives mix a test weight without proposals.
    acting : Acting, optional
        The policies that acted in the rows, if it was not always the safe policy; a calibration
        with a confidence needs it.
    approximate : str, optional
        What is approximate about the log-probabilities; every result made from the log says so.
    ratio_error : float, default 1.0
        A factor by which ratios of probabilities may be wrong, which calibrations allow for.
    reward : array_like, optional
        What each action brought, any finite number. Calibration does not use it; `tether.gain`
        estimates from it what each policy earns.
    policy_path : PolicyPath, optional
        The log-density of each action along a path of policies, which families such as
        "token_clip" are calibrated on.
    scored_by : ScoredBy, optional
        What `tether.make_log` notes of the policies that the scores are of.
    warnings : sequence of str, default ()
        What looks wrong about the log, in words; every calibration on it says so too.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, length or values, or the arguments contradict each other.

    Examples
    --------
    >>> log = Log(loss=[0, 1, 0], log_safe=[-1.0, -2.0, -1.5], log_optimized=[-1.1, -0.3, -2.0])
    >>> len(log), log.contextual
    (3, False)
    >>> Log({"harm": [0, 1], "delay": [3.0, 0.5]}, [-1, -2], [-2, -1], context=["a", "b"])
    Log(2 rows, losses ['harm', 'delay'], contexts)
    """

    def __init__(
        self,
        loss: Losses,
        log_safe: ArrayLike,
        log_optimized: ArrayLike,
        *,
        context: ArrayLike | None = None,
        log_mix: ArrayLike | None = None,
        log_safe_all: ArrayLike | None = None,
        log_optimized_all: ArrayLike | None = None,
        log_mix_all: ArrayLike | None = None,
        safe_share: float | None = None,
        max_ratio: float | None = None,
        acting: Acting | None = None,
        approximate: str | None = None,
        ratio_error: float = 1.0,
        reward: ArrayLike | None = None,
        policy_path: PolicyPath | None = None,
        scored_by: ScoredBy | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        columns: dict[str, Any] = {
            "loss": loss,
            "log_safe": log_safe,
            "log_optimized": log_optimized,
        }
        columns |= {"context": context, "log_mix": log_mix, "reward": reward}
        tables = {"log_safe_all": log_safe_all, "log_optimized_all": log_optimized_all}
        check_row_indexes({**columns, **tables, "log_mix_all": log_mix_all})
        self.scored_by, self.warnings = scored_by, tuple(warnings)
        if acting is not None and not isinstance(acting, Acting):
            raise TypeError(f"acting must be a tether.control.Acting, got {shown(acting)}")
        self.acting, self.approximate, self.ratio_error = acting, approximate, ratio_error
        self.log_safe = validate.log_probabilities("log_safe", log_safe)
        rows = len(self.log_safe)
        self.log_optimized = validate.log_probabilities("log_optimized", log_optimized, zero=True)
        validate.same_length("log_optimized", self.log_optimized, "log_safe", rows)
        self.loss = named_losses(loss, rows)
        self.reward = None if reward is None else validate.rewards("reward", reward, rows)
        self.policy_path = policy_path
        if policy_path is not None:
            validate.same_length("policy_path", policy_path.log_density, "log_safe", rows)
        self.context: NDArray[Any] | None = None
        if context is not None:
            self.context = validate.labels("context", context, rows)
        self.log_mix: Floats | None = None
        if log_mix is not None:
            self.log_mix = validate.log_probabilities("log_mix", log_mix)
            validate.same_length("log_mix", self.log_mix, "log_safe", rows)
        self._refuse_probabilities()
        self.safe_share = checked_share(self, safe_share)
        self.log_safe_all = read_table("log_safe_all", log_safe_all, rows)
        self.log_optimized_all = read_table("log_optimized_all", log_optimized_all, rows)
        self.log_mix_all = read_table("log_mix_all", log_mix_all, rows)
        check_tables(self)
        self.max_ratio = checked_max_ratio(self, max_ratio)

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        context: ContextColumns = UNSTATED,
        loss: str | Sequence[str] = "loss",
        log_safe: str = "log_safe",
        log_optimized: str = "log_optimized",
        log_mix: str | None = None,
        log_safe_all: Sequence[str] | None = None,
        log_optimized_all: Sequence[str] | None = None,
        log_mix_all: Sequence[str] | None = None,
        safe_share: float | None = None,
        max_ratio: float | None = None,
        reward: str | None = None,
    ) -> Self:
        """Build a log from the columns of a frame, by name.

        Contexts must be stated, since a frame does not tell whether the policies depend on some of
        its columns; without a statement the error lists the columns that could be contexts. A
        column called `log_mix` or `max_ratio` and tables called `log_safe_all_…` are used if they
        exist.

        Parameters
        ----------
        frame : frame
            A pandas, polars or Arrow table, a dictionary of arrays, or a structured array.
        context : str, sequence of str or None
            The column of contexts; several feature columns, where rows with equal features are in
            the same context; or None if neither policy depends on a context. May be left out only
            if the frame has tables of all actions.
        loss : str or sequence of str, default "loss"
            The column of losses, or several of them.
        log_safe, log_optimized : str
            The columns of log-probabilities.
        log_mix : str, optional
            The column of the mixture.
        log_safe_all, log_optimized_all, log_mix_all : sequence of str, optional
            The columns of each table, one per action; by default all whose names start with the
            name of the argument and an underscore.
        safe_share : float, optional
            The share of rows that the safe policy produced.
        max_ratio : float, optional
            A number that optimized over safe probability never exceeds; by default the largest of
            the column `max_ratio`, if there is one.
        reward : str, optional
            The column of rewards; none are read unless it is named.

        Returns
        -------
        Log
            The log.

        Raises
        ------
        TypeError, ValueError
            If contexts are not stated, the frame has no such column, or the columns do not make a
            log.

        Warns
        -----
        AssumptionWarning
            If more rows occur several times than by chance, as in a table of files that overlap.

        Examples
        --------
        >>> columns = {"cost": [0, 1], "log_safe": [-1.0, -2.0], "log_optimized": [-2.0, -1.0]}
        >>> Log.from_frame(columns, loss="cost", context=None)
        Log(2 rows, losses ['loss'])
        >>> Log.from_frame({**columns, "age": [40, 61], "sex": ["f", "m"]},
        ...                loss="cost", context=["age", "sex"])
        Log(2 rows, losses ['loss'], contexts)
        """
        names = [loss] if isinstance(loss, str) else list(loss)
        used = [*names, log_safe, log_optimized, log_mix or "log_mix", reward or "reward"]
        used.append("max_ratio")
        stated = frames.optional(frame, "max_ratio", None) if max_ratio is None else None
        for columns in (log_safe_all, log_optimized_all, log_mix_all):
            used += columns or []
        losses: Losses
        if isinstance(loss, str):
            losses = frames.column(frame, "loss", loss)
        else:
            losses = {name: frames.column(frame, "loss", name) for name in names}
        tables: dict[str, Any] = {
            name: frames.table(frame, name, columns)
            for name, columns in (
                ("log_safe_all", log_safe_all),
                ("log_optimized_all", log_optimized_all),
                ("log_mix_all", log_mix_all),
            )
        }
        has_tables = tables["log_safe_all"] is not None
        log = cls(
            losses,
            frames.column(frame, "log_safe", log_safe),
            frames.column(frame, "log_optimized", log_optimized),
            context=read_contexts(frame, context, used, has_tables=has_tables),
            log_mix=frames.optional(frame, "log_mix", log_mix),
            **tables,
            safe_share=safe_share,
            max_ratio=max_ratio if stated is None else float(np.max(stated, initial=1.0)),
            reward=None if reward is None else frames.column(frame, "reward", reward),
        )
        return warn_and_keep(log, repeated_rows_warning(log))

    @classmethod
    def scan(
        cls,
        source: Any,
        *,
        context: ContextColumns = UNSTATED,
        loss: str | Sequence[str] = "loss",
        log_safe: str = "log_safe",
        log_optimized: str = "log_optimized",
        log_mix: str | None = None,
        log_safe_all: str | Sequence[str] | None = None,
        log_optimized_all: str | Sequence[str] | None = None,
        log_mix_all: str | Sequence[str] | None = None,
        safe_draws: Sequence[str] | None = None,
        optimized_draws: Sequence[str] | None = None,
        log_logged: str | None = None,
        log_base_limit: str | None = None,
        safe_share: float | None = None,
        max_ratio: float | None = None,
        reward: str | None = None,
        where: Any = None,
    ) -> LogInParts:
        """Name a log that is larger than memory, and is read in parts.

        Nothing is read but the names of the columns. `calibrate` takes the result like any log, and
        reads the rows as often as it needs to, with the same answer as in memory. Needs the extra
        `scan`.

        Parameters
        ----------
        source : path, frame, callable or tether.scan.Source
            A Parquet file, a folder or a glob of them, or a list of these, also as addresses such
            as s3://bucket/folder; a lazy frame of an
            engine, which may not tell in an error which file it was (Polars does not, and skips
            files of zero bytes); or a function that applies a kernel to partitions and returns its
            summaries.
        context : str, sequence of str or None
            The columns of contexts, or None if neither policy depends on a context; as in
            `from_frame`. Only whether there are contexts is used: weights come from the tables or
            the stored draws of each row.
        loss : str or sequence of str, default "loss"
            The column of losses, or several of them.
        log_safe, log_optimized : str
            The columns of log-probabilities.
        log_mix : str, optional
            The column of the mixture.
        log_safe_all, log_optimized_all, log_mix_all : str or sequence of str, optional
            The columns of each table, one per action, or one column of lists; by default all whose
            names start with the name of the argument and an underscore.
        safe_draws, optimized_draws : sequence of str, optional
            Columns of lists with the draws of each policy in the context of the row: their
            log-probabilities under the safe policy, under the optimized policy and, with a mixture,
            under the mixture.
        log_logged, log_base_limit : str, optional
            The columns of `Acting`, which a promise with a confidence needs with a mixture.
        safe_share : float, optional
            The share of rows that the safe policy produced.
        max_ratio : float, optional
            A number that optimized over safe probability never exceeds.
        reward : str, optional
            The column of rewards; none are read unless it is named.
        where : pyarrow.compute.Expression, optional
            Which rows of Parquet files to read; columns in the names of folders, such as
            `day=2026-01-01`, may be used.

        Returns
        -------
        LogInParts
            The log.

        Raises
        ------
        TypeError, ValueError
            If the source is none of these, contexts are not stated, or it has no such column.
        """
        from tether.scan import scan_log

        return scan_log(
            source,
            context=context,
            loss=loss,
            scores=(log_safe, log_optimized, log_mix),
            tables=(log_safe_all, log_optimized_all, log_mix_all),
            draws=(safe_draws, optimized_draws),
            acting=(log_logged, log_base_limit),
            safe_share=safe_share,
            max_ratio=max_ratio,
            reward=reward,
            where=where,
        )

    @property
    def has_tables(self) -> bool:
        """Whether the rows list all actions."""
        return self.log_safe_all is not None

    @property
    def contextual(self) -> bool:
        """Whether the log has contexts or tables, and so one normalizing constant per context."""
        return self.context is not None or self.log_safe_all is not None

    def __len__(self) -> int:
        return len(self.log_safe)

    def __repr__(self) -> str:
        parts = [f"{len(self)} rows", f"losses {list(self.loss)}"]
        if self.context is not None:
            parts.append("contexts")
        if self.log_safe_all is not None:
            parts.append(f"{self.log_safe_all.shape[1]} actions")
        if self.log_mix is not None:
            parts.append("a mixture of policies")
        if self.reward is not None:
            parts.append("rewards")
        if self.policy_path is not None:
            parts.append(f"a path of {len(self.policy_path.log_beta)} policies")
        if self.approximate is not None:
            parts.append("approximate")
        return f"Log({', '.join(parts)})"

    def _refuse_probabilities(self) -> None:
        for name in ("log_safe", "log_optimized"):
            refuse_probabilities(name, getattr(self, name))
