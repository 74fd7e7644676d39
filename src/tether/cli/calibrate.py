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
from tether.cli.terminal import (
    NOTHING_PASSES,
    ForceOption,
    JsonOption,
    KeyOption,
    Output,
    read_table,
    report_errors,
    show_and_save,
)
from tether.control.blend import DEFAULT_BLEND


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
    out: Annotated[Path | None, typer.Option(help="Save the calibration as JSON.")] = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find how far the optimized policy may go.

    Give --promise or --alpha. The exit code is 3 where no beta passes, or the promise is of no use.
    """
    saved = Output(out, force, key)
    saved.check(log, proposals)
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
    draws = None
    if proposals is not None:
        with _naming_the_file(proposals):
            draws = tether.Proposals.from_frame(read_table(proposals), source=source, **columns)
    calibration = tether.calibrate(
        actions,
        draws,
        alpha=_values("alpha", alpha) if alpha else None,
        promise=_values("promise", promise) if promise else None,
        confidence=confidence,
        bound=_values("bound", bound or ["1.0"]),
        family=family,
        test_weight=_number_or_word(test_weight),
        ratio_error=ratio_error,
        blend=blend,
    )
    show_and_save(calibration, saved, as_json=as_json)
    if not calibration.useful:
        raise typer.Exit(NOTHING_PASSES)


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
