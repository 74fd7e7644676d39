"""`tether calibrate`: how far the optimized policy may go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import tether
from tether._core import progress
from tether._core.text_hints import number_hint
from tether.cli.log_files import (
    ContextOption,
    LossOption,
    MaxRatioOption,
    MixOption,
    NoContextOption,
    OptimizedOption,
    ProposalsOption,
    RewardOption,
    SafeOption,
    ShareOption,
    SourceOption,
    read_log_files,
)
from tether.cli.missing_losses import MissingOption, with_option
from tether.cli.plan_command import plan_command
from tether.cli.probability_columns import (
    ActionOption,
    DoubtfulColumnsError,
    MinPropensityOption,
    ProbabilityColumns,
    ProbabilityOption,
    PropensityOption,
)
from tether.cli.scanned_paths import WhereOption
from tether.cli.terminal import (
    NOTHING_PASSES,
    ForceOption,
    JsonOption,
    KeyOption,
    MaxRowsOption,
    Output,
    print_error,
    report_errors,
    run_interruptibly,
    show_and_save,
)
from tether.control import AlphaGrid
from tether.control.families import DEFAULT_BLEND
from tether.control.parts.in_parts import LogInParts
from tether.control.score_checks import has_equal_scores


@dataclass(frozen=True)
class CalibrationWithGain:
    """What is shown: a calibration, what it buys, and what other promises or alphas would buy.

    Where nothing passes, also the command that says how many rows would.
    """

    calibration: tether.Calibration
    gain: tether.Gain
    what_if: AlphaGrid | None
    plan_command: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The entries of the calibration, and those of its gain."""
        others = None if self.what_if is None else self.what_if.to_dict()
        return {
            **self.calibration.to_dict(),
            "gain": self.gain.to_dict(),
            "what_if": others,
            "plan_command": self.plan_command,
        }

    def save(self, path: str | Path, *, overwrite: bool = False, key: Path | None = None) -> None:
        """Save the calibration alone."""
        self.calibration.save(path, overwrite=overwrite, key=key)

    def __str__(self) -> str:
        parts = [str(self.calibration), str(self.gain)]
        if self.what_if is not None:
            parts.append(str(self.what_if))
        if self.plan_command is not None:
            parts.append(f"how many rows would be enough:\n  {self.plan_command}")
        return "\n\n".join(parts)


@report_errors
def calibrate(
    log: Annotated[
        Path,
        typer.Argument(
            help="The log: a Parquet or CSV file, or a folder, glob or address (s3://bucket/log) "
            "of Parquet."
        ),
    ],
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
    proposals: ProposalsOption = None,
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
    loss: LossOption = None,
    log_safe: SafeOption = "log_safe",
    log_optimized: OptimizedOption = "log_optimized",
    context: ContextOption = None,
    no_context: NoContextOption = False,
    log_mix: MixOption = None,
    safe_share: ShareOption = None,
    max_ratio: MaxRatioOption = None,
    propensity: PropensityOption = None,
    probability: ProbabilityOption = None,
    min_propensity: MinPropensityOption = None,
    action: ActionOption = None,
    source: SourceOption = None,
    reward: RewardOption = None,
    what_if: Annotated[
        list[float] | None,
        typer.Option(help="Show what this promise (or alpha) would buy; repeat for several."),
    ] = None,
    ratio_error: Annotated[
        float | None, typer.Option(help="A factor by which every weight may be wrong. (default: 1)")
    ] = None,
    blend: Annotated[
        float,
        typer.Option(help="The safe share in an optimized policy that never takes some actions."),
    ] = DEFAULT_BLEND,
    missing: MissingOption = None,
    where: WhereOption = None,
    max_rows: MaxRowsOption = None,
    out: Annotated[Path | None, typer.Option(help="Save the calibration as JSON.")] = None,
    force: ForceOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find how far the optimized policy may go, and estimate what this buys.

    Give --promise or --alpha. The exit code is 3 where no beta passes, the promise is of no use, or
    --propensity and --probability look exchanged or are equal.
    """
    saved = Output(out, force, key)
    saved.check(log, proposals)
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

    stated = ProbabilityColumns(propensity, probability, min_propensity, action)

    def find() -> CalibrationWithGain:
        actions, draws = read_files()
        in_memory = isinstance(actions, tether.Log)
        if in_memory and stated.names and (question := stated.exchanged(actions)) is not None:
            raise DoubtfulColumnsError(question)
        if in_memory and has_equal_scores(actions):
            columns = propensity or log_safe, probability or log_optimized
            raise DoubtfulColumnsError(stated.equal_scores(*columns))
        has_tables = actions.log_safe_all is not None if in_memory else actions.has_tables
        only_taken = stated.names and draws is None and not has_tables
        if only_taken and actions.contextual and family != "mix":
            raise ValueError(
                f"--propensity and --probability tell only the probabilities of the actions that "
                f"were taken, and with contexts the family {family} needs those of all actions: "
                f"use --family mix"
            )
        rows = "rows in parts" if isinstance(actions, LogInParts) else f"{len(actions):,} rows"
        with progress.step(f"calibrating on {rows}"):
            found = tether.calibrate(actions, draws, **options)
            found.to_dict()  # diagnostics, which take longer than beta, are computed on first use
            others = None
            if what_if:
                settings = {name: options[name] for name in options.keys() - {"alpha", "promise"}}
                asked: dict[str, Any] = {"promises" if promise else "alphas": what_if}
                others = tether.gain_over_alphas(actions, draws, **asked, **settings)
            rows_needed = plan_command(found)
            return CalibrationWithGain(found, tether.gain(found), others, rows_needed)

    def read_files() -> tuple[Any, Any]:
        return read_log_files(
            log,
            proposals,
            loss=loss,
            log_safe=log_safe,
            log_optimized=log_optimized,
            context=context,
            no_context=no_context,
            log_mix=log_mix,
            safe_share=safe_share,
            max_ratio=max_ratio,
            probabilities=stated,
            source=source,
            reward=reward,
            max_rows=max_rows,
            where=where,
            missing=missing,
            bound=options["bound"],
        )

    try:
        result = run_interruptibly(find)
    except DoubtfulColumnsError as error:
        print_error("no useful promise:", str(error))
        raise typer.Exit(NOTHING_PASSES) from error
    except ValueError as error:  # of rows that are read in parts
        raise ValueError(with_option(str(error))) from error
    show_and_save(result, saved, as_json=as_json)
    if not result.calibration.useful:
        raise typer.Exit(NOTHING_PASSES)


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
        raise ValueError(f"{option} must be a number, got {text!r}{number_hint(text)}") from None


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
