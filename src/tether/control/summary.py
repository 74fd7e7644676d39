"""A calibration in words: the summary that printing it shows, and its warnings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tether.control.context_draws import MAX_STANDARD_ERRORS
from tether.control.problem import Problem
from tether.control.promise import ASSUMPTIONS
from tether.control.solvers import search
from tether.control.solvers.weight_bounds import certified

if TYPE_CHECKING:
    from tether.control.calibration import Calibration

MIN_EFFECTIVE_ROWS = 30.0
"""A smaller effective sample size than this is worth a warning."""
LINE_WIDTH = 96


def write_summary(found: Calibration) -> str:
    """Beta, the promise and what they rest on, for a person at a terminal."""
    lines = [_headline(found), ""]
    for constraint in found.constraints:
        mark = " ←" if len(found.constraints) > 1 and constraint is found.binding else ""
        label = "risk" if len(found.constraints) == 1 else f"risk of {constraint.name}"
        lines.append(
            f"  {label:<22} {found.risks[constraint.name]:.4g} calibrated, alpha "
            f"{constraint.alpha:g} of at most {constraint.bound:g}{mark}"
        )
        promise = f"expected loss ≤ {found.promises[constraint.name]:.4g}"
        lines.append(f"  {'promise':<22} {promise if found.exists else 'none'}")
    lines += [
        f"  {'stability':<22} {found.stability:.3g} (smoothness {found.smoothness:.3g})",
        f"  {'effective sample size':<22} {found.effective_sample_size:,.1f} of {found.rows:,}",
        f"  {'largest weight':<22} {found.max_weight:.3g} of 1, test weight {found.test_weight}",
    ]
    if np.isfinite(found.acceptance):
        draws = ""
        if found.family == "clip" and found.acceptance > 0:
            draws = f": {1 / found.acceptance:.3g} draws per action"
        lines.append(f"  {'acceptance':<22} {found.acceptance:.3g} of the draws{draws}")
    lines += [_wrapped(f"! {warning}") for warning in found.warnings]
    lines.append(_wrapped(f"assumed: {ASSUMPTIONS}"))
    return "\n".join(lines)


def write_statement(found: Calibration) -> str:
    """The promise in one sentence."""
    if not found.exists:
        return "none: no beta passes, so only the safe policy is served"
    return f"the expected loss of the next action is at most {found.promise:.4g}"


def find_warnings(found: Calibration, problem: Problem) -> Iterator[str]:
    """What a careful reader would want to know before deploying."""
    if not found.exists:
        yield (
            f"no beta passes: even the safe policy's calibrated risk is {found.risk:.4g}, above "
            f"alpha = {found.alpha:g}; serve the safe policy only, collect rows, or raise alpha"
        )
    analytic = problem.test_weight.label == "analytic"
    if not problem.has_draws and analytic:
        yield "without proposals the test point has the analytic weight, the largest possible"
    rows, test = problem.log_weights(found.effective_log_beta)
    heavier = int(np.sum(rows > test + 1e-9))
    if heavier and not analytic:
        yield (
            f"{heavier} row(s) of the log weigh more than the test point, which should weigh the "
            f"most: draw more proposals from the optimized policy, or give a larger number"
        )
    outside = float(np.mean(np.isneginf(problem.draws.log_safe)))
    if outside and problem.log.log_safe_all is None:
        yield (
            f"{outside:.1%} of the proposals are actions that the safe policy never takes: no "
            f"tethered policy takes them either, not even at an infinite beta"
        )
    if not (problem.family.normalized or problem.draws.both):
        yield (
            "some contexts have proposals of one policy only: their normalizers are noisy, and "
            "the weights with them; draw a few from each policy in every context"
        )
    if problem.solver is search and not certified(problem):
        yield (
            f"family {found.family!r} states no smoothness: the betas between those that the "
            f"search examined are not certified"
        )
    if found.exists and found.effective_sample_size < MIN_EFFECTIVE_ROWS:
        yield (
            f"the effective sample size is {found.effective_sample_size:.1f}: beta rests on few "
            f"rows"
        )
    mean, error = _mean_ratio(problem)
    if mean > 1 + MAX_STANDARD_ERRORS * error:
        yield (
            f"the optimized policy's probabilities, summed over the log, come to {mean:.3g} ± "
            f"{error:.2g} and should be at most 1: check that the log was scored under the policy "
            f"that produced it"
        )


def _headline(found: Calibration) -> str:
    where = "contexts" if found.contextual else "no contexts"
    how = f"family {found.family}, {found.rows:,} rows, {where}"
    if not found.exists:
        return f"beta = 0: serve the safe policy only ({how})"
    if np.isinf(found.log_beta):
        return f"beta = inf: the optimized policy passes as it is ({how})"
    size = f"{found.beta:.4g}" if abs(found.log_beta) < 300 else f"exp({found.log_beta:.6g})"
    return f"beta = {size} ({how})"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, LINE_WIDTH, initial_indent="  ", subsequent_indent="    ")


def _mean_ratio(problem: Problem) -> tuple[float, float]:
    """The mean of optimized over mixture density in the log: at most one if scores are right."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(problem.log.log_optimized - problem.log_mix)
        mean, error = float(ratios.mean()), float(ratios.std() / np.sqrt(len(ratios)))
    return (mean, error) if np.isfinite(error) else (np.inf, 0.0)
