"""A calibration in words, for a person at a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tether.control.calibration import Calibration

ASSUMPTIONS = (
    "the log was produced by the policies its mixture names and was not used for training; "
    "contexts keep coming from where they came; losses lie in [0, bound]; every "
    "log-probability is that of the policy as it samples"
)


def of_calibration(found: Calibration) -> str:
    """The summary that printing a calibration shows."""
    lines = [_headline(found), ""]
    for each in found.constraints:
        mark = " ←" if len(found.constraints) > 1 and each is found.binding else ""
        label = "risk" if len(found.constraints) == 1 else f"risk of {each.name}"
        lines.append(
            f"  {label:<22} {found.risks[each.name]:.4g} calibrated, alpha {each.alpha:g} "
            f"of at most {each.bound:g}{mark}"
        )
        promise = f"expected loss ≤ {found.promises[each.name]:.4g}"
        lines.append(f"  {'promise':<22} {promise if found.exists else 'none'}")
    lines += [
        f"  {'stability':<22} {found.stability:.3g} (smoothness {found.smoothness:.3g})",
        f"  {'effective sample size':<22} {found.effective_sample_size:,.1f} of {found.rows:,}",
        f"  {'largest weight':<22} {found.max_weight:.3g} of 1, test weight {found.test_weight}",
    ]
    if np.isfinite(found.acceptance):
        draws = ""
        if found.family == "clip" and found.acceptance > 0:
            draws = f": {1 / found.acceptance:.3g} draws an action"
        lines.append(f"  {'acceptance':<22} {found.acceptance:.3g} of the draws{draws}")
    lines += [
        textwrap.fill(f"! {warning}", 96, subsequent_indent="    ", initial_indent="  ")
        for warning in found.warnings
    ]
    lines.append(
        textwrap.fill(f"assumed: {ASSUMPTIONS}", 96, initial_indent="  ", subsequent_indent="    ")
    )
    return "\n".join(lines)


def _headline(found: Calibration) -> str:
    where = "contexts" if found.contextual else "no contexts"
    how = f"family {found.family}, {found.rows:,} rows, {where}"
    if not found.exists:
        return f"beta = 0: serve the safe policy only ({how})"
    if np.isinf(found.log_beta):
        return f"beta = inf: the optimized policy passes whole ({how})"
    size = f"{found.beta:.4g}" if abs(found.log_beta) < 300 else f"exp({found.log_beta:.6g})"
    return f"beta = {size} ({how})"
