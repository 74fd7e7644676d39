"""A log and proposals in parts, from a source and the names of its columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tether._core.frame_contexts import ContextColumns, ContextsNotStatedError, Unstated
from tether.control.parts.in_parts import LogInParts, ProposalsInParts
from tether.control.parts.rows import DRAW_NAMES, TABLE_NAMES, LogColumns, ProposalColumns
from tether.control.proposals import SOURCES
from tether.scan.source import Source, open_source

Scores = tuple[str, str, str | None]
Several = str | Sequence[str] | None


def scan_log(
    source: Any,
    *,
    context: ContextColumns,
    loss: str | Sequence[str],
    scores: Scores,
    tables: tuple[Several, Several, Several],
    draws: tuple[Several, Several],
    acting: tuple[str | None, str | None],
    safe_share: float | None,
    max_ratio: float | None,
    reward: str | None,
    where: Any,
) -> LogInParts:
    """What `tether.Log.scan` returns."""
    opened = open_source(source, where=where)
    known = opened.names
    names = [loss] if isinstance(loss, str) else list(loss)
    if not names:
        raise ValueError("loss is empty: name at least one column")
    if len(set(names)) < len(names):
        raise ValueError(f"loss names a column twice: {names}")
    if acting[1] is not None and acting[0] is None:
        raise ValueError("log_base_limit needs log_logged, the density of the policy that acted")
    log_mix = _optional(known, "log_mix", scores[2])
    listed = tuple(
        (name, several)
        for name, given in zip(TABLE_NAMES, tables, strict=True)
        if (several := _table(known, name, given))
    )
    stored = tuple(
        (name, _draw_columns(name, given, log_mix is not None))
        for name, given in zip(DRAW_NAMES, draws, strict=True)
        if given is not None
    )
    _check_tables({name for name, _ in listed}, {name for name, _ in stored}, log_mix is not None)
    columns = LogColumns(
        loss=(("loss", loss),) if isinstance(loss, str) else tuple((each, each) for each in names),
        single_loss=isinstance(loss, str),
        log_safe=scores[0],
        log_optimized=scores[1],
        log_mix=log_mix,
        tables=listed,
        draws=stored,
        reward=reward,
        safe_share=safe_share,
        max_ratio=max_ratio,
        log_logged=acting[0],
        log_base_limit=acting[1],
    )
    used = columns.columns(tables=True, reward=True)
    for name in used:
        _require(opened, name)
    has_contexts = _contexts(opened, context, used, stated=bool(listed or stored))
    return LogInParts(opened, columns, contexts=has_contexts)


def scan_proposals(
    source: Any, *, context: ContextColumns, scores: Scores, drawn_by: str | None, where: Any
) -> ProposalsInParts:
    """What `tether.Proposals.scan` returns."""
    opened = open_source(source, where=where)
    known = opened.names
    is_column = drawn_by is not None and (drawn_by not in SOURCES or drawn_by in (known or ()))
    if drawn_by is None and "source" in (known or ()):
        drawn_by, is_column = "source", True
    columns = ProposalColumns(
        scores[0],
        scores[1],
        _optional(known, "log_mix", scores[2]),
        drawn_by or "optimized",
        is_column,
    )
    for name in columns.columns:
        _require(opened, name)
    has_contexts = _contexts(opened, context, columns.columns, stated=False)
    return ProposalsInParts(opened, columns, contexts=has_contexts)


def _require(source: Source, name: str) -> None:
    if source.names is not None and name not in source.names:
        raise ValueError(f"{source!r} has no column {name!r}; it has {source.names}")


def _optional(known: list[str] | None, argument: str, name: str | None) -> str | None:
    """The named column, else the column with the argument's own name, else None."""
    if name is not None:
        return name
    return argument if argument in (known or ()) else None


def _table(known: list[str] | None, name: str, given: Several) -> tuple[str, ...]:
    """The columns of a table: those named, else one of lists or all called `name_…`."""
    if given is not None:
        return (given,) if isinstance(given, str) else tuple(given)
    if name in (known or ()):
        return (name,)
    return tuple(each for each in known or () if each.startswith(f"{name}_"))


def _draw_columns(name: str, given: Several, mixture: bool) -> tuple[str, ...]:
    columns = (given,) if isinstance(given, str) else tuple(given or ())
    needed = 3 if mixture else 2
    if len(columns) != needed:
        scores = "log_safe, log_optimized" + (" and log_mix" if mixture else "")
        raise ValueError(
            f"{name} must name {needed} columns of lists, with {scores} of the draws, got {given!r}"
        )
    return columns


def _check_tables(tables: set[str], draws: set[str], mixture: bool) -> None:
    both = {"log_safe_all", "log_optimized_all"}
    if tables and (missing := both - tables):
        raise ValueError(
            f"{missing.pop()} is missing: give the tables of both policies, or neither"
        )
    if tables and mixture != ("log_mix_all" in tables):
        present, lacking = ("log_mix", "log_mix_all") if mixture else ("log_mix_all", "log_mix")
        raise ValueError(
            f"{present} is given but {lacking} is not: with tables the mixture must be known at "
            f"every action, not only at the actions taken"
        )
    if draws and len(draws) < len(DRAW_NAMES):
        raise ValueError(f"safe_draws and optimized_draws go together, got only {draws.pop()}")
    if draws and tables:
        raise ValueError("draws are not needed with log_safe_all: the tables are exact")


def _contexts(
    opened: Source, context: ContextColumns, used: Collection[str], *, stated: bool
) -> bool:
    """Whether there are contexts, which must be stated unless tables or draws tell."""
    if isinstance(context, Unstated):
        if stated:
            return False
        raise ContextsNotStatedError([name for name in opened.names or () if name not in used])
    if context is None:
        return False
    columns = [context] if isinstance(context, str) else list(context)
    if not columns:
        raise ValueError("context is empty: name at least one column, or write context=None")
    for name in columns:
        if name in used:
            raise ValueError(
                f"context: the column {name!r} holds losses or log-probabilities, so it cannot be "
                f"a context too"
            )
        _require(opened, name)
    return True
