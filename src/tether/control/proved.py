"""Calibration by the two rules that are proved: the soft chain and the certificate.

Neither needs a test weight, and neither states a term that is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats
from tether.control.calibration import Calibration, LossResult
from tether.control.chain import Chain, draw_uniform, find_chain
from tether.control.confidence import certify
from tether.control.engine import COARSE, Constraint, Problem
from tether.control.kernels import BudgetedKernel, ClipKernel
from tether.control.log import Log
from tether.control.measure import measure
from tether.control.unbiased import Weights, unbiased_weights

BAND_ERROR = 1e-3
"""The share of a promise that an unknown normalizing constant may cost."""
LOOSE_BAND = 0.3
"""A normalizing constant that is open by more than this, in logs, costs gain."""


def by_promise(
    problem: Problem,
    log: Log,
    safe_risk: float | Mapping[str, float] | None,
    *,
    spread: bool,
    seed: int,
) -> Calibration:
    """The soft chain: fixed candidates, served with probabilities that a proof bounds."""
    error = 0.0
    if isinstance(problem.kernel, ClipKernel):
        if problem.draws is None:
            raise ValueError(
                "promise needs proposals for a log without contexts: fresh draws of the policies, "
                "from which the normalizing constant is known (tether.make_proposals makes them)"
            )
        error = BAND_ERROR * min(each.alpha / each.bound for each in problem.constraints)
    known = _known_risks(safe_risk, problem.constraints)
    weights = unbiased_weights(problem, "promise", error)
    chain, own = find_chain(
        weights,
        draw_uniform(problem.rows, validate.integer_at_least("seed", seed, 0)),
        rows=len(problem.rows),
        safe_risk=known,
        error=error,
        spread=spread,
    )
    found = _result("promise", problem, log, chain.log_beta, own, weights.t)
    losses = {
        name: replace(each, promise=_promised(chain, each, exists=found.exists))
        for name, each in found.losses.items()
    }
    found = replace(found, losses=losses, chain=chain)
    return replace(found, warnings=tuple(_chain_warnings(found, weights)))


def _promised(chain: Chain, loss: LossResult, *, exists: bool) -> float:
    """The promise; what the theorem says instead where the safe policy's risk is clearly above."""
    if not exists:
        return loss.bound
    if loss.safe_mean - 2 * loss.safe_error <= chain.levels[loss.name]:
        return loss.alpha
    return min(loss.bound, chain.risk_limit(loss.name, loss.safe_mean))


def by_confidence(problem: Problem, log: Log, confidence: float) -> Calibration:
    """The certificate: betting that the risk at beta is at most alpha."""
    made = certify(problem, confidence)
    log_beta = min(made.log_betas.values())
    found = _result("confidence", problem, log, log_beta, made.log_betas, made.sequence)
    losses = {
        name: replace(
            each, risk=made.risk_bounds[name], promise=each.alpha if found.exists else each.bound
        )
        for name, each in found.losses.items()
    }
    return replace(found, losses=losses, confidence=confidence)


def _result(
    rule: str,
    problem: Problem,
    log: Log,
    log_beta: float,
    log_betas: Mapping[str, float],
    t: Floats,
) -> Calibration:
    """What the rules that estimate no term have in common: everything known at beta."""
    t = t[np.isin(t, COARSE)] if problem.kernel.nested else t  # enough for a curve
    measured, levels = measure(problem, log_beta), problem.levels(t)
    losses = {
        each.name: LossResult(
            *(each.name, each.alpha, each.bound, each.ratio_error, log_betas[each.name]),
            risk=measured.risks[each.name],
            safe_mean=measured.safe_means[each.name][0],
            safe_error=measured.safe_means[each.name][1],
            terms=None,
            promise=each.bound,
            log_betas=t,
            risks=levels.risks(each, place),
        )
        for place, each in enumerate(problem.constraints)
    }
    return Calibration(
        rule=rule,
        log_beta=log_beta,
        family=problem.family.name,
        blend=problem.blend,
        losses=losses,
        rows=measured.rows,
        contextual=log.contextual,
        confidence=None,
        measured=measured,
        probes=log.probes,
    )


def check_own_draws(problem: Problem, log: Log, asked: str) -> None:
    """Refuse rows that share draws: their weights are not independent."""
    if not isinstance(problem.kernel, BudgetedKernel) or not problem.shares_draws:
        return
    budget, enough = problem.kernel.budget, ""
    if log.context is not None:
        rows = int(np.unique(log.context, return_counts=True)[1].max())
        enough = f"; the context with the most rows, {rows}, needs {rows * budget} draws of each"
    raise ValueError(
        f"{asked} needs draws of its own for every row, {budget} of each policy: proposals has "
        f"too few in some context{enough}. Draw more, use a smaller budget such as "
        f"family='budgeted_clip(1)', or give tables of all actions"
    )


def _known_risks(
    safe_risk: float | Mapping[str, float] | None, constraints: tuple[Constraint, ...]
) -> dict[str, float] | None:
    """What the safe policy's risks are known to be at most, each below its promise."""
    if safe_risk is None:
        return None
    known = {}
    for each in constraints:
        value = safe_risk.get(each.name) if isinstance(safe_risk, Mapping) else safe_risk
        if value is not None:
            limits = {"above": 0.0, "below": each.alpha}
            known[each.name] = validate.number("safe_risk", value, including=(0,), **limits)
    return known


def _chain_warnings(found: Calibration, weights: Weights) -> Iterator[str]:
    """What changes a decision of those who asked for a promise."""
    chain = found.chain
    assert chain is not None
    for each in found.losses.values():
        of = f" of {each.name!r}" if len(found.losses) > 1 else ""
        level = chain.levels[each.name]
        if level <= 0:
            yield (
                f"{found.rows} rows are too few for a promise of {each.alpha:g}{of}: the safe "
                f"policy serves. Collect more than {math.ceil(each.bound / each.alpha)} of them "
                f"(tether.plan says how many)"
            )
        elif each.safe_mean > level:
            limit = chain.risk_limit(each.name, each.safe_mean)
            yield (
                f"the safe policy's own mean loss{of} is {each.safe_mean:.4g} ± "
                f"{each.safe_error:.2g}, above {level:.4g}, up to which the promise of "
                f"{each.alpha:g} holds: if that is its risk, the expected loss is at most "
                f"{limit:.4g}. More rows bring the level closer to the promise; safe_risk= sets it"
            )
    if not found.exists and min(chain.levels.values()) > 0:
        yield (
            f"the safe policy serves: the log allows anything else with probability "
            f"{chain.shares[0]:.3g}, and the recorded draw was {chain.uniform:.3g}"
        )
    after = min(int(np.count_nonzero(weights.t <= found.log_beta)), len(weights.t) - 1)
    unknown = float(weights.log_high[after] - weights.log_low[after])
    if unknown > LOOSE_BAND:
        yield (
            "the proposals hardly tell the normalizing constant where beta stops, so little is "
            "served: make more of them"
        )
