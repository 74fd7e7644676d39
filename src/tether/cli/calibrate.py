"""`tether calibrate` and `tether plan`: how far the optimized policy may go, on how many rows."""

from __future__ import annotations

from typing import Annotated, Any

import tether
from tether._core import progress
from tether.cli.tables import ANY_FILE, LOG_OPTIONS, read_log
from tether.cli.terminal import (
    NOTHING_PASSES,
    SAVING,
    TARGET,
    JsonOption,
    Options,
    Output,
    argument,
    command,
    number,
    numbers,
    print_line,
    refuse,
    show,
    target,
)
from tether.control.families import DEFAULT_BLEND

CALIBRATE: Options = TARGET | {
    "bound": (list[str], ["1.0"], "The largest possible loss; NAME=VALUE for several."),
    "family": (str, "clip", "clip, mix, budgeted_clip or budgeted_clip(N)."),
    "test_weight": (str, "empirical", "empirical, analytic or a number."),
    "safe_risk": (float | None, None, "A bound on the safe policy's loss, with --promise."),
    "ratio_error": (float | None, None, "A factor by which every weight may be wrong."),
    "blend": (float, DEFAULT_BLEND, "The safe share in a policy that never takes some actions."),
    "seed": (int, 0, "The seed of the recorded draw, with --promise."),
    "details": (bool, False, "Print everything that is known."),
}


@command(given=CALIBRATE, saving=SAVING, columns=LOG_OPTIONS)
def calibrate(
    log: Annotated[str, argument(f"The log: {ANY_FILE}.")],
    columns: Any,
    given: Any,
    saving: Any,
    as_json: JsonOption = False,
) -> int:
    """Find how far the optimized policy may go, and what this gains.

    Give --promise or --alpha. The exit code is 3 where no beta passes or the promise is of no use;
    it then says how many rows would be enough.
    """
    saved, details = Output(**saving, plot=given.pop("plot")), given.pop("details")
    problems = saved.problems(log, columns["proposals"])
    given |= target(given, problems)
    given["bound"] = numbers("--bound", given["bound"])
    if given["test_weight"] not in ("empirical", "analytic"):
        given["test_weight"] = number("--test-weight", given["test_weight"])
    rows, draws = read_log(log, given["bound"], columns, problems)
    with progress.step("calibrating"):
        found = tether.calibrate(rows, draws, **given)
    saved.show(found, as_json=as_json, text=found.details() if details else None)
    if not (found.useful or as_json):
        print_line("\n" + rows_needed(found, rows, draws))
    return 0 if found.useful else NOTHING_PASSES


def rows_needed(found: tether.Calibration, log: tether.Log, proposals: Any) -> str:
    """How many rows would be enough, in words: what `tether plan` says of this very log."""
    loss = found.binding
    mean = f"{loss.safe_mean:.4g} ± {loss.safe_error:.2g}"
    if loss.safe_mean >= loss.alpha:
        return (
            f"how many rows would be enough is unknown: the safe policy's mean {loss.name} is "
            f"{mean} on this log, and {loss.alpha:g} was asked for"
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


PLAN: Options = {name: TARGET[name] for name in ("promise", "alpha", "confidence")} | {
    "safe_risk": (float | None, None, "The safe policy's expected loss. (default: the log's)"),
    "bound": (float, 1.0, "The largest possible loss."),
    "optimized_risk": (float | None, None, "The optimized policy's. (default: twice the promise)"),
    "rows": (int | None, None, "The number of rows to describe. (default: several)"),
    "pass_probability": (float, 0.9, "The probability with which a beta should pass."),
    "family": (str, "clip", "clip, mix or budgeted_clip."),
}


@command(given=PLAN, columns=LOG_OPTIONS)
def plan(
    columns: Any,
    given: Any,
    log: Annotated[
        str | None, argument("A log like the next one, read as by `tether calibrate`.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Compute how many rows are needed before any beta can pass, from a log or from its figures.

    The exit code is 3 if no number of rows is enough.
    """
    problems: list[str] = []
    given |= target(given, problems)
    files_given: tuple[Any, ...] = ()
    if log is not None:
        files_given = read_log(log, given["bound"], columns, problems)
    elif given["safe_risk"] is None:
        problems.append("a log or --safe-risk, the safe policy's expected loss, is needed")
    refuse(problems)
    result = tether.plan(*files_given, **given)
    show(result, as_json=as_json)
    return 0 if result.possible else NOTHING_PASSES
