"""`tether verify`: whether a saved file or a store is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tether
from tether._core.files import is_database
from tether._core.verification import Verification
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
from tether.cli.missing_losses import MissingOption
from tether.cli.probability_columns import (
    ActionOption,
    MinPropensityOption,
    ProbabilityColumns,
    ProbabilityOption,
    PropensityOption,
)
from tether.cli.shown_warnings import warnings_kept
from tether.cli.terminal import VERIFICATION_FAILED, JsonOption, report_errors, require_file, show


@report_errors
def verify(
    subject: Annotated[
        str,
        typer.Argument(
            help="A saved result (found.json), a store or its URL, or an export (run.parquet).",
            metavar="FILE",
        ),
    ],
    key: Annotated[
        Path | None, typer.Option(help="The public key that must have signed the file.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="The log that a calibration must come from.")
    ] = None,
    proposals: ProposalsOption = None,
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
    missing: MissingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a saved result or a store: that it is as it was written, and who signed it.

    A result is compared with its digest and with itself, a store or an export with its hash chain.

    With --log, the log is read as by `tether calibrate`, compared by its digest, and calibrated
    again. Exit codes: 0 if everything that was checked holds, 1 if something is wrong, 2 for
    invalid input.
    """
    if proposals is not None and log is None:
        raise ValueError("--proposals are compared together with --log")
    compared: dict[str, Any] = {}
    if log is not None:
        with warnings_kept():
            compared["log"], compared["proposals"] = read_log_files(
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
                probabilities=ProbabilityColumns(propensity, probability, min_propensity, action),
                source=source,
                reward=reward,
                missing=missing,
                bound=1.0 if missing is None else _saved_bounds(subject),
            )
    result = verify_subject(subject, key, **compared)
    show(result, as_json=as_json)
    if not result.ok:
        raise typer.Exit(VERIFICATION_FAILED)


def _saved_bounds(subject: str) -> float | dict[str, float]:
    """The bounds of the losses of a saved calibration; 1 if it cannot be read, which is told."""
    try:
        constraints = tether.Calibration.load(subject).constraints
    except (ValueError, TypeError, OSError):
        return 1.0
    if len(constraints) == 1:
        return constraints[0].bound
    return {each.name: each.bound for each in constraints}


def verify_subject(subject: str, key: Path | None, **compared: Any) -> Verification:
    """The verification that suits a file or a store."""
    if "://" in subject or is_database(Path(subject)):
        if compared:
            raise ValueError("--log is compared with a saved calibration, not with a run")
        from tether.rounds import verify_store

        return verify_store(subject, key=key)
    if subject.endswith(".parquet"):
        from tether.rounds import verify_export

        return verify_export(subject, key=key)
    from tether.verification import verify_record

    require_file(Path(subject))
    return verify_record(Path(subject), key=key, **compared)
