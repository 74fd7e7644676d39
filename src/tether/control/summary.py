"""A calibration in words: what printing it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether._core.description import Description
from tether.control.calibration_warnings import SAFE_ABOVE_WORDS
from tether.control.diagnostics import RISK_TOLERANCE
from tether.control.promise import ASSUMPTIONS, NearestPromise, PromiseTerms
from tether.control.refuted_log import REFUTED_WORDS

if TYPE_CHECKING:
    from tether.control.calibration import Calibration
    from tether.control.constraint import Constraint


def describe_calibration(found: Calibration) -> Description:
    """Beta, the promise and what they rest on, each number with what it counts."""
    facts = []
    several = len(found.constraints) > 1
    for constraint in found.constraints:
        promise, risk = ("promise", "risk")
        if several:
            promise, risk = f"promise on {constraint.name}", f"risk of {constraint.name}"
        limited = several and constraint is found.binding and found.log_beta < np.inf
        limits = "; limits beta" if limited else ""
        facts.append((promise, f"{_promise(found, constraint)}{limits}"))
        if found.exists and not found.refuted_by and found.confidence is None:
            terms = found.promise_terms[constraint.name]
            facts.append(("made of", terms_in_words(terms)))
        elif found.nearest is not None:
            facts.append(("would be made of", _nearest(found.nearest, constraint)))
        facts.append((risk, _risk(found, constraint)))
    if found.optimized_share is not None:
        share = f"{100 * found.optimized_share:.4g} % of the decisions are the optimized policy's"
        facts.append(("traffic", f"{share}, at random; the others are the safe policy's"))
    facts += [
        *_stability_facts(found),
        ("log", f"{found.rows:,} rows, {'' if found.contextual else 'no '}contexts"),
        (
            "effective sample size",
            f"{found.effective_sample_size:,.1f} of {found.rows:,}: how many equally weighted rows "
            "the log is worth at this beta",
        ),
        (
            "largest weight",
            f"{found.max_weight:.3g} of the total; the weight of the next action is "
            f"{_test_weight(found)}",
        ),
    ]
    if found.blend:
        facts.append(("blend", f"{found.blend:.3g} of the optimized policy is the safe one"))
    if found.actions is not None:
        facts.append(("actions", f"{found.actions:,} in each context, drawn without rejection"))
    elif found.exists and np.isfinite(found.acceptance) and found.optimized_share is None:
        draws, share = "", f"{found.acceptance:.3g} of the draws are accepted"
        if found.acceptance > 1 - RISK_TOLERANCE:
            share = "every draw is accepted"
        elif found.family.startswith(("clip", "budgeted_clip")) and found.acceptance > 0:
            draws = f": {1 / found.acceptance:.3g} draws per action"
        facts.append(("acceptance", f"{share}{draws}"))
    return Description(
        headline=_headline(found),
        tone="good" if found.useful else "caution" if found.exists else "stop",
        facts=(*facts, *_gain_facts(found)),
        warnings=found.warnings,
        notes=(f"assumed: {ASSUMPTIONS}",),
    )


def write_statement(found: Calibration) -> str:
    """The promise in one sentence."""
    if not found.exists:
        return "none: no beta passes, so only the safe policy is served"
    if found.refuted_by:
        return f"none: {REFUTED_WORDS}"
    statement = f"{_expected_loss(found)} of the next action is at most {found.promise:.4g}"
    if len(found.promises) > 1:
        each = ", ".join(f"{name} {value:.4g}" for name, value in found.promises.items())
        statement = f"the expected losses of the next action are at most {each}"
    if found.approximate is not None:
        statement = f"approximately, {statement}"
    if found.confidence is not None:
        statement = f"with probability at least {found.confidence:g} over logs, {statement}"
    return statement if found.useful else f"no useful promise: {statement}"


def _expected_loss(found: Calibration) -> str:
    """Which expectation is promised: a single loss that was given by name has its name here."""
    name = found.constraints[0].name
    named = "" if len(found.constraints) > 1 or name == "loss" else f" ({name})"
    return f"the expected loss{named}"


def _headline(found: Calibration) -> str:
    family = f"(family {found.family})"
    if not found.exists:
        if any(SAFE_ABOVE_WORDS in each for each in found.warnings):
            return f"beta = 0: no promise, and {SAFE_ABOVE_WORDS} {family}"
        return f"beta = 0: serve the safe policy only {family}"
    if found.refuted_by:
        return f"beta = {found.beta:.4g}: {REFUTED_WORDS}; serve the safe policy {family}"
    if not found.covered:
        return f"beta = {found.beta:.4g}: the log does not contain what this policy does {family}"
    if np.isinf(found.log_beta):
        return f"beta = inf: {_passes(found)} {family}"
    size = f"{found.beta:.4g}" if abs(found.log_beta) < 300 else f"exp({found.log_beta:.6g})"
    return f"beta = {size} {family}: 0 is the safe policy, inf the optimized one"


def _passes(found: Calibration) -> str:
    """What passes at an infinite beta."""
    policy = "the blend" if found.blend else "the optimized policy"
    if found.outside_share:
        return f"{policy} passes, restricted to the safe policy's actions"
    return f"{policy} passes{'' if found.blend else ' as it is'}"


def _promise(found: Calibration, constraint: Constraint) -> str:
    """The promise on one loss."""
    if not found.exists:
        return "none"
    if found.refuted_by:
        return f"none: {REFUTED_WORDS}"
    bound = f"{found.promises[constraint.name]:.4g}"
    text = f"{_expected_loss(found)} of the next action is at most {bound}"
    if found.confidence is not None:
        text = f"{text}, with probability {found.confidence:g} over logs"
    elif found.asked_promise is not None:
        text = f"{text} (asked for: {found.asked_promise[constraint.name]:g})"
    return text if found.useful else f"no useful promise: {text}"


def _nearest(nearest: NearestPromise, constraint: Constraint) -> str:
    """The terms of a promise that is too large, at the alpha that comes nearest."""
    terms = nearest.terms[constraint.name]
    return (
        f"{terms_in_words(terms)} = {terms.total:.4g}, which does not pass: the smallest promise "
        f"that was found, at beta = {np.exp(nearest.log_beta):.4g}, and {constraint.alpha:.4g} was "
        f"asked for"
    )


def terms_in_words(terms: PromiseTerms) -> str:
    """The terms of a promise, with what each is for."""
    excess = 0.0 if terms.safe_excess < 1e-6 * terms.alpha else terms.safe_excess
    text = (
        f"{terms.alpha:.4g} (alpha) + {terms.stability:.2g} (stability: beta was chosen on this "
        f"log) + {excess:.2g} (safe excess: on some other logs no beta would pass)"
    )
    if terms.unforeseen:
        text += f" + {terms.unforeseen:.2g} (actions that no draw foresees)"
    return text


def _risk(found: Calibration, constraint: Constraint) -> str:
    """The calibrated risk beside what may be, and the scale of the loss."""
    risk = found.risks[constraint.name]
    limit = "at most" if risk <= constraint.alpha else "above"
    return (
        f"{risk:.4g}, {limit} alpha = {constraint.alpha:.4g}: the mean "
        f"loss of the log, weighted for this beta, with the next action at the worst loss, "
        f"{constraint.bound:g}"
    )


def _stability_facts(found: Calibration) -> list[tuple[str, str]]:
    """How far the result is from changing: with the log, and with the weights."""
    if not found.exists:
        return []
    facts = []
    if found.confidence is None:
        moved = "how much the policy changes, on average, when one row is left out"
        facts.append(("stability", f"{found.stability:.3g}: {moved}"))
    wrong = "each weight may be wrong by this factor, and a beta still passes"
    robust = f"{found.robustness:.3g}: {wrong}"
    if found.ratio_error > 1:
        robust += f"; {found.ratio_error:.6g} is allowed for"
    return [*facts, ("robustness", robust)]


def _test_weight(found: Calibration) -> str:
    drawn = "of the proposals" if found.actions is None else "of all actions in the tables"
    named = {
        "empirical": f"the largest {drawn} (test weight empirical)",
        "analytic": "the largest possible (test weight analytic)",
        "max_ratio": "the largest that the stated min_propensity or max_ratio allows",
    }
    if isinstance(found.test_weight, str):
        return named.get(found.test_weight, found.test_weight)
    return f"the one that was passed (test weight {found.test_weight:g})"


def _gain_facts(found: Calibration) -> list[tuple[str, str]]:
    """What is gained, if the log has rewards, and what changes; `tether.gain` says more."""
    gain = found.saved_gain
    if gain is None:
        return []
    changed = ("decisions that change", str(gain.changed))
    if gain.reward is None:
        return [changed]
    return [
        ("reward, tethered", str(gain.reward.tethered)),
        ("reward, gained", str(gain.reward.difference)),
        changed,
    ]
