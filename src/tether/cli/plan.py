"""`tether plan`: how many rows are needed."""

from __future__ import annotations

from typing import Annotated

import typer

import tether
from tether.cli.terminal import (
    NOTHING_PASSES,
    AlphaOption,
    JsonOption,
    PromiseOption,
    report_errors,
    require_one_target,
    show,
)


@report_errors
def plan(
    file: Annotated[str | None, typer.Argument(hidden=True)] = None,
    safe_risk: Annotated[
        float | None, typer.Option(help="The safe policy's expected loss. (required)")
    ] = None,
    promise: PromiseOption = None,
    alpha: AlphaOption = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Plan for calibrate --confidence: a promise that holds with this probability over "
            "logs."
        ),
    ] = None,
    bound: Annotated[float, typer.Option(help="The largest possible loss.")] = 1.0,
    optimized_risk: Annotated[
        float | None,
        typer.Option(
            help="The optimized policy's expected loss. (default: twice what is tolerated)"
        ),
    ] = None,
    spread: Annotated[float, typer.Option(help="Standard deviation of the log ratios.")] = 1.0,
    rows: Annotated[
        int | None, typer.Option(help="The number of rows in the log. (default: several sizes)")
    ] = None,
    pass_probability: Annotated[
        float, typer.Option(help="The probability with which a beta should pass.")
    ] = 0.9,
    family: Annotated[str, typer.Option(help="clip, mix or budgeted_clip.")] = "clip",
    as_json: JsonOption = False,
) -> None:
    """Compute how many rows are needed before any beta can pass, or a promise can be stated.

    It takes no file: state what you know. In Python, tether.plan(log) measures it from a log.
    Exit codes: 0 if some number of rows is enough, 2 for invalid input, 3 if none is.
    """
    if file is not None:
        raise ValueError(
            f"tether plan takes no file, got {file!r}: state --safe-risk, the mean loss of today; "
            f"in Python, tether.plan(log, promise=...) measures what it needs from a log"
        )
    if safe_risk is None:
        raise ValueError("--safe-risk is required: the safe policy's expected loss")
    require_one_target(alpha, promise)
    result = tether.plan(
        alpha=alpha,
        promise=promise,
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
