"""Reading a log and its proposals from files, with the options that say what the columns are."""

from __future__ import annotations

from collections.abc import Iterator
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
from tether.cli.terminal import read_table

ProposalsOption = Annotated[Path | None, typer.Option(help="Fresh draws: a Parquet or CSV file.")]
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
    typer.Option(help="The column of contexts; repeat for several feature columns."),
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
) -> tuple[tether.Log, tether.Proposals | None]:
    """The log and the proposals that these options name."""
    names = loss or ["loss"]
    columns: dict[str, Any] = {
        "context": _stated_contexts(context, no_context),
        "log_safe": log_safe,
        "log_optimized": log_optimized,
        "log_mix": log_mix,
    }
    with _naming_the_file(log):
        actions = tether.Log.from_frame(
            read_table(log),
            loss=names[0] if len(names) == 1 else names,
            safe_share=safe_share,
            max_ratio=max_ratio,
            **columns,
        )
    if proposals is None:
        return actions, None
    with _naming_the_file(proposals):
        return actions, tether.Proposals.from_frame(read_table(proposals), source=source, **columns)


@contextmanager
def _naming_the_file(path: Path) -> Iterator[None]:
    """Say in which file an error is, and how contexts are stated on the command line."""
    try:
        yield
    except ContextsNotStatedError as error:
        raise ValueError(
            f"{path}: contexts must be stated: --context COLUMN (repeat it for several feature "
            f"columns), or --no-context if neither policy depends on a context; "
            f"{describe_candidates(error.candidates)}"
        ) from error
    except (ValueError, TypeError) as error:
        message = str(error)
        raise ValueError(message if str(path) in message else f"{path}: {message}") from error


def _stated_contexts(context: list[str] | None, no_context: bool) -> ContextColumns:
    """The columns of contexts as `from_frame` takes them."""
    if context and no_context:
        raise ValueError(f"--no-context contradicts --context {context[0]}: give one of them")
    if no_context:
        return None
    if not context:
        return UNSTATED
    return context[0] if len(context) == 1 else context
