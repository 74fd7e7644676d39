"""`tether calibrate` and `tether plan`: how far the optimized policy may go, on how many rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tether
from tether._core import files, progress
from tether.cli.tables import LogFiles, takes_columns
from tether.cli.terminal import (
    NOTHING_PASSES,
    ConfidenceOption,
    ForceOption,
    JsonOption,
    KeyOption,
    OutOption,
    Output,
    number,
    numbers,
    option,
    print_line,
    report_errors,
    show,
    show_and_save,
)
from tether.control.families import DEFAULT_BLEND

ONE_TARGET = "exactly one of --promise and --alpha is needed"


@report_errors
@takes_columns
def calibrate(
    log: Annotated[
        str,
        typer.Argument(
            help="The log: a CSV, Parquet, Arrow or JSON lines file, or a folder, glob or address "
            "(s3://bucket/log) of Parquet."
        ),
    ],
    columns: dict[str, Any],
    promise: Annotated[
        list[str] | None,
        typer.Option(help="The expected loss to promise; NAME=VALUE for several losses."),
    ] = None,
    alpha: Annotated[
        list[str] | None,
        typer.Option(help="The tolerated loss of the paper's rule, instead of --promise."),
    ] = None,
    confidence: ConfidenceOption = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(help="The largest possible loss; NAME=VALUE for several. (default: 1.0)"),
    ] = None,
    family: Annotated[str, option("clip, mix, budgeted_clip or budgeted_clip(N).")] = "clip",
    test_weight: Annotated[str, option("empirical, analytic or a number.")] = "empirical",
    safe_risk: Annotated[
        float | None,
        typer.Option(help="What the safe policy's loss is known to be at most, with --promise."),
    ] = None,
    ratio_error: Annotated[
        float | None, typer.Option(help="A factor by which every weight may be wrong. (default: 1)")
    ] = None,
    blend: Annotated[
        float,
        typer.Option(help="The safe share in an optimized policy that never takes some actions."),
    ] = DEFAULT_BLEND,
    seed: Annotated[int, option("Of the recorded draw, with --promise.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the risk along beta into this file (.png, .svg).")
    ] = None,
    details: Annotated[bool, option("Print everything known.", "--details")] = False,
    out: OutOption = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find how far the optimized policy may go, and what this buys.

    Give --promise or --alpha. The exit code is 3 where no beta passes or the promise is of no use;
    then it says how many rows would be enough.
    """
    saved = Output(out, force, key)
    problems = saved.problems(log, columns["proposals"])
    if plot is not None:
        files.require_target(plot, overwrite=True)
    options: dict[str, Any] = {
        "alpha": numbers("--alpha", alpha) if alpha else None,
        "promise": numbers("--promise", promise) if promise else None,
        "confidence": confidence,
        "bound": numbers("--bound", bound or ["1.0"]),
        "family": family,
    }
    if test_weight not in ("empirical", "analytic"):
        options["test_weight"] = number("--test-weight", test_weight)
    else:
        options["test_weight"] = test_weight
    problems += [ONE_TARGET] if bool(alpha) == bool(promise) else []
    rows, draws = LogFiles(log, bound=options["bound"], **columns).read(problems)
    with progress.step("calibrating"):
        found = tether.calibrate(
            rows,
            draws,
            **options,
            ratio_error=ratio_error,
            blend=blend,
            safe_risk=safe_risk,
            seed=seed,
        )
    if plot is not None:
        found.plot().savefig(plot)
    show_and_save(found, saved, as_json=as_json, text=found.details() if details else None)
    if not found.useful:
        if not as_json:
            print_line("\n" + rows_needed(found, rows, draws))
        raise typer.Exit(NOTHING_PASSES)


def rows_needed(found: tether.Calibration, log: tether.Log, proposals: Any) -> str:
    """How many rows would be enough, in words: what `tether plan` says of this very log."""
    loss = found.binding
    mean = f"{loss.safe_mean:.4g} ± {loss.safe_error:.2g}"
    if loss.safe_mean >= loss.alpha:
        return (
            f"more rows do not help: the safe policy's mean {loss.name} is {mean} on this log, and "
            f"{loss.alpha:g} was asked for"
        )
    proved = found.rule != "alpha" or found.exists  # which needs no room for what is estimated
    asked: dict[str, Any] = {"promise" if proved else "alpha": loss.alpha, "bound": loss.bound}
    asked["confidence"] = found.confidence
    try:
        made = tether.plan(log, proposals, **asked, family=found.family.partition("(")[0])
    except (TypeError, ValueError, AttributeError):  # several losses, or rows in parts
        made = tether.plan(safe_risk=max(loss.safe_mean, 1e-6), **asked)
    how = f" with --promise {loss.alpha:g}" if proved and found.rule == "alpha" else ""
    return f"rows that would be enough for the loss {loss.name!r}{how}:\n{made}"


@report_errors
@takes_columns
def plan(
    columns: dict[str, Any],
    log: Annotated[
        str | None,
        typer.Argument(help="A log that the next one will be like, as of `tether calibrate`."),
    ] = None,
    safe_risk: Annotated[
        float | None, typer.Option(help="The safe policy's expected loss, without a log.")
    ] = None,
    promise: Annotated[str | None, option("The expected loss to promise.")] = None,
    alpha: Annotated[
        str | None, typer.Option(help="The tolerated expected loss, instead of --promise.")
    ] = None,
    confidence: ConfidenceOption = None,
    bound: Annotated[float, option("The largest possible loss.")] = 1.0,
    optimized_risk: Annotated[
        float | None,
        typer.Option(help="The optimized policy's expected loss. (default: twice the tolerated)"),
    ] = None,
    spread: Annotated[float, option("Standard deviation of the log ratios.")] = 1.0,
    rows: Annotated[
        int | None, typer.Option(help="The number of rows to describe. (default: several)")
    ] = None,
    pass_probability: Annotated[
        float, typer.Option(help="The probability with which a beta should pass.")
    ] = 0.9,
    family: Annotated[str, option("clip, mix or budgeted_clip.")] = "clip",
    as_json: JsonOption = False,
) -> None:
    """Compute how many rows are needed before any beta can pass, from a log or from its figures.

    Exit codes: 0 if some number of rows is enough, 2 for invalid input, 3 if none is.
    """
    problems = [ONE_TARGET] if (alpha is None) == (promise is None) else []
    given: tuple[Any, ...] = ()
    if log is not None:
        given = LogFiles(log, bound=bound, **columns).read(problems)
    elif safe_risk is None:
        problems.append("a log or --safe-risk, the safe policy's expected loss, is needed")
    if problems:
        raise ValueError("; ".join(problems))
    result = tether.plan(
        *given,
        alpha=None if alpha is None else number("--alpha", alpha),
        promise=None if promise is None else number("--promise", promise),
        confidence=confidence,
        bound=bound,
        safe_risk=safe_risk,
        optimized_risk=optimized_risk,
        log_ratio_spread=spread,
        rows=rows,
        pass_probability=pass_probability,
        family=family,
    )
    show(result, as_json=as_json)
    if not result.possible:
        raise typer.Exit(NOTHING_PASSES)
