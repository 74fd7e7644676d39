"""Logs and proposals that are read in parts: which columns they have, and how they are checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.frames import ContextColumns, ContextsNotStatedError, Unstated
from tether._core.rows import Block, Rows
from tether.control.columns import (
    Acting,
    acting_columns,
    check_table_names,
    check_tables,
    checked_max_ratio,
    checked_share,
)
from tether.control.probes import EXPORT, Probes
from tether.control.proposals import SOURCES, check_possible, from_safe

Several = str | Sequence[str] | None
Columns = dict[str, str | Sequence[str]]


def log_rows(
    source: Any,
    where: Any,
    *,
    context: ContextColumns,
    loss: str | Sequence[str],
    scores: Mapping[str, str | None],
    tables: Mapping[str, Several],
    draws: Mapping[str, Several],
    safe_share: float | None,
    max_ratio: float | None,
) -> tuple[Rows, bool]:
    """The rows of a log, and whether it has contexts. `scores` are columns of one number."""
    from tether.scan import open_rows

    names = [loss] if isinstance(loss, str) else list(loss)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"loss must name at least one column, and none twice, got {loss!r}")
    contexts: list[bool] = []

    def choose(known: list[str]) -> Columns:
        columns: Columns = {"loss/loss": loss} if isinstance(loss, str) else {}
        columns |= {f"loss/{name}": name for name in names if not isinstance(loss, str)}
        for name, column in scores.items():
            if column is not None or (name == "log_mix" and name in known):
                columns[name] = column or name
        for name, given in tables.items():
            if several := _table(known, name, given):
                columns[name] = several
        for policy, given in draws.items():
            if given is not None:
                columns[f"draws_{policy}"] = _draw_columns(policy, given, "log_mix" in columns)
        _check_choice(columns)
        stated = "log_safe_all" in columns or "draws_safe" in columns
        contexts.append(_has_contexts(context, known, columns, stated=stated))
        return columns

    check = partial(_check_log, safe_share, max_ratio)
    return open_rows(source, choose, where, derive=_with_ratios, check=check), contexts[0]


def exported_probes(rows: Rows) -> Probes | None:
    """The digest that files have which a run has exported."""
    held = getattr(rows, "metadata", {}).get(EXPORT.encode())
    return None if held is None else Probes({EXPORT: held.decode()})


def proposal_rows(
    source: Any,
    where: Any,
    *,
    context: ContextColumns,
    scores: Mapping[str, str | None],
    drawn_by: str | None,
) -> Rows:
    """The rows of proposals."""
    from tether.scan import open_rows

    stated: list[str] = []

    def choose(known: list[str]) -> Columns:
        columns: Columns = {name: column for name, column in scores.items() if column is not None}
        if "log_mix" not in columns and "log_mix" in known:
            columns["log_mix"] = "log_mix"
        if drawn_by in SOURCES and drawn_by not in known:
            stated.append(drawn_by)
        elif drawn_by is not None or "source" in known:
            columns["from_safe"] = drawn_by or "source"
        else:
            stated.append("optimized")
        if _has_contexts(context, known, columns, stated=False):
            raise ValueError(
                "context: proposals with contexts cannot be read in parts; store the draws of each "
                "row's context beside it (Log.scan, safe_draws and optimized_draws)"
            )
        return columns

    def derive(block: Block) -> Block:
        drawn: Any = stated[0] if stated else block["from_safe"]
        return {**block, "from_safe": from_safe(drawn, len(block["log_safe"]))}

    return open_rows(source, choose, where, derive=derive, check=_check_proposals)


def _table(known: list[str], name: str, given: Several) -> Several:
    """The columns of a table: those named, else one of lists or all called `name_…`."""
    if given is not None or name in known:
        return given or name
    return tuple(each for each in known if each.startswith(f"{name}_"))


def _draw_columns(policy: str, given: Several, mixture: bool) -> tuple[str, ...]:
    columns = (given,) if isinstance(given, str) else tuple(given or ())
    needed = ("log_safe", "log_optimized", "log_mix")[: 3 if mixture else 2]
    if len(columns) != len(needed):
        raise ValueError(
            f"{policy}_draws must name {len(needed)} columns of lists, with {', '.join(needed)} of "
            f"the draws, got {given!r}"
        )
    return columns


def _check_choice(columns: Columns) -> None:
    """Refuse columns that do not make a log, before anything is read."""
    check_table_names(columns)
    draws = [name for name in ("draws_safe", "draws_optimized") if name in columns]
    if len(draws) == 1:
        raise ValueError(f"safe_draws and optimized_draws go together, got only {draws[0]}")
    if draws and "log_safe_all" in columns:
        raise ValueError("draws are not needed with log_safe_all: the tables are exact")
    if "log_base_limit" in columns and "log_logged" not in columns:
        raise ValueError("log_base_limit needs log_logged, the density of the policy that acted")


def _has_contexts(
    context: ContextColumns, known: list[str], columns: Columns, *, stated: bool
) -> bool:
    """Whether there are contexts, which must be stated unless tables or draws tell."""
    used: Collection[str] = {
        name for each in columns.values() for name in ([each] if isinstance(each, str) else each)
    }
    if isinstance(context, Unstated):
        if stated:
            return False
        raise ContextsNotStatedError([name for name in known if name not in used])
    if context is None:
        return False
    names = [context] if isinstance(context, str) else list(context)
    if not names:
        raise ValueError("context is empty: name at least one column, or write context=None")
    for name in names:
        if name in used:
            raise ValueError(
                f"context: the column {name!r} holds losses or log-probabilities, so it cannot be "
                f"a context too"
            )
        if name not in known:
            raise ValueError(f"context: there is no column {name!r}; there are {known}")
    return True


def _with_ratios(block: Block) -> Block:
    """The block with log ratios of stored draws, and their log bases, in place of their scores."""
    found = dict(block)
    for policy in ("safe", "optimized"):
        if (scores := block.get(f"draws_{policy}")) is None:
            continue
        safe, optimized, *mix = np.split(scores, 3 if "log_mix" in block else 2, axis=1)
        possible = safe > -np.inf
        with np.errstate(invalid="ignore"):  # a draw that the safe policy cannot make is rejected
            ratio = np.where(possible | np.isnan(safe), optimized - safe, np.inf)
            found[f"draws_{policy}"] = ratio
            if mix:
                found[f"base_{policy}"] = np.where(possible, safe - mix[0], -np.inf)
    return found


def _check_log(safe_share: float | None, max_ratio: float | None, block: Block) -> None:
    """Refuse what a log in memory refuses."""
    for name, values in block.items():
        if name.startswith("loss/"):
            key = name.removeprefix("loss/")
            validate.losses("loss" if key == "loss" else f"loss[{key!r}]", values)
        elif name == "reward":
            validate.rewards(name, values, len(values))
        elif name.startswith(("draws_", "base_")):
            if np.isnan(values).any():
                validate.reject(name, values, np.isnan(values), "the log ratio of a draw")
        elif name != "log_base_limit":
            zero = name == "log_optimized" or values.ndim == 2
            validate.log_probabilities(name, values, ndim=values.ndim, zero=zero)
    check_tables(block)
    checked_share(block, safe_share)
    checked_max_ratio(block, max_ratio)
    if "log_logged" in block:
        acting = Acting(block["log_logged"], log_base_limit=block.get("log_base_limit"))
        acting_columns(acting, block)


def _check_proposals(block: Block) -> None:
    for name in ("log_safe", "log_optimized", "log_mix"):
        if name in block:
            validate.log_probabilities(name, block[name], zero=True)
    check_possible(block)
