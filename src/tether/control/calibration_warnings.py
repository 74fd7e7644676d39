"""What a careful reader would want to know of a calibration before deploying, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tether._core.safe_excess import NEAR_STANDARD_ERRORS
from tether._core.shown import few
from tether._core.ties import within_limit
from tether.control.constraint import Constraint
from tether.control.coverage import RESTRICTED_WORDS
from tether.control.path_weight import PathWeight
from tether.control.problem import Problem
from tether.control.promise import foreseeing_draws, unforeseen_term
from tether.control.score_checks import HIGH_RATIO_WORDS, SAME_SCORE_TOLERANCE
from tether.control.solvers import search
from tether.control.solvers.weight_bounds import certified

if TYPE_CHECKING:
    from tether.control.calibration import Calibration
    from tether.control.diagnostics import Diagnostics
    from tether.control.parts.problem import ProblemInParts

MIN_DRAWS_PER_LEVEL = 16
"""Fewer draws than this at a beta of a path are worth a warning."""
SHARPEST_SOFT_PICK = 0.99
"""The mean probability of the likeliest candidate beyond which a pick is that of the best."""
SAFE_ABOVE_WORDS = "serving the safe policy does not keep it either"
"""What is said of a safe policy that is itself above what is asked for."""
HARDLY_CHANGED = 1e-3
"""A smaller share of decisions that change is worth a warning: hardly anything is gained."""
HARDLY_CHANGED_WORDS = "in practice the safe policy"
"""What is said of a policy that changes hardly any decision."""
REWARD_LOST_WORDS = "this policy earns less than the safe one"
"""What is said of a policy whose reward is below that of the safe one."""
MIN_EFFECTIVE_ROWS = 30.0
"""A smaller effective sample size than this is worth a warning."""


def rows_beyond_draws(problem: Problem) -> int:
    """How many rows have a larger ratio than any draw: the test weight may then be too small."""
    if not problem.has_draws:
        return 0
    highest = problem.draws.scores.highest_ratio + SAME_SCORE_TOLERANCE
    return int(np.sum(problem.log_ratio > highest))


def find_warnings(
    found: Calibration, problem: Problem | ProblemInParts, measured: Diagnostics
) -> Iterator[str]:
    """What a careful reader would want to know before deploying."""
    if found.approximate is not None:
        yield found.approximate
    yield from found.log_warnings
    yield from (each for each in found.refuted_by if each not in found.log_warnings)
    if not found.exists and (hopeless := _safe_above(found, measured)) is not None:
        yield hopeless
    elif found.refuted_by:
        pass  # which is said above: neither rows nor draws mend such a log
    elif not found.exists and (advice := _too_few_draws(found, problem)) is not None:
        yield advice
    elif not found.exists and found.asked_promise is not None and found.confidence is None:
        yield (
            f"no beta has a promise of at most {_asked(found):.4g}: serve the safe policy only, "
            f"collect rows (tether.plan says how many), or ask for a larger promise"
        )
    elif not found.exists and found.confidence is not None:
        yield (
            f"no beta is certified with confidence {found.confidence:g}: serve the safe policy "
            f"only, collect rows (tether.plan with this confidence says how many), or ask for more"
        )
    elif not found.exists:
        yield (
            f"no beta passes: even the safe policy's calibrated risk is {found.risk:.4g}, above "
            f"alpha = {found.alpha:g}; serve the safe policy only, collect rows, or raise alpha"
        )
    elif not found.useful:
        yield why_not_useful(found)
    if found.useful and np.isfinite(found.log_beta):
        changed = measured.changed(found)
        if changed is not None and changed < HARDLY_CHANGED:
            yield (
                f"{HARDLY_CHANGED_WORDS}: {100 * changed:.2g} % of the decisions change at this "
                f"beta. Collect rows, or ask for a larger promise, to use more of the optimized "
                f"policy"
            )
    if found.useful and (cost := _reward_lost(found)) is not None:
        yield cost
    if found.exists and found.confidence is None:
        yield from _near_alpha(found, measured)
    if problem.blend:
        yield (
            f"the optimized policy never takes some actions of the safe one: {problem.blend:.3g} "
            f"of the safe policy is blended into it, in the calibration and when it is served"
        )
    analytic = problem.test_weight.label == "analytic"
    if not problem.has_draws and analytic:
        yield "without proposals the test point has the analytic weight, the largest possible"
    heavier = measured.heavier_rows()
    if heavier and not analytic and found.confidence is None:
        yield (
            f"{heavier} row(s) of the log have a larger weight than the test point, which should "
            f"have the largest: draw more proposals from the optimized policy, or pass a larger "
            f"test_weight"
        )
    weight = problem.test_weight
    if isinstance(weight, PathWeight) and weight.fewest_draws < MIN_DRAWS_PER_LEVEL:
        yield (
            f"some betas have only {weight.fewest_draws} draws of their own policy: the next "
            f"action weighs more than the condition allows with a probability of up to "
            f"{1 / (weight.fewest_draws + 1):.2g}; make more draws, in as many rows of contexts"
        )
    if found.outside_share:
        yield (
            f"{RESTRICTED_WORDS}: {found.outside_share:.1%} of the optimized "
            f"policy's decisions are actions that the safe policy never takes{_outside(problem)}, "
            f"and no tethered policy takes them either, not even at an infinite beta"
        )
    if np.isinf(found.log_beta) and found.exists and (soft := _soft_pick(measured)) is not None:
        yield soft
    if isinstance(problem, Problem) and problem.solver is search and not certified(problem):
        yield (
            f"family {found.family!r} states no smoothness: the betas between those that the "
            f"search examined are not certified"
        )
    if found.exists and found.effective_sample_size < MIN_EFFECTIVE_ROWS:
        yield (
            f"the effective sample size is {found.effective_sample_size:.1f}: beta rests on few "
            f"rows"
        )
    said = any(HIGH_RATIO_WORDS in each for each in found.refuted_by)
    for suspicion in measured.score_warnings():
        if not said or HIGH_RATIO_WORDS not in suspicion:
            yield suspicion


def _reward_lost(found: Calibration) -> str | None:
    """The tethered policy earns less than the safe one, beyond the interval of the estimate."""
    gain = found.saved_gain
    if gain is None or gain.reward is None:
        return None
    gained = gain.reward.difference
    if gained.upper is None or gained.upper >= 0:
        return None
    return (
        f"{REWARD_LOST_WORDS}: the reward gained is {gained}. The losses allow it, and nothing "
        f"speaks for it: keep the safe policy, or improve the optimized one"
    )


def _more_draws(found: Calibration) -> str:
    """What few draws add, where it is more than all else."""
    terms = found.promise_terms[found.binding.name]
    if terms.unforeseen <= terms.added / 2:
        return ""
    return f"actions that no draw foresees add {terms.unforeseen:.2g}: make more proposals, "


def _too_few_draws(found: Calibration, problem: Problem | ProblemInParts) -> str | None:
    """A promise that the draws do not allow at any alpha, so that rows do not help."""
    draws, asked = foreseeing_draws(problem), found.asked_promise
    if draws is None or asked is None:
        return None
    for each in found.constraints:
        least = unforeseen_term(1 / (draws + 1), found.rows, 0.0, each.bound)
        if least >= asked[each.name]:
            needed = int(each.bound / asked[each.name])
            return (
                f"no beta can have a promise of at most {asked[each.name]:.4g}{_named(found, each)}"
                f": with {draws} draws of each policy, actions that no draw foresees "
                f"may add {least:.2g}; make several times as many as {needed:,} draws"
            )
    return None


def _safe_above(found: Calibration, measured: Diagnostics) -> str | None:
    """The safe policy itself is above what was asked for, so that more rows do not help."""
    for each in found.constraints:
        safe = measured.safe_mean(each)
        asked = each.alpha if found.asked_promise is None else found.asked_promise[each.name]
        if within_limit(safe.mean, asked):
            continue
        clearly = safe.mean - NEAR_STANDARD_ERRORS * safe.standard_error > asked
        text = (
            f"no beta passes: the safe policy's own mean loss{_named(found, each)} is "
            f"{safe.mean:.4g} ± {safe.standard_error:.2g}, above {asked:.4g}: more rows will "
            f"{'not help' if clearly else 'help only if this is chance'}. What is asked for must "
            f"hold at every beta up to the one that is served, and 0 is the safe policy: from this "
            f"safe policy {asked:.4g} cannot be promised, however safe the optimized one is"
            f"{f', and {SAFE_ABOVE_WORDS}' if clearly else ''}. First make the safe policy safer "
            f"(a filter, a lower temperature, without the actions that do most harm) and log it, "
            f"or ask for more than its own loss. Were missing outcomes counted as the worst case? "
            f"Then they are part of this mean: find those outcomes"
        )
        if not within_limit(safe.mean, each.bound / 2):
            text += f". Is {each.bound:g} the harm, and 0 the good outcome?"
        return text
    return None


def _named(found: Calibration, constraint: Constraint) -> str:
    return f" of {constraint.name!r}" if len(found.constraints) > 1 else ""


def why_not_useful(found: Calibration) -> str:
    """Why a beta that passes has no useful promise."""
    if found.refuted_by:
        return str(found.refuted_by[0])  # plain text, which a store takes
    if not found.covered:
        return not_covered(found)
    return (
        f"no useful promise: the expected loss is promised to be at most {found.promise:.4g}, "
        f"where {_asked(found):.4g} was asked for and no loss exceeds {found.bound:g}; "
        f"{_more_draws(found)}collect rows (tether.plan says how many), or ask for a larger promise"
    )


def not_covered(found: Calibration) -> str:
    """Why the log does not contain what the tethered policy does, in words."""
    return (
        f"nothing useful is promised: the log contains only {found.coverage:.1%} of what "
        f"{found.covered_policy} does (by chance at most {found.coverage_limit:.1%}), and nothing "
        f"is known of the losses of the rest. The policy that took the actions never takes some of "
        f"them, rows are missing, or the probabilities (propensities, min_propensity, max_ratio) "
        f"are not those with which the actions were taken"
    )


def _outside(problem: Problem | ProblemInParts) -> str:
    """The names of the actions that only the optimized policy takes, if the log has them."""
    log = problem.given_log if isinstance(problem, Problem) else None
    names = None if log is None or log.scored_by is None else log.scored_by.actions
    if log is None or names is None or log.log_safe_all is None or log.log_optimized_all is None:
        return ""
    never = np.isneginf(log.log_safe_all).all(axis=0) & (log.log_optimized_all > -np.inf).any(0)
    return f" ({few(names[never])})" if never.any() else ""


def _soft_pick(measured: Diagnostics) -> str | None:
    """What an infinite beta picks of a shortlist: by its temperature, not the best candidate."""
    found = measured.likeliest_pick()
    if found is None or found[1] > SHARPEST_SOFT_PICK:
        return None
    size, best = found
    return (
        f"beta = inf is the soft pick at the temperature of this shortlist, not the best of "
        f"{size}: its likeliest candidate is picked with probability {best:.2g} on average "
        f"({1 / size:.2g} by chance). A lower temperature is another optimized policy, to be "
        f"calibrated anew"
    )


def _asked(found: Calibration) -> float:
    """The promise, or the alpha, that was asked for."""
    asked = found.asked_promise
    return found.alpha if asked is None else asked[found.binding.name]


def _near_alpha(found: Calibration, measured: Diagnostics) -> Iterator[str]:
    """The safe policy itself may not pass on another log."""
    for each in found.constraints:
        safe = measured.safe_mean(each)
        if safe.near(each.alpha):
            yield (
                f"the safe policy's own mean loss is {safe.mean:.4g} ± {safe.standard_error:.2g}, "
                f"close to alpha = {each.alpha:.4g}: on some logs no beta passes, and the promise "
                f"includes {safe.excess_where_passing(each.alpha):.2g} for them"
            )
