"""`tether plan`: how many rows are needed."""

from __future__ import annotations

from typing import Annotated

import typer

import tether
from tether.cli.terminal import JsonOption, report_errors, show


@report_errors
def plan(
    alpha: Annotated[float, typer.Option(help="The tolerated expected loss.")],
    safe_risk: Annotated[float, typer.Option(help="The safe policy's expected loss.")],
    bound: Annotated[float, typer.Option(help="The largest possible loss.")] = 1.0,
    optimized_risk: Annotated[
        float | None,
        typer.Option(help="The optimized policy's expected loss. (default: the safe risk)"),
    ] = None,
    spread: Annotated[float, typer.Option(help="Standard deviation of the log ratios.")] = 1.0,
    rows: Annotated[
        int | None, typer.Option(help="The number of rows in the log. (default: several sizes)")
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="The probability with which a beta should pass.")
    ] = 0.9,
    as_json: JsonOption = False,
) -> None:
    """Compute how many rows are needed before any beta can pass."""
    result = tether.plan(
        alpha=alpha,
        bound=bound,
        safe_risk=safe_risk,
        optimized_risk=optimized_risk,
        log_ratio_spread=spread,
        rows=rows,
        confidence=confidence,
    )
    show(result, as_json=as_json)
