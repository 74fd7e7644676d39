"""A calibration in words: what printing it shows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from tether.control.promise import ASSUMPTIONS

if TYPE_CHECKING:
    from tether.control.calibration import Calibration
    from tether.control.constraint import Constraint

LINE_WIDTH = 96


def write_summary(found: Calibration) -> str:
    """Beta, the promise and what they rest on, for a person at a terminal."""
    lines = [_headline(found), ""]
    for constraint in found.constraints:
        mark = " ←" if len(found.constraints) > 1 and constraint is found.binding else ""
        label = "risk" if len(found.constraints) == 1 else f"risk of {constraint.name}"
        lines.append(
            f"  {label:<22} {found.risks[constraint.name]:.4g} calibrated, alpha "
            f"{constraint.alpha:.4g} of at most {constraint.bound:g}{mark}"
        )
        lines.append(f"  {'promise':<22} {_promise(found, constraint)}")
    lines += [
        *_stability_lines(found),
        f"  {'effective sample size':<22} {found.effective_sample_size:,.1f} of {found.rows:,}",
        f"  {'largest weight':<22} {found.max_weight:.3g} of 1, test weight {found.test_weight}",
    ]
    if found.blend:
        lines.append(f"  {'blend':<22} {found.blend:.3g} of the optimized policy is the safe one")
    if found.actions is not None:
        lines.append(
            f"  {'actions':<22} {found.actions:,} in each context, drawn without rejection"
        )
    elif np.isfinite(found.acceptance):
        draws = ""
        if found.family.startswith(("clip", "budgeted_clip")) and found.acceptance > 0:
            draws = f": {1 / found.acceptance:.3g} draws per action"
        lines.append(f"  {'acceptance':<22} {found.acceptance:.3g} of the draws{draws}")
    lines += _gain_lines(found)
    lines += [_wrapped(f"! {warning}") for warning in found.warnings]
    lines.append(_wrapped(f"assumed: {ASSUMPTIONS}"))
    return "\n".join(lines)


def _gain_lines(found: Calibration) -> list[str]:
    """What is gained, if the log has rewards; `tether.gain` says more."""
    gain = found.saved_gain
    if gain is None or gain.reward is None:
        return []
    return [
        f"  {'reward, tethered':<22} {gain.reward.tethered}",
        f"  {'reward, gained':<22} {gain.reward.difference}",
        f"  {'decisions that change':<22} {gain.changed}",
    ]


def write_statement(found: Calibration) -> str:
    """The promise in one sentence."""
    if not found.exists:
        return "none: no beta passes, so only the safe policy is served"
    statement = f"the expected loss of the next action is at most {found.promise:.4g}"
    if len(found.promises) > 1:
        each = ", ".join(f"{name} {value:.4g}" for name, value in found.promises.items())
        statement = f"the expected losses of the next action are at most {each}"
    if found.approximate is not None:
        statement = f"approximately, {statement}"
    if found.confidence is not None:
        return f"with probability at least {found.confidence:g} over logs, {statement}"
    return statement if found.useful else f"no useful promise: {statement}"


def _promise(found: Calibration, constraint: Constraint) -> str:
    """The promise on one loss, with its terms."""
    if not found.exists:
        return "none"
    terms, total = found.promise_terms[constraint.name], found.promises[constraint.name]
    text = f"expected loss ≤ {total:.4g}"
    if found.confidence is not None:
        return f"{text} with probability {found.confidence:g} over logs"
    excess = 0.0 if terms.safe_excess < 1e-6 * terms.alpha else terms.safe_excess
    text += (
        f" = {terms.alpha:.4g} alpha + {terms.stability:.2g} stability + {excess:.2g} safe excess"
    )
    if found.asked_promise is not None:
        text = f"{text} (asked for: {found.asked_promise[constraint.name]:g})"
    return text if found.useful else f"no useful promise: {text}"


def _stability_lines(found: Calibration) -> list[str]:
    """How far the result is from changing: with the log, and with the weights."""
    lines = []
    if found.confidence is None:
        lines.append(f"  {'stability':<22} {found.stability:.3g}")
    if not found.exists:
        return lines
    robust = f"a beta passes while weights are off by a factor of at most {found.robustness:.3g}"
    if found.ratio_error > 1:
        robust += f"; {found.ratio_error:.6g} is allowed for"
    return [*lines, f"  {'robustness':<22} {robust}"]


def _headline(found: Calibration) -> str:
    where = "contexts" if found.contextual else "no contexts"
    how = f"family {found.family}, {found.rows:,} rows, {where}"
    if not found.exists:
        return f"beta = 0: serve the safe policy only ({how})"
    if np.isinf(found.log_beta):
        passes = "the blend passes" if found.blend else "the optimized policy passes as it is"
        return f"beta = inf: {passes} ({how})"
    size = f"{found.beta:.4g}" if abs(found.log_beta) < 300 else f"exp({found.log_beta:.6g})"
    return f"beta = {size} ({how})"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, LINE_WIDTH, initial_indent="  ", subsequent_indent="    ")
