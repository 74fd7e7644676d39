"""From a log to beta, by three rules on the rows of one problem (`pose`).

`alpha` is Algorithm 1 on the grid of `engine`, with the terms of `promise`; `promise` is the soft
chain (`chain`), and `confidence` the certificate (`confidence`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from tether._core import validate
from tether._core.rows import Pass
from tether._core.words import AssumptionWarning, warn_user
from tether.control.calibration import Calibration, LossResult, all_warnings, why_not_useful
from tether.control.chain import Chain, draw_uniform, find_chain
from tether.control.checks import checks, findings, is_refuted
from tether.control.engine import (
    COARSE,
    LARGEST_LOG,
    Constraint,
    Levels,
    Measured,
    Problem,
    Search,
    measure,
    search,
)
from tether.control.families import DEFAULT_BLEND, Family, find_family
from tether.control.log import Log, Proposals
from tether.control.pose import pose

logger = logging.getLogger("tether.control")

LARGEST_RATIO_ERROR = 1e9  # what a larger ratio error is replaced by: no beta passes at either
RISK_TOLERANCE = 1e-6  # how far rounding may carry the calibrated risk past alpha, relatively
LOOSE_BAND = 0.3  # a normalizing constant that is open by more than this, in logs, costs gain
LOOSE = (
    "the proposals hardly determine the normalizing constant beyond this beta: with more of them, "
    "of both policies, it may go further"
)


def calibrate(
    log: Log,
    proposals: Proposals | None = None,
    *,
    alpha: float | Mapping[str, float] | None = None,
    promise: float | Mapping[str, float] | None = None,
    confidence: float | None = None,
    bound: float | Mapping[str, float] = 1.0,
    family: str | Family = "clip",
    test_weight: str | float = "empirical",
    ratio_error: float | None = None,
    blend: float = DEFAULT_BLEND,
    safe_risk: float | Mapping[str, float] | None = None,
    spread: bool = False,
    seed: int = 0,
    looks: int = 1,
) -> Calibration:
    """Find how far the optimized policy may pull away from the safe one.

    There are three rules. With `promise`, the expected loss of what is served is at most that, on
    average over logs, by a proof that estimates nothing. With `alpha`, the rule is that of the
    paper: the largest beta such that at it and at every smaller one the calibrated risk is at most
    alpha; what is promised is alpha plus the terms that the result states. With `confidence` beside
    either, the expected loss of the policy that is served is at most that with at least this
    probability over logs.

    All of them assume that log and proposals carry the true log-probabilities, that the log was not
    used to train the optimized policy, and that losses lie in [0, bound].

    Parameters
    ----------
    log : Log
        What was done, what it cost, and how likely each policy was to do it.
    proposals : Proposals, optional
        Fresh draws of both policies for the test weight and, with contexts, for the weights.
        Without proposals and without tables of all actions, clip uses the analytic test weight.
    alpha : float or mapping of str to float, optional
        The tolerated expected loss; with several losses, one for each by name. Give this or
        `promise`.
    promise : float or mapping of str to float, optional
        The expected loss to promise.
    confidence : float, optional
        Promise with this probability over logs, rather than on average over them.
    bound : float or mapping of str to float, default 1.0
        The largest possible loss.
    family : str or Family, default "clip"
        How beta turns two policies into one: "clip", "mix", "budgeted_clip", "budgeted_clip(N)",
        or an object derived from `Family`. With contexts and without tables of all actions the
        normalizing constant of clip is not known, and clip becomes budgeted clip, with as many
        proposals per action as each context has draws of each policy, at most 16.
    test_weight : str or float, default "empirical"
        With `alpha`, the weight of the action not yet taken: "empirical" (the largest among the
        draws), "analytic" (a bound that no draw can exceed) or a number.
    ratio_error : float, optional
        A factor by which every importance weight may be wrong, in either direction, without
        breaking the promise; by default that of the log, which is 1 unless its log-probabilities
        are estimates.
    blend : float, default 0.01
        The share of the safe policy that is blended into an optimized policy which never takes some
        actions; clip needs it to have tethered policies near the safe one. 0 turns it off.
    safe_risk : float or mapping of str to float, optional
        With `promise`, what the safe policy's expected loss is known to be at most.
    spread : bool, default False
        With `promise`, serve a mixture of betas, drawn for each action, rather than one drawn once.
    seed : int, default 0
        With `promise`, what the recorded draw is made from.
    looks : int, default 1
        How many calibrations on these rows the policy that is served is chosen from, this one
        included. Each further one costs: it enters what is stated.

    Returns
    -------
    Calibration
        Beta, the promise and what they rest on. With several losses beta is the smallest that any
        of them allows.

    References
    ----------
    Conformal Policy Control, ICML 2026.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)                       # what the safe policy did
    >>> log = Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2)
    >>> round(calibrate(log, alpha=0.2).beta, 2)
    2.94
    """
    chosen = find_family(family)
    blend = validate.number("blend", blend, above=0, below=1, including=(0,))
    looks = validate.integer("looks", looks)
    asked, targets = validate.one_target(alpha, promise)
    rule = asked if confidence is None else "confidence"
    if safe_risk is not None and rule != "promise":
        raise ValueError(f"safe_risk goes with promise= alone, got {safe_risk!r} with {rule}=")
    constraints = _constraints(log, asked, targets, bound, ratio_error)
    needed = test_weight if rule == "alpha" or not isinstance(test_weight, str) else None
    doubts = checks(log.rows, error := constraints[0].ratio_error)
    problem, first = pose(log, proposals, chosen, needed, blend, constraints, doubts=doubts)
    chain: Chain | None = None
    found: Search | None = None
    notes: tuple[str, ...] = ()
    shared = problem.shares_draws and problem.kernel.from_draws
    if rule == "alpha":
        found = search(problem)
        if shared:
            from tether.control.draws import search_again

            found = search_again(found)
        problem, own, levels = found.problem, found.largest(), found.levels
    else:
        from tether.control.unbiased import unbiased_weights

        if shared:
            raise ValueError(_too_few_draws(problem, log, rule))
        weights = unbiased_weights(problem, rule)
        if confidence is not None:
            from tether.control.confidence import certify

            own, wrong = certify(weights, len(log), confidence), looks * (1 - confidence)
            confidence = 1 - validate.number("looks·(1 − confidence)", wrong, above=0, below=0.999)
        else:
            uniform = draw_uniform(problem.rows, validate.integer("seed", seed, 0))
            known = _known_risks(safe_risk, constraints)
            chain, own = find_chain(
                *(weights, uniform), rows=len(log), safe_risk=known, spread=spread, looks=looks
            )
            after = min(int(np.count_nonzero(weights.t <= chain.log_beta)), len(weights.t) - 1)
            if weights.log_high[after] - weights.log_low[after] > LOOSE_BAND:
                notes = (LOOSE,)
        coarse = np.isin(weights.t, COARSE) | (not problem.kernel.nested)
        levels = problem.levels(weights.t[coarse])  # coarse points are enough for the curve
    log_beta = min(own.values()) if chain is None else chain.log_beta
    beside: dict[str, Pass] = {}
    if found is not None and log_beta > -np.inf:
        from tether.control.promise import without_each

        beside = without_each(found, log_beta)
    has_gain = spread or "reward" in log.rows.names or log.has_tables
    if has_gain:
        from tether.control.estimates import gain_pass, make_gain

        beside["gain"] = gain_pass(problem, log_beta, chain)
    measured, sums = measure(problem, log_beta, **beside)
    gain, changed = None, measured.changed if log_beta > -np.inf else 0.0
    change = sums.get("change", {"change": -np.inf})["change"] - measured.log_total
    moved = math.exp(min(change, LARGEST_LOG)) if log_beta > -np.inf else np.inf
    if has_gain:
        gain = make_gain(problem, log_beta, chain, measured, sums["gain"])
        changed = gain.changed  # at all betas that are served
    draws = None if proposals is None else proposals.rows
    unknown = log.contextual and log.context is None
    said = findings(log.rows, first["doubts"], draws, error, contexts_unknown=unknown)
    result = Calibration(
        rule=rule,
        log_beta=log_beta,
        family=problem.family.name,
        blend=problem.blend,
        losses=_losses(rule, problem, measured, log_beta, own, levels, chain, moved),
        rows=measured.rows,
        contextual=log.contextual,
        confidence=confidence,
        measured=replace(measured, changed=changed),
        chain=chain,
        gain=gain,
        probes=log.probes,
        warnings=(*notes, *log.warnings, *said),
    )
    result = replace(result, warnings=all_warnings(result, looks))
    if result.exists and (is_refuted(result.warnings) or not measured.covered):
        warn_user(why_not_useful(result), AssumptionWarning)
    logger.info("calibrated on %d rows: beta %.6g", len(log), result.beta)
    return result


# ---- the rules ---------------------------------------------------------------------------------


def _too_few_draws(problem: Problem, log: Log, asked: str) -> str:
    """Why there is no proof where rows share the draws that their weights come from."""
    budget, enough = problem.family.max_draws or 1, ""
    if log.context is not None:
        rows = int(np.unique(log.context, return_counts=True)[1].max())
        enough = f"; the context with the most rows, {rows}, needs {rows * budget} draws"
    return (
        f"{asked} needs draws of its own for every row, {budget} of each policy, and the "
        f"proposals have too few in some context{enough}. Draw more, or use a smaller budget "
        f"such as family='budgeted_clip(1)'"
    )


def _losses(
    rule: str,
    problem: Problem,
    measured: Measured,
    log_beta: float,
    log_betas: Mapping[str, float],
    levels: Levels,
    chain: Chain | None,
    moved: float,
) -> dict[str, LossResult]:
    """What is known of every loss, and promised of it by the rule; the bound without a beta."""
    losses, exists = {}, log_beta > -np.inf
    if rule == "alpha":
        from tether.control.promise import make_terms

        _check_test_weight(problem, measured)
    for place, each in enumerate(problem.constraints):
        mean, error = measured.safe_means[each.name]
        risk, promise, terms = measured.risks[each.name], each.alpha, None
        if chain is not None:
            # what the theorem says instead where the safe policy's risk is clearly above the level
            clearly = mean - 2 * error > chain.levels[each.name]
            promise = min(each.bound, chain.risk_limit(each.name, mean if clearly else 0.0))
        elif rule == "alpha":
            terms = make_terms(problem, each, log_beta, measured, moved)
            promise = terms.total
            if exists and not risk <= each.alpha * (1 + RISK_TOLERANCE):
                raise RuntimeError(
                    f"the calibrated risk of {each.name!r} is {risk} at beta = exp({log_beta}), "
                    f"above alpha = {each.alpha}: this is a bug in tether, please report it"
                )
            risk = min(risk, each.alpha) if exists else risk
        losses[each.name] = LossResult(
            *(each.name, each.alpha, each.bound, each.ratio_error, log_betas[each.name]),
            *(risk, mean, error),
            terms=terms,
            promise=promise if exists else each.bound,
            log_betas=levels.t,
            risks=levels.risks(each, place),
        )
    return losses


# ---- what was asked for ------------------------------------------------------------------------


def _constraints(
    log: Log,
    asked: str,
    targets: float | Mapping[str, float],
    bound: float | Mapping[str, float],
    ratio_error: float | None,
) -> tuple[Constraint, ...]:
    """Every loss of the log with what is tolerated of it and the most it can be."""
    if not isinstance(log, Log):
        raise TypeError(
            f"log must be a tether.Log, got {type(log).__name__}; tether.Log.from_frame makes one "
            f"from a frame, tether.make_log from policies and actions"
        )
    names, constraints = log.loss_names, []
    levels, bounds = of_each(asked, targets, names), of_each("bound", bound, names)
    factor = log.ratio_error if ratio_error is None else ratio_error
    factor = validate.number("ratio_error", factor, above=1, below=np.inf, including=(1, np.inf))
    for name in names:
        key = f"[{name!r}]" if len(names) > 1 or isinstance(targets, Mapping) else ""
        worst = validate.number(f"bound{key}", bounds[name], above=0, below=1e200)
        tolerated = validate.real(f"{asked}{key}", levels[name])
        if tolerated >= worst:
            raise ValueError(
                f"{asked}{key} must be above 0 and below bound = {worst:g}, got {tolerated:g}; "
                f"losses on another scale, such as money, need bound=, the largest possible one"
            )
        tolerated = validate.number(f"{asked}{key}", tolerated, above=0, below=worst)
        constraints.append(Constraint(name, tolerated, worst, min(factor, LARGEST_RATIO_ERROR)))
    return tuple(constraints)


def _check_test_weight(problem: Problem, measured: Measured) -> None:
    """Refuse a stated bound on all weights that is below the rows' own."""
    if isinstance(problem.test_weight, str):
        return
    # Where ψ is estimated, so are weights: by a few per cent a row may be above a true bound.
    heaviest = np.log(measured.max_weight) + measured.log_total - measured.log_test
    if heaviest <= (1e-9 if problem.kernel.known else 0.05):
        return
    raise ValueError(
        f"test_weight is {problem.test_weight!r}, but rows of the log itself weigh up to "
        f"{problem.test_weight * np.exp(min(heaviest, 700.0)):.4g}: it must bound all weights"
    )


def _known_risks(
    safe_risk: float | Mapping[str, float] | None, constraints: tuple[Constraint, ...]
) -> dict[str, float]:
    """What the safe policy's risks are known to be at most, each below its promise."""
    if safe_risk is None:
        return {}
    alphas = {each.name: each.alpha for each in constraints}
    return {
        name: validate.number("safe_risk", value, above=0, below=alphas[name], including=(0,))
        for name, value in of_each("safe_risk", safe_risk, alphas).items()
    }


def of_each(
    asked: str, value: float | Mapping[str, float], losses: Collection[str]
) -> Mapping[str, float]:
    """What is stated of each loss; a safe risk may be known of some of them alone."""
    stated = value if isinstance(value, Mapping) else dict.fromkeys(losses, value)
    known, every = set(stated), set(losses)
    if not known <= every or (known < every and asked != "safe_risk"):
        raise ValueError(f"{asked} names the losses {list(stated)}, but the log has {[*losses]}")
    return stated


def family_and_beta(beta: float | Calibration, family: str | Family | None) -> tuple[Family, float]:
    """The family and the log beta of what a user calls beta: a number or a calibration."""
    if isinstance(beta, Calibration):
        chosen = find_family(beta.family if family is None else family)
        if chosen.name != beta.family:
            raise ValueError(
                f"family is {chosen.name!r} but this beta was calibrated for {beta.family!r}"
            )
        return chosen, beta.log_beta
    value = validate.number("beta", beta, above=0, below=math.inf, including=(0, math.inf))
    log_beta = math.log(value) if value else -math.inf
    return find_family("clip" if family is None else family), log_beta
