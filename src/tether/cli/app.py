"""The command line.

Exit codes: 0 when a beta passes, 3 when none does (serve the safe policy) or a preflight check
fails, 2 for bad input, 4 when an alarm stands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tether
from tether.cli import preflight as llm
from tether.cli import store_commands as rounds
from tether.cli import threshold
from tether.cli.terminal import NOTHING_PASSES, read_table, show, told

app = typer.Typer(
    help="Keep an optimized policy on a tether to a safe one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(threshold.gcrc)
app.command()(llm.preflight)
app.command()(rounds.status)
app.command()(rounds.report)
app.command()(rounds.resume)
app.command("export")(rounds.export_store)
app.command("import")(rounds.import_store)


@app.command()
@told
def calibrate(
    log: Annotated[Path, typer.Argument(help="What was done: a parquet or csv file.")],
    alpha: Annotated[
        list[str], typer.Option(help="The tolerated expected loss; NAME=VALUE for several losses.")
    ],
    proposals: Annotated[Path | None, typer.Option(help="Fresh draws: parquet or csv.")] = None,
    family: Annotated[str, typer.Option(help="clip, mix, budgeted_clip or budgeted_clip(N).")] = (
        "clip"
    ),
    bound: Annotated[
        list[str] | None, typer.Option(help="The largest loss; NAME=VALUE for several. [1.0]")
    ] = None,
    test_weight: Annotated[str, typer.Option(help="empirical, analytic or a number.")] = (
        "empirical"
    ),
    loss: Annotated[list[str] | None, typer.Option(help="The column(s) of losses. [loss]")] = None,
    log_safe: Annotated[str, typer.Option(help="The column of safe scores.")] = "log_safe",
    log_optimized: Annotated[str, typer.Option(help="The column of optimized scores.")] = (
        "log_optimized"
    ),
    context: Annotated[
        str | None, typer.Option(help="The column of contexts. [context, if there is one]")
    ] = None,
    log_mix: Annotated[
        str | None, typer.Option(help="The column of mixture scores. [log_mix, if there is one]")
    ] = None,
    safe_share: Annotated[
        float | None, typer.Option(help="The share of rows that the safe policy produced.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="safe, optimized, or the column that says which drew.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Save the calibration as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Find how far the optimized policy may go."""
    names = loss or ["loss"]
    done = tether.Log.from_frame(
        read_table(log),
        loss=names[0] if len(names) == 1 else names,
        log_safe=log_safe,
        log_optimized=log_optimized,
        context=context,
        log_mix=log_mix,
        safe_share=safe_share,
    )
    drawn = None
    if proposals is not None:
        drawn = tether.Proposals.from_frame(
            read_table(proposals),
            log_safe=log_safe,
            log_optimized=log_optimized,
            context=context,
            log_mix=log_mix,
            source=source,
        )
    found = tether.calibrate(
        done,
        drawn,
        alpha=_values("alpha", alpha),
        bound=_values("bound", bound or ["1.0"]),
        family=family,
        test_weight=_number_or_word(test_weight),
    )
    show(found, as_json=as_json, out=out)
    if not found.exists:
        raise typer.Exit(NOTHING_PASSES)


@app.command()
@told
def plan(
    alpha: Annotated[float, typer.Option(help="The tolerated expected loss.")],
    safe_risk: Annotated[float, typer.Option(help="The safe policy's expected loss.")],
    bound: Annotated[float, typer.Option(help="The largest loss.")] = 1.0,
    optimized_risk: Annotated[
        float | None, typer.Option(help="The optimized policy's expected loss. [the safe risk]")
    ] = None,
    spread: Annotated[float, typer.Option(help="Standard deviation of the log ratios.")] = 1.0,
    rows: Annotated[int | None, typer.Option(help="The rows at hand. [several sizes]")] = None,
    confidence: Annotated[float, typer.Option(help="How sure to be that a beta passes.")] = 0.9,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Say how many rows are needed before a calibration can move."""
    made = tether.plan(
        alpha=alpha,
        safe_risk=safe_risk,
        bound=bound,
        optimized_risk=optimized_risk,
        log_ratio_spread=spread,
        rows=rows,
        confidence=confidence,
    )
    show(made, as_json=as_json)


@app.command()
@told
def demo(
    out: Annotated[Path, typer.Option(help="The folder for picture, store and report.")] = Path(),
) -> None:
    """Show what a tether does: whom to send to biopsy, on data that ships with scikit-learn."""
    from tether.demo.biopsy import run
    from tether.demo.biopsy_rounds import run_rounds

    run(out)
    run_rounds(out)


def _values(option: str, texts: list[str]) -> float | dict[str, float]:
    """One number, or several as NAME=VALUE."""
    if len(texts) == 1 and "=" not in texts[0]:
        return _number(option, texts[0])
    named = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found:
            raise ValueError(f"{option} {text!r} must be NAME=VALUE when there are several")
        named[name] = _number(option, value)
    return named


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
