"""Reading a log and its proposals from files, with the options that say what the columns are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import tether
from tether._core.frame_contexts import (
    UNSTATED,
    ContextColumns,
    ContextsNotStatedError,
    describe_candidates,
)
from tether._core.frames import NoSuchColumnError
from tether.cli.file_rows import hash_columns
from tether.cli.memory_limit import TooManyRowsError
from tether.cli.missing_losses import (
    with_option,
    with_worst_cases,
    worst_cases,
)
from tether.cli.probability_columns import DoubtfulColumnsError, ProbabilityColumns
from tether.cli.scanned_paths import (
    column_types,
    is_in_parts,
    is_in_storage,
    location,
    require_parquet,
    row_condition,
)
from tether.cli.table_file import FileColumns, Wanted, read_columns
from tether.control.log_checks import warn_and_keep
from tether.control.repeated_rows import (
    may_have_copies,
    repeated_lines_warning,
    repeated_rows_warning,
)

TABLE_PREFIXES = ("log_safe_all_", "log_optimized_all_", "log_mix_all_")
"""The names of the columns of tables of all actions start like this."""

ProposalsOption = Annotated[
    Path | None, typer.Option(help="Fresh draws: a file, a folder, a glob or an address.")
]
LossOption = Annotated[
    list[str] | None,
    typer.Option(help="The column of losses; repeat for several. (default: loss)"),
]
SafeOption = Annotated[
    str, typer.Option(help="The column of log-probabilities under the safe policy.")
]
OptimizedOption = Annotated[
    str, typer.Option(help="The column of log-probabilities under the optimized policy.")
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        help="The column of contexts, known before an action is chosen; repeat for several feature "
        "columns."
    ),
]
NoContextOption = Annotated[
    bool, typer.Option("--no-context", help="Neither policy depends on a context.")
]
MixOption = Annotated[
    str | None,
    typer.Option(
        help="The column of log-densities of the mixture of logging policies. "
        "(default: log_mix, if there is one)"
    ),
]
ShareOption = Annotated[
    float | None, typer.Option(help="The share of rows produced by the safe policy.")
]
MaxRatioOption = Annotated[
    float | None,
    typer.Option(help="A number that optimized over safe probability never exceeds."),
]
RewardOption = Annotated[
    str | None,
    typer.Option(help="The column of rewards, from which expected rewards are estimated."),
]
SourceOption = Annotated[
    str | None,
    typer.Option(help="Which policy drew the proposals: safe, optimized, or a column name."),
]


def read_log_files(
    log: Path,
    proposals: Path | None,
    *,
    loss: list[str] | None,
    log_safe: str,
    log_optimized: str,
    context: list[str] | None,
    no_context: bool,
    log_mix: str | None,
    safe_share: float | None,
    max_ratio: float | None,
    source: str | None,
    reward: str | None = None,
    max_rows: int | None = None,
    where: list[str] | None = None,
    probabilities: ProbabilityColumns | None = None,
    missing: str | None = None,
    bound: float | Mapping[str, float] = 1.0,
) -> tuple[Any, Any]:
    """The log and the proposals that these options name, in memory or in parts.

    They are read in parts where one of them is a folder, a glob, too large for memory, or filtered.
    """
    names = loss or ["loss"]
    counted_as = worst_cases(missing, names, bound)
    stated = probabilities or ProbabilityColumns()
    stated_for = {name: "--loss" for name in names}
    stated_for |= {} if reward is None else {reward: "--reward"}
    stated_for |= stated.options
    for name in context or []:
        if name in stated_for:
            raise ValueError(
                f"--context {name}: this is the column of {stated_for[name]}. A context is what is "
                f"known before an action is chosen, and the policies look at"
            )
    columns: dict[str, Any] = {
        "context": _stated_contexts(context, no_context),
        "log_safe": log_safe,
        "log_optimized": log_optimized,
        "log_mix": log_mix,
    }
    rewards = [] if reward is None else [reward]
    shares = {"safe_share": safe_share, "max_ratio": max_ratio}
    taken = log, proposals, names, columns, shares, stated, counted_as
    with _naming_contexts(log, stated_for):
        if is_in_parts(log, where) or is_in_parts(proposals, where):
            return _scanned(*taken, reward, source, where)
        try:
            return _in_memory(*taken, rewards, source, max_rows)
        except TooManyRowsError:
            if log.suffix != ".parquet":
                raise
            return _scanned(*taken, reward, source, where)


def _scanned(
    log: Path,
    proposals: Path | None,
    losses: list[str],
    columns: dict[str, Any],
    shares: dict[str, Any],
    stated: ProbabilityColumns,
    counted_as: dict[str, float],
    reward: str | None,
    source: str | None,
    where: list[str] | None,
) -> tuple[Any, Any]:
    """The log and the proposals in parts, of which only the named columns are read."""
    require_parquet(log, proposals)
    scores = [name for key, name in columns.items() if key != "context"]
    measured = (*losses, *scores, *stated.names, *([reward] if reward else []))
    with _naming_the_file(log, stated):
        condition = row_condition(where, measured, column_types(log) if where else None)
        loss: Any = losses[0] if len(losses) == 1 else losses
        opened, shares["max_ratio"] = stated.scan(
            log,
            condition,
            columns["log_safe"],
            columns["log_optimized"],
            shares["max_ratio"],
            counted_as,
        )
        actions = tether.Log.scan(opened, loss=loss, reward=reward, **shares, **columns)
    if proposals is None:
        return actions, None
    with _naming_the_file(proposals):
        return actions, tether.Proposals.scan(
            location(proposals), drawn_by=source, where=condition, **columns
        )


def _in_memory(
    log: Path,
    proposals: Path | None,
    names: list[str],
    columns: dict[str, Any],
    shares: dict[str, Any],
    stated: ProbabilityColumns,
    counted_as: dict[str, float],
    rewards: list[str],
    source: str | None,
    max_rows: int | None,
) -> tuple[tether.Log, tether.Proposals | None]:
    with _naming_the_file(log, stated):
        numbers = [*names, *rewards, *stated.names]
        others = [*numbers, "max_ratio", stated.action or "action"]
        table = with_worst_cases(_read(log, columns, others, numbers, max_rows), counted_as)
        table, shares["max_ratio"] = stated.read(
            table, columns["log_safe"], columns["log_optimized"], shares["max_ratio"]
        )
        actions = tether.Log.from_frame(
            table,
            loss=names[0] if len(names) == 1 else names,
            reward=rewards[0] if rewards else None,
            **shares,
            **columns,
        )
        warn_and_keep(actions, stated.contradiction(table, actions.log_safe))
        _warn_of_copies(log, table, actions, stated)
    if proposals is None:
        return actions, None
    with _naming_the_file(proposals):
        drawn = _read(proposals, columns, ["source", source or "source"], [], max_rows)
        return actions, tether.Proposals.from_frame(drawn, source=source, **columns)


def _warn_of_copies(
    path: Path, table: FileColumns, log: tether.Log, stated: ProbabilityColumns
) -> None:
    """Look for rows that occur more than once, with actions and with columns that are not used."""
    if not log.warnings and (numbered := stated.numbered_actions(table)) is not None:
        warn_and_keep(log, repeated_rows_warning(log, numbered[1]))
    has_others = not set(table.column_names) <= set(table.arrays)
    if has_others and not log.warnings and may_have_copies(log):  # else the file is read once
        warn_and_keep(log, repeated_lines_warning(hash_columns(path)))


def _read(
    path: Path,
    columns: dict[str, Any],
    others: list[str],
    numbers: list[str],
    max_rows: int | None,
) -> FileColumns:
    """The columns of a file that a log or proposals are made of."""
    context = columns["context"]
    contexts = [context] if isinstance(context, str) else context
    scores = [columns["log_safe"], columns["log_optimized"], columns["log_mix"] or "log_mix"]
    names = {*scores, *others, *(contexts if isinstance(contexts, list) else [])}
    return read_columns(path, Wanted(names, TABLE_PREFIXES, {*scores, *numbers}), max_rows)


@contextmanager
def _naming_the_file(path: Path, stated: ProbabilityColumns | None = None) -> Iterator[None]:
    """Say in which file an error is; errors of files in object storage do so themselves."""
    name = location(path)
    try:
        yield
    except ContextsNotStatedError:
        raise
    except NoSuchColumnError as error:
        made = {"log_safe", "log_optimized"} if stated is not None and stated.names else set()
        known = [name for name in error.known if name not in made]
        told = NoSuchColumnError(error.argument, error.name, known)
        raise ValueError(f"{name}: {told}{_naming_options(error.argument, stated)}") from error
    except (TooManyRowsError, DoubtfulColumnsError):  # the first is no error if read in parts
        raise
    except (ValueError, TypeError) as error:
        message = with_option(str(error))
        named = name in message or (is_in_storage(path) and "://" in message)
        raise ValueError(message if named else f"{name}: {message}") from error


@contextmanager
def _naming_contexts(path: Path, stated_for: Collection[str]) -> Iterator[None]:
    """Say how contexts are stated on the command line, and which columns could be some.

    Those that were named for something else are not.
    """
    try:
        yield
    except ContextsNotStatedError as error:
        left = [name for name in error.candidates if name not in stated_for]
        after = ", if they are known before the action is chosen" if left else ""
        raise ValueError(
            f"{path}: contexts must be stated: --context COLUMN (repeat it for several feature "
            f"columns), or --no-context if neither policy depends on a context; "
            f"{describe_candidates(left)}{after}"
        ) from error


def _naming_options(argument: str, stated: ProbabilityColumns | None) -> str:
    """How the columns that every log needs are named, and made from propensities."""
    if argument not in ("loss", "log_safe", "log_optimized"):
        return ""
    if stated is not None and stated.names:
        if argument == "loss":
            return ". Name the column of losses with --loss"
        return (
            ". Name the columns of probabilities with --propensity, for the safe policy, and "
            "--probability, for the optimized one"
        )
    return (
        ". Name the columns with --loss, --log-safe and --log-optimized, which hold each action's "
        "loss and its log-probability under both policies, or with --propensity and --probability, "
        "which hold its probability. From propensities and a model such a file is made in Python: "
        "tether.make_log(...).to_frame()"
    )


def _stated_contexts(context: list[str] | None, no_context: bool) -> ContextColumns:
    """The columns of contexts as `from_frame` takes them."""
    if context and no_context:
        raise ValueError(f"--no-context contradicts --context {context[0]}: give one of them")
    if no_context:
        return None
    if not context:
        return UNSTATED
    return context[0] if len(context) == 1 else context
