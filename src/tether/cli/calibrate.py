"""`tether calibrate`: how far the optimized policy may go."""

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
from tether.cli.table_file import FileColumns, Wanted, read_columns
from tether.cli.terminal import (
    NOTHING_PASSES,
    JsonOption,
    MaxRowsOption,
    report_errors,
    run_interruptibly,
    show_and_save,
    working,
)
from tether.control.blend import DEFAULT_BLEND

TABLE_PREFIXES = ("log_safe_all_", "log_optimized_all_", "log_mix_all_")
"""The names of the columns of tables of all actions start like this."""


@report_errors
def calibrate(
    log: Annotated[Path, typer.Argument(help="The log of actions: a Parquet or CSV file.")],
    promise: Annotated[
        list[str] | None,
        typer.Option(help="The largest promise to make; NAME=VALUE for several losses."),
    ] = None,
    alpha: Annotated[
        list[str] | None,
        typer.Option(help="The tolerated loss inside the calibration, instead of --promise."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Promise with this probability over logs, not on average over them."),
    ] = None,
    proposals: Annotated[
        Path | None, typer.Option(help="Fresh draws: a Parquet or CSV file.")
    ] = None,
    family: Annotated[str, typer.Option(help="clip, mix, budgeted_clip or budgeted_clip(N).")] = (
        "clip"
    ),
    bound: Annotated[
        list[str] | None,
        typer.Option(
            help="The largest possible loss; NAME=VALUE for several losses. (default: 1.0)"
        ),
    ] = None,
    test_weight: Annotated[str, typer.Option(help="empirical, analytic or a number.")] = (
        "empirical"
    ),
    loss: Annotated[
        list[str] | None,
        typer.Option(help="The column of losses; repeat for several. (default: loss)"),
    ] = None,
    log_safe: Annotated[
        str, typer.Option(help="The column of log-probabilities under the safe policy.")
    ] = "log_safe",
    log_optimized: Annotated[
        str, typer.Option(help="The column of log-probabilities under the optimized policy.")
    ] = "log_optimized",
    context: Annotated[
        list[str] | None,
        typer.Option(help="The column of contexts; repeat for several feature columns."),
    ] = None,
    no_context: Annotated[
        bool, typer.Option("--no-context", help="Neither policy depends on a context.")
    ] = False,
    log_mix: Annotated[
        str | None,
        typer.Option(
            help="The column of log-densities of the mixture of logging policies. "
            "(default: log_mix, if there is one)"
        ),
    ] = None,
    safe_share: Annotated[
        float | None, typer.Option(help="The share of rows produced by the safe policy.")
    ] = None,
    max_ratio: Annotated[
        float | None,
        typer.Option(help="A number that optimized over safe probability never exceeds."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Which policy drew the proposals: safe, optimized, or a column name."),
    ] = None,
    ratio_error: Annotated[
        float | None, typer.Option(help="A factor by which every weight may be wrong. (default: 1)")
    ] = None,
    blend: Annotated[
        float,
        typer.Option(help="The safe share in an optimized policy that never takes some actions."),
    ] = DEFAULT_BLEND,
    max_rows: MaxRowsOption = None,
    out: Annotated[Path | None, typer.Option(help="Save the calibration as JSON.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find how far the optimized policy may go.

    Give --promise or --alpha. The exit code is 3 where no beta passes, or the promise is of no use.
    """
    names = loss or ["loss"]
    columns: dict[str, Any] = {
        "context": _stated_contexts(context, no_context),
        "log_safe": log_safe,
        "log_optimized": log_optimized,
        "log_mix": log_mix,
    }
    options: dict[str, Any] = {
        "alpha": _values("alpha", alpha) if alpha else None,
        "promise": _values("promise", promise) if promise else None,
        "confidence": confidence,
        "bound": _values("bound", bound or ["1.0"]),
        "family": family,
        "test_weight": _number_or_word(test_weight),
        "ratio_error": ratio_error,
        "blend": blend,
    }

    def find() -> tether.Calibration:
        with _naming_the_file(log):
            actions = tether.Log.from_frame(
                _read(log, columns, names, names, max_rows),
                loss=names[0] if len(names) == 1 else names,
                safe_share=safe_share,
                max_ratio=max_ratio,
                **columns,
            )
        draws = None
        if proposals is not None:
            with _naming_the_file(proposals):
                draws = tether.Proposals.from_frame(
                    _read(proposals, columns, ["source", source or "source"], [], max_rows),
                    source=source,
                    **columns,
                )
        with working(f"calibrating on {len(actions):,} rows"):
            found = tether.calibrate(actions, draws, **options)
            found.to_dict()  # diagnostics, which take longer than beta, are computed on first use
        return found

    calibration = run_interruptibly(find)
    show_and_save(calibration, as_json=as_json, out=out)
    if not calibration.useful:
        raise typer.Exit(NOTHING_PASSES)


def _read(
    path: Path,
    columns: dict[str, Any],
    others: list[str],
    losses: list[str],
    max_rows: int | None,
) -> FileColumns:
    """The columns of a file that a log or proposals are made of."""
    context = columns["context"]
    contexts = [context] if isinstance(context, str) else context
    scores = [columns["log_safe"], columns["log_optimized"], columns["log_mix"] or "log_mix"]
    names = {*scores, *others, *(contexts if isinstance(contexts, list) else [])}
    return read_columns(path, Wanted(names, TABLE_PREFIXES, {*scores, *losses}), max_rows)


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


def _values(option: str, texts: list[str]) -> float | dict[str, float]:
    """One number, or several as NAME=VALUE."""
    if len(texts) == 1 and "=" not in texts[0]:
        return _number(option, texts[0])
    values = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise ValueError(f"{option} {text!r} must be NAME=VALUE when there are several")
        values[name] = _number(option, value)
    return values


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a number, got {text!r}") from None


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
