"""The log and the proposals: what was done and what it cost, and fresh draws without losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether._core import frames, validate
from tether._core.arrays import Booleans, Floats, Frame, Integers, Losses, check_row_indexes
from tether._core.frames import UNSTATED, ContextColumns, read_contexts
from tether._core.rows import Rows
from tether.control.columns import (
    DRAW_COLUMNS,
    LOG_COLUMNS,
    SCANNED_COLUMNS,
    SOURCES,
    Chosen,
    Columned,
    PolicyPath,
    check_draws,
    check_log,
    choose,
    from_safe,
    named_losses,
    read,
    used,
    with_ratios,
)

EXPORT = "export"
"""Under this name a log that a run has exported has its digest, in files and in fingerprints."""


@dataclass(frozen=True, eq=False)
class Probes:
    """What is kept of the policies of a log, in a form that JSON can hold.

    `fingerprints` has a digest of each policy, None where a policy contains code; `actions` all
    actions in the order of the tables, or a digest of a long list. `contexts` and `probed` are the
    encoded contexts and actions of the probes, `place` the row of `contexts` that each probe is in;
    the log-probabilities are None where a policy was not known. `missing` says why there are none.
    """

    fingerprints: dict[str, str | None]
    actions: Any = None
    contexts: Any = None
    probed: Any = None
    place: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    log_safe: Floats | None = None
    log_optimized: Floats | None = None
    missing: str | None = None

    def __len__(self) -> int:
        return len(self.place)


class Log(Columned):
    """One row per action: its loss, and its log-probability under both policies.

    A log with contexts or tables is always calibrated with one normalizing constant per context. A
    log in files, which `Log.scan` names, differs only in where its rows lie: it has no arrays.

    Parameters
    ----------
    loss : array_like or mapping of str to array_like
        The loss of each action, finite and at least 0; several losses by name.
    log_safe, log_optimized : array_like
        The log-probability or log-density of each action under both policies; −inf where the
        optimized policy never takes it.
    context : array_like, optional
        The context of each action: an integer or a string per row.
    log_mix : array_like, optional
        The log-density of the mixture of policies that produced the rows, see
        `mixture_log_density`. By default the safe policy produced them all.
    log_safe_all, log_optimized_all, log_mix_all : array_like, optional
        For a finite action set, the log-probabilities of every action (rows × actions), with which
        normalizing constants are exact; the last if `log_mix` is given.
    safe_share : float, optional
        The share of rows that the safe policy produced. The analytic test weight needs it if
        `log_mix` is given.
    max_ratio : float, optional
        A number that optimized over safe probability exceeds for no action in any context, such as
        one over the smallest propensity. It gives mix a test weight without proposals.
    log_logged, log_logged_all : array_like, optional
        The log-density of each row's action, and of all actions of its tables, under the policy
        that acted in that row, if it was not always the safe policy; a promise and a confidence
        need it.
    log_base_limit : array_like, optional
        For each row, the log of a number that safe over acting density cannot exceed at any action
        in the row's context: 0 where the safe policy acted, log(1 + β) where mix did. Infinite by
        default. It must not depend on the action that was taken.
    by_safe : array_like, optional
        In which rows the safe policy acted; a promise and a confidence also bet on these alone.
    ratio_error : float, default 1.0
        A factor by which ratios of probabilities may be wrong, which calibrations allow for.
    reward : array_like, optional
        What each action brought, any finite number; gains are estimated from it.
    policy_path : PolicyPath, optional
        The log-density of each action along a path of policies, which families such as
        "token_clip" are calibrated on.
    probes : Probes, optional
        What `tether.make_log` notes of the policies, by which they are recognized when they serve.
    warnings : sequence of str, default ()
        What is approximate or looks wrong about the log; every result made from it says so.

    Examples
    --------
    >>> log = Log(loss=[0, 1, 0], log_safe=[-1.0, -2.0, -1.5], log_optimized=[-1.1, -0.3, -2.0])
    >>> len(log), log.contextual
    (3, False)
    """

    _known = (*LOG_COLUMNS, "by_safe")
    log_safe: Floats
    log_optimized: Floats
    log_mix: Floats | None
    log_logged: Floats | None
    reward: Floats | None
    log_safe_all: Floats | None
    log_optimized_all: Floats | None
    context: NDArray[Any] | None = None
    ratio_error: float = 1.0
    policy_path: PolicyPath | None = None
    probes: Probes | None = None
    warnings: tuple[str, ...] = ()

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
        log_logged: ArrayLike | None = None,
        log_logged_all: ArrayLike | None = None,
        log_base_limit: ArrayLike | None = None,
        by_safe: ArrayLike | None = None,
        safe_share: float | None = None,
        max_ratio: float | None = None,
        ratio_error: float = 1.0,
        reward: ArrayLike | None = None,
        policy_path: PolicyPath | None = None,
        probes: Probes | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        values = (log_safe, log_optimized, log_mix, reward, log_logged, log_base_limit)
        tables = (log_safe_all, log_optimized_all, log_mix_all, log_logged_all)
        given: dict[str, Any] = dict(zip(LOG_COLUMNS, (*values, *tables), strict=True))
        check_row_indexes({"loss": loss, "context": context, **given})
        given |= {**named_losses(loss), "by_safe": by_safe}
        if policy_path is not None:
            validate.same_length("policy_path", policy_path, "log_safe", np.size(log_safe))
            given["log_path"] = policy_path.log_density
        columns = check_log(given, safe_share, max_ratio)
        if context is not None:
            self.context = validate.labels("context", context, len(columns["log_safe"]))
        self._lay(Rows(columns), context is not None, safe_share, max_ratio)
        self.policy_path, self.probes = policy_path, probes
        self.ratio_error, self.warnings = ratio_error, tuple(warnings)

    def _lay(
        self,
        rows: Rows,
        contextual: bool,
        safe_share: float | None = None,
        max_ratio: float | None = None,
    ) -> Self:
        """State where the rows lie, and what is known of all of them."""
        self.rows, self.max_ratio = rows, max_ratio
        self.contextual = contextual or self.has_tables
        self.safe_share = safe_share if self.has_mixture else 1.0
        if max_ratio is not None:
            validate.number("max_ratio", max_ratio, above=1, below=np.inf, including=(1,))
        if safe_share is not None:
            validate.number("safe_share", safe_share, above=0, below=1, including=(1,))
            if self.safe_share != safe_share:
                raise ValueError(f"safe_share is {safe_share!r}, which needs log_mix: give both")
        return self

    @classmethod
    def of_rows(cls, rows: Rows, *, contextual: bool, **known: float | None) -> Self:
        """Make a log of rows that lie anywhere; its arrays exist if they lie in memory."""
        return cls.__new__(cls)._lay(rows, contextual, **known)

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        context: ContextColumns = UNSTATED,
        loss: str | Sequence[str] = "loss",
        safe_share: float | None = None,
        max_ratio: float | None = None,
        **columns: str | Sequence[str] | None,
    ) -> Self:
        """Build a log from the columns of a frame, by name.

        Parameters
        ----------
        frame : frame
            A pandas, polars or Arrow table, a dictionary of arrays, or a structured array.
        context : str, sequence of str or None
            The column of contexts; several feature columns, where rows with equal features are in
            the same context; or None if neither policy depends on a context. It must be stated,
            since no frame tells, unless there are tables of all actions.
        loss : str or sequence of str, default "loss"
            The column of losses; several losses as a sequence.
        safe_share, max_ratio : float, optional
            As in `Log`.
        **columns : str or sequence of str
            Where `log_safe`, `log_optimized` and `log_mix` are, if not in columns of that name;
            the columns of `reward`, `log_logged` and `log_base_limit`, which are read only if they
            are named; and the columns of `log_safe_all`, `log_optimized_all`, `log_mix_all` and
            `log_logged_all`, one per action, by default all whose names start with that and an
            underscore.

        Examples
        --------
        >>> columns = {"cost": [0, 1], "log_safe": [-1.0, -2.0], "log_optimized": [-2.0, -1.0]}
        >>> Log.from_frame({**columns, "age": [40, 61], "sex": ["f", "m"]},
        ...                loss="cost", context=["age", "sex"])
        Log(2 rows, losses ['loss'], contexts)
        """
        chosen = choose(frames.names(frame), columns, LOG_COLUMNS, loss)
        has_tables = "log_safe_all" in chosen
        labels = read_contexts(frame, context, used(chosen), has_tables=has_tables)
        values = read(frame, chosen)
        losses = {name[5:]: values.pop(name) for name in chosen if name[:5] == "loss/"}
        return cls(losses, **values, context=labels, safe_share=safe_share, max_ratio=max_ratio)

    @classmethod
    def scan(
        cls,
        source: Any,
        *,
        context: ContextColumns = UNSTATED,
        loss: str | Sequence[str] = "loss",
        safe_share: float | None = None,
        max_ratio: float | None = None,
        where: Any = None,
        **columns: str | Sequence[str] | None,
    ) -> Self:
        """Name a log that is larger than memory, and is read in parts; needs the extra `scan`.

        What is not listed is as in `from_frame`. Of contexts only whether there are any is used.

        Parameters
        ----------
        source : path, frame, callable or tether.scan.OnRay
            A Parquet file, a folder or a glob of them, or a list of these, also as addresses such
            as s3://bucket/folder; a DuckDB relation, a Polars lazy frame or a Spark data frame; or
            a function that returns an iterator over Arrow record batches.
        where : pyarrow.dataset.Expression, optional
            Which rows of Parquet files to read, by columns or the names of folders
            (`day=2026-01-01`).
        **columns : str or sequence of str
            A table may also be one column of lists. Further `safe_draws` and `optimized_draws`,
            columns of lists with the draws of each policy in the context of the row: their
            log-probabilities under the safe policy, under the optimized policy and, with a mixture,
            under the mixture.
        """
        from tether.scan import open_rows

        def places(known: list[str]) -> Chosen:
            chosen = choose(known, columns, SCANNED_COLUMNS, loss)
            listed = "log_safe_all" in chosen or "draws_safe" in chosen
            empty = {name: np.zeros(1, dtype=np.int64) for name in known}
            read_contexts(empty, context, used(chosen), has_tables=listed)  # are they stated?
            return chosen

        check = partial(check_log, safe_share=safe_share, max_ratio=max_ratio)
        rows = open_rows(source, places, where, derive=with_ratios, check=check)
        contextual = context is not None or "draws_safe" in rows.names
        log = cls.of_rows(rows, contextual=contextual, safe_share=safe_share, max_ratio=max_ratio)
        if held := getattr(rows, "metadata", {}).get(EXPORT.encode()):
            log.probes = Probes({EXPORT: held.decode()})
        return log

    @property
    def loss(self) -> dict[str, Floats]:
        """The losses by name."""
        return {name: self.rows.columns[f"loss/{name}"] for name in self.loss_names}

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The names of the losses."""
        return tuple(name[5:] for name in self.rows.names if name.startswith("loss/"))

    @property
    def has_tables(self) -> bool:
        """Whether the rows list all actions."""
        return "log_safe_all" in self.rows.names

    @property
    def has_mixture(self) -> bool:
        """Whether several policies produced the rows."""
        return "log_mix" in self.rows.names

    def __repr__(self) -> str:
        contexts = "contexts" if self.contextual else "no contexts"
        kind = "tables of all actions" if self.has_tables else contexts
        return f"Log({len(self)} rows, losses {list(self.loss_names)}, {kind})"


class Proposals(Columned):
    """Draws from which the test weight and, with contexts, unbiased weights are made.

    With contexts, every context of the log needs draws of both policies: as many of each as a
    sampler may make for one action.

    Parameters
    ----------
    log_safe, log_optimized, context, log_mix : array_like
        As in `Log`, of each draw, and there if they are there; `log_safe` may be −inf.
    source : str or array_like, default "optimized"
        The policy that made the draws, "safe" or "optimized"; one for all draws or one per row.
    policy_path : PolicyPath, optional
        The log-density of each draw along a path of policies, and which of them drew it
        (`drawn_at`); `source` then says nothing.

    Examples
    --------
    >>> Proposals([-1.0, -2.0, -0.5], [-0.4, -1.0, -2.0], source=["optimized", "optimized", "safe"])
    Proposals(3 draws)
    """

    _known = (*DRAW_COLUMNS, "from_safe")
    log_safe: Floats
    log_optimized: Floats
    log_mix: Floats | None
    from_safe: Booleans
    context: NDArray[Any] | None = None
    policy_path: PolicyPath | None = None

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
        self.rows, self.policy_path = Rows(check_draws(given)), policy_path
        if context is not None:
            self.context = validate.labels("context", context, rows)

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        context: ContextColumns = UNSTATED,
        source: str | None = None,
        **columns: str | None,
    ) -> Self:
        """Build proposals from the columns of a frame, as `Log.from_frame` does.

        Parameters
        ----------
        source : str, optional
            The column of policies that made the draws, or "safe" or "optimized" for all draws; by
            default `source`, if there is such a column, and else the optimized policy.
        """
        known = frames.names(frame)
        chosen = choose(known, columns, DRAW_COLUMNS)
        if source is None and "source" in known:
            source = "source"
        drew: Any = source or "optimized"
        if source in known or drew not in SOURCES:
            drew = frames.column(frame, "source", drew)
        labels = read_contexts(frame, context, {*used(chosen), source or ""})
        return cls(**read(frame, chosen), context=labels, source=drew)

    def __repr__(self) -> str:
        return f"Proposals({len(self)} draws{'' if self.context is None else ', with contexts'})"
