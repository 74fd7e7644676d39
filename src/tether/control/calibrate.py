"""From a log to beta."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tether._core import validate
from tether._core.shown import shown
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning
from tether.control.blend import DEFAULT_BLEND
from tether.control.calibration import Calibration
from tether.control.calibration_warnings import not_covered
from tether.control.constraint import Constraint
from tether.control.diagnostics import RISK_TOLERANCE
from tether.control.families import find_family
from tether.control.family import Family
from tether.control.high_probability import certified_beta
from tether.control.log import Log
from tether.control.parts.high_probability import certified_beta_in_parts
from tether.control.parts.in_parts import LogInParts, ProposalsInParts
from tether.control.parts.problem import ProblemInParts, pose_in_parts
from tether.control.parts.shared_error import shared_error_in_parts
from tether.control.problem import Problem, pose
from tether.control.promise_target import reach_promise
from tether.control.proposals import Proposals
from tether.control.shared_draws import count_sharing, shared_ratio_error

logger = logging.getLogger("tether.control")

Target = TypeVar("Target")

LARGEST_RATIO_ERROR = 1e9
"""What a larger ratio error is replaced by: no beta passes at either."""
BOUND_LIMIT = 1e200
"""A bound must be below this, so that sums over rows stay within the range of floats."""
SHARING_STEPS = 4
"""How often beta is found again to allow for draws that rows share."""


def calibrate(
    log: Log | LogInParts,
    proposals: Proposals | ProposalsInParts | None = None,
    *,
    alpha: float | Mapping[str, float] | None = None,
    promise: float | Mapping[str, float] | None = None,
    confidence: float | None = None,
    bound: float | Mapping[str, float] = 1.0,
    family: str | Family = "clip",
    test_weight: str | float = "empirical",
    ratio_error: float | None = None,
    blend: float = DEFAULT_BLEND,
) -> Calibration:
    """Find how far the optimized policy may pull away from the safe one: the largest safe beta.

    Name what the expected loss may be: with `promise`, the whole stated promise is at most that;
    with `alpha`, what is promised is alpha plus the terms that the result states.

    This is the largest beta such that at it and at *every* smaller one the calibrated risk is at
    most `alpha`: the losses in the log, weighted for the tethered policy, with the worst loss
    `bound` for the action not yet taken. It assumes that log and proposals carry the true
    log-probabilities, that the log was not used to train the optimized policy, and that losses lie
    in [0, bound]. The result is checked against its definition before it is returned.

    Parameters
    ----------
    log : Log or LogInParts
        What was done, what it cost, and how likely each policy was to do it.
    proposals : Proposals or ProposalsInParts, optional
        Fresh draws of both policies for the test weight and, with contexts, for the weights.
        Without proposals and without tables of all actions, clip uses the analytic test weight.
    alpha : float or mapping of str to float, optional
        The tolerated expected loss; with several losses, one for each by name. Give this or
        `promise`.
    promise : float or mapping of str to float, optional
        The largest promise to make: alpha is set below it so that all terms of the promise fit.
    confidence : float, optional
        Promise that the expected loss of the policy that is served is at most alpha with this
        probability over logs, rather than on average over them.
    bound : float or mapping of str to float, default 1.0
        The largest possible loss.
    family : str or Family, default "clip"
        How beta turns two policies into one: "clip", "mix", "budgeted_clip", "budgeted_clip(N)",
        or an object derived from `Family`. With contexts and without tables of all actions the
        normalizing constant of clip is not known, and clip becomes budgeted clip, with as many
        proposals per action as each context has draws of each policy, at most 16.
    test_weight : str or float, default "empirical"
        The weight of the action not yet taken: "empirical" (the largest among the draws),
        "analytic" (a bound that no draw can exceed) or a number.
    ratio_error : float, optional
        A factor by which every importance weight may be wrong, in either direction, without
        breaking the promise; by default that of the log, which is 1 unless its log-probabilities
        are estimates.
    blend : float, default 0.01
        The share of the safe policy that is blended into an optimized policy which never takes some
        actions; clip needs it to have tethered policies near the safe one. 0 turns it off.

    Returns
    -------
    Calibration
        Beta, the promise and what they rest on. With several losses beta is the smallest that any
        of them allows.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value, or log, proposals, family and test weight do not
        fit together.

    References
    ----------
    Conformal Policy Control, ICML 2026.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)                       # what the safe policy did
    >>> log = Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2)
    >>> round(calibrate(log, alpha=0.2).beta, 2)
    2.96
    """
    chosen = find_family(family)
    targets: float | Mapping[str, float]
    if proposals is not None and not isinstance(proposals, (Proposals, ProposalsInParts)):
        raise TypeError(
            f"proposals must be tether.Proposals, got {shown(proposals)}; alpha and promise are "
            f"passed by name, such as alpha=0.1"
        )
    asked, targets = find_target(alpha, promise)
    constraints = _constraints(log, asked, targets, bound, ratio_error)
    blend = validate.number("blend", blend, above=0, below=1, including=(0,))
    settings = {
        **{"alpha": alpha, "promise": promise, "confidence": confidence, "bound": bound},
        **{"family": chosen.name, "test_weight": test_weight, "ratio_error": ratio_error},
        "blend": blend,
    }
    problem = replace(_pose(log, proposals, chosen, test_weight, blend), settings=settings)
    found = _find(problem, constraints, confidence, asked)
    logger.info(
        "calibrated on %d rows: beta %.6g, family %s, %s %s%s",
        *(len(log), found.beta, chosen.name, asked, targets),
        "" if found.exists else "; no beta passes, the safe policy serves",
    )
    # In parts this takes another pass; of what refutes a log, `make_log` has warned.
    if isinstance(problem, Problem) and not found.refuted_by and not found.covered:
        warn_user(not_covered(found), AssumptionWarning)
    return found


def _pose(
    log: Log | LogInParts,
    proposals: Proposals | ProposalsInParts | None,
    family: Family,
    test_weight: str | float,
    blend: float,
) -> Problem | ProblemInParts:
    """Log, proposals, family and test weight as a problem; in memory, or in parts."""
    if isinstance(log, LogInParts):
        return pose_in_parts(log, proposals, family, test_weight, blend)
    if isinstance(proposals, ProposalsInParts):
        raise TypeError(
            "proposals of tether.Proposals.scan go with a log of tether.Log.scan, got a tether.Log"
        )
    return pose(log, proposals, family, test_weight, blend)


def _find(
    problem: Problem | ProblemInParts,
    constraints: tuple[Constraint, ...],
    confidence: float | None,
    asked: str,
) -> Calibration:
    """The calibration that was asked for: by confidence, by alpha or by the promise."""
    if confidence is not None:
        return _certify(problem, constraints, confidence, asked)
    if asked == "alpha":
        return _solve(problem, constraints)

    def solve(alphas: dict[str, float]) -> Calibration:
        return _solve(
            problem, tuple(replace(each, alpha=alphas[each.name]) for each in constraints)
        )

    return reach_promise(solve, {each.name: each.alpha for each in constraints})


def _solve(problem: Problem | ProblemInParts, constraints: tuple[Constraint, ...]) -> Calibration:
    """The largest beta that every constraint allows.

    Where rows share draws, what this costs depends on beta: it is allowed for at the beta that was
    found, and beta is found again.
    """
    stated, log_betas = constraints, _largest(problem, constraints)
    shares = problem.sharing if isinstance(problem, ProblemInParts) else count_sharing(problem)
    for _ in range(SHARING_STEPS if shares else 0):
        log_beta = min(log_betas.values())
        if isinstance(problem, ProblemInParts):
            shared = shared_error_in_parts(problem, stated, log_beta)
        else:
            shared = max(shared_ratio_error(problem, each, log_beta) for each in stated)
        if stated[0].ratio_error * shared <= constraints[0].ratio_error:  # all have the same
            break
        constraints = tuple(replace(each, ratio_error=each.ratio_error * shared) for each in stated)
        log_betas = _largest(problem, constraints)
    found = _result(problem, constraints, log_betas)
    if isinstance(problem, Problem):  # with a log in parts, when its risks are first read
        _check_result(found)
    return found


def _largest(
    problem: Problem | ProblemInParts, constraints: tuple[Constraint, ...]
) -> dict[str, float]:
    if isinstance(problem, ProblemInParts):
        return problem.largest(constraints)
    return {each.name: problem.solver.largest(problem, each) for each in constraints}


def _certify(
    problem: Problem | ProblemInParts,
    constraints: tuple[Constraint, ...],
    confidence: float,
    asked: str,
) -> Calibration:
    """The largest beta whose risks are at most alpha with a given probability over logs."""
    if isinstance(problem, ProblemInParts):
        certified = certified_beta_in_parts(problem, constraints, confidence)
    else:
        certified = certified_beta(problem, constraints, confidence)
    found = _result(problem, constraints, certified.log_beta_by_constraint)
    targets = {each.name: each.alpha for each in constraints}
    return replace(
        found,
        confidence=certified.confidence,
        upper_bounds=dict(certified.risk_bounds),
        asked_promise=targets if asked == "promise" else None,
    )


def _result(
    problem: Problem | ProblemInParts,
    constraints: tuple[Constraint, ...],
    log_betas: Mapping[str, float],
) -> Calibration:
    if isinstance(problem, ProblemInParts):
        actions, scored_by = problem.actions, None
    else:
        listed, scored_by = problem.log.log_safe_all, problem.given_log.scored_by
        actions = None if listed is None else listed.shape[1]
    return Calibration(
        log_beta=min(log_betas.values()),
        constraints=constraints,
        log_beta_by_constraint=dict(log_betas),
        family=problem.family.name,
        test_weight=problem.test_weight.label,
        rows=len(problem.log),
        contextual=problem.log.contextual,
        blend=problem.blend,
        actions=actions,
        approximate=problem.log.approximate,
        policies=None if scored_by is None else dict(scored_by.fingerprints),
        _stored_problem=problem,
    )


def find_target(alpha: Target | None, promise: Target | None) -> tuple[str, Target]:
    """Which of alpha and promise was given, and its value."""
    if (alpha is None) == (promise is None):
        given = "neither" if alpha is None else "both"
        raise TypeError(
            f"give exactly one of alpha (the tolerated loss inside the calibration) and promise "
            f"(what may be promised in total), got {given}"
        )
    if promise is not None:
        return "promise", promise
    assert alpha is not None
    return "alpha", alpha


def _check_result(found: Calibration) -> None:
    """Check that what was found satisfies the definition, computed afresh."""
    for constraint in found.constraints:
        risk = found.risks[constraint.name]
        if found.exists and not risk <= constraint.alpha * (1 + RISK_TOLERANCE):
            raise RuntimeError(
                f"beta = exp({found.log_beta}) was found for {constraint.name!r} but its "
                f"calibrated risk is {risk}, above alpha = {constraint.alpha}: this is a bug in "
                f"tether, please report it"
            )


def _constraints(
    log: Log | LogInParts,
    asked: str,
    targets: float | Mapping[str, float],
    bound: float | Mapping[str, float],
    ratio_error: float | None,
) -> tuple[Constraint, ...]:
    if not isinstance(log, (Log, LogInParts)):
        raise TypeError(
            f"log must be a tether.Log, got {type(log).__name__}; tether.Log.from_frame makes one "
            f"of a frame, tether.make_log of policies and actions"
        )
    names = list(log.loss if isinstance(log, Log) else log.loss_names)
    for name, value in ((asked, targets), ("bound", bound)):
        if isinstance(value, Mapping) and set(value) != set(names):
            raise ValueError(f"{name} has the losses {list(value)} but the log has {names}")
    factor = log.ratio_error if ratio_error is None else ratio_error
    factor = validate.number("ratio_error", factor, above=1, below=np.inf, including=(1, np.inf))
    factor = min(factor, LARGEST_RATIO_ERROR)
    constraints = []
    for name in names:
        several = len(names) > 1 or isinstance(targets, Mapping)
        key = f"[{name!r}]" if several else ""
        worst = bound[name] if isinstance(bound, Mapping) else bound
        worst = validate.number(f"bound{key}", worst, above=0, below=BOUND_LIMIT)
        tolerated = targets[name] if isinstance(targets, Mapping) else targets
        if validate.real(f"{asked}{key}", tolerated) >= worst and isinstance(log, Log):
            _ask_for_a_bound(f"{asked}{key}", tolerated, worst, float(log.loss[name].max()))
        tolerated = validate.number(f"{asked}{key}", tolerated, above=0, below=worst)
        if isinstance(log, Log):
            advice = "; only if losses can be larger, pass a larger bound="
            validate.reject_above_bound(f"loss{key}", log.loss[name], worst, advice)
        constraints.append(Constraint(name, tolerated, worst, factor))
    return tuple(constraints)


def _ask_for_a_bound(name: str, tolerated: float, bound: float, largest: float) -> None:
    """Refuse what is tolerated of losses on another scale, such as money, without their bound."""
    if largest > bound:
        raise ValueError(
            f"{name} must be above 0 and below bound = {bound:g}, got {tolerated!r}, and losses go "
            f"up to {largest:g}: if they are amounts, pass the largest that is possible as bound="
        )


def family_and_beta(beta: float | Calibration, family: str | Family | None) -> tuple[Family, float]:
    """The family and the log beta of what a user calls beta: a number or a calibration."""
    if isinstance(beta, Calibration):
        chosen = _family_of(beta) if family is None else find_family(family)
        if chosen.name != beta.family:
            raise ValueError(
                f"family is {chosen.name!r} but this beta was calibrated for {beta.family!r}"
            )
        return chosen, beta.log_beta
    if isinstance(beta, bool) or not isinstance(beta, (int, float, np.integer, np.floating)):
        raise TypeError(f"beta must be a number or a tether.Calibration, got {beta!r}")
    if not beta >= 0:
        raise ValueError(f"beta must be at least 0 (the safe policy), got {beta!r}")
    # math.log takes integers past the largest float too, and refuses zero.
    log_beta = math.log(beta) if beta else -math.inf
    return find_family("clip" if family is None else family), log_beta


def _family_of(calibration: Calibration) -> Family:
    """The family of a calibration; once saved and loaded, only those of the package are known."""
    problem = calibration._stored_problem
    if problem is not None and problem.family.name == calibration.family:
        return problem.family
    try:
        return find_family(calibration.family)
    except ValueError:
        raise ValueError(
            f"family must be given: this calibration was loaded, and {calibration.family!r} is not "
            f"a family of the package"
        ) from None
