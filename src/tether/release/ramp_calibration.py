"""From the rows of both systems to the share of the new one, with what is promised for it.

Let ρ be the old system's bound from rows that were chosen without their losses, and let the new
system's rows be those of a calibration window (`calibration_window`). Write R₀ and R₁ for the
risks. A share s that depends on the rows has the risk (1 − s)·R₀ + s·R₁.

**Theorem.** If E[s | ρ] ≤ (α − ρ)/(R₁ − ρ) wherever ρ < α < R₁, and s = 0 wherever ρ ≥ α, then

    E[(1 − s)·R₀ + s·R₁]  ≤  α + E[(ρ − α)₊].

Proof. If R₁ ≤ R₀, the risk is at most R₀ ≤ E[ρ] ≤ α + E[(ρ − α)₊]. If R₀ < R₁ ≤ α it is at most α.
Otherwise let f(ρ) be (α − ρ)/(R₁ − ρ) below alpha and 0 from there on, and g = 1 − f. For ρ < α,
f·(R₁ − ρ) = α − ρ gives R₀ + (R₁ − R₀)·f = α + (R₀ − ρ)·g. For ρ ≥ α the risk is R₀ and g = 1. So
the expectation is at most E[α; ρ < α] + E[(R₀ − ρ)·g] + E[ρ; ρ ≥ α]. The middle term is at most
E[R₀ − ρ]·E[g] ≤ 0, because g does not fall where ρ rises and E[ρ] ≥ R₀. ∎

The exact share (`share_formulas`) meets the condition, so with `promise=` nothing but the existence
term E[(ρ − α)₊] is added. With `alpha=` the calibrated share is used, which is larger and reaches
the new system sooner. It may break the condition: E[s | ρ] ≤ f(ρ) + e with R₁·e ≤ the stability
term (`stability`), for all losses in [0, B]. In the proof this adds (R₁ − R₀)·e ≤ R₁·e, so the
stability term, in expectation, is what is added to the theorem's bound.

The expectations are over all logs, those included on which the share is 0 and nothing is promised.

**With a confidence** the bounds hold for both systems and all guardrails, at all times at once,
with that probability (`risk_bounds`). Where they hold, so does (1 − s)·R₀ + s·R₁ ≤ α at every step.

Several guardrails: the share is the smallest of theirs, and every promise holds for it: a smaller
share that depends on the rows still has E[s] ≤ (α − ρ)/(R₁ − ρ).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tether._core.arrays import within_limit
from tether._core.validate import number
from tether.release.arm_counts import ArmCounts
from tether.release.guardrail import Guardrail
from tether.release.old_rows_text import too_many_losses
from tether.release.promise_alpha import alpha_of_promise, existence_term
from tether.release.ramp_result import GuardrailShare, RampShare
from tether.release.risk_bounds import anytime_bound, expected_bound
from tether.release.share_formulas import calibrated_share, exact_share
from tether.release.stability import worst_excess

NO_OLD_ROWS = "there are no rows of the old system"
"""Why the share is 0 before anything is known of the old system."""


def ramp_share(
    guardrails: Mapping[str, Guardrail],
    *,
    old: Mapping[str, ArmCounts],
    new: Mapping[str, ArmCounts],
    confidence: float | None = None,
) -> RampShare:
    """Compute the new system's share of the keys in the next step.

    Promised: the expected loss of a key in the next step is at most the stated promise, in
    expectation over the rows or, with `confidence`, with that probability at all steps at once.
    Assumed: keys are alike (independent draws from one population), which system answers a key does
    not depend on its losses, losses lie in [0, bound] and keep their distribution until the end of
    the next step. Without a confidence also: `old` has rows whose number was fixed without looking
    at losses, and `new` the rows of a calibration window.

    Parameters
    ----------
    guardrails : mapping of str to Guardrail
        The losses with their tolerances.
    old : mapping of str to ArmCounts
        The rows of the old system, for each guardrail.
    new : mapping of str to ArmCounts
        The rows of the new system, for each guardrail; no rows at the start.
    confidence : float, optional
        Promise alpha with this probability at all steps simultaneously, from all rows so far.

    Returns
    -------
    RampShare
        The share, what each guardrail allows, and the promise.

    Raises
    ------
    ValueError
        If there is no guardrail, rows of one are missing, a sum is larger than its bound allows, or
        a confidence is combined with a promise.

    Examples
    --------
    >>> start = ramp_share(
    ...     {"complaint": Guardrail(0.02)},
    ...     old={"complaint": ArmCounts(2000, 20.0)},
    ...     new={"complaint": ArmCounts(0, 0.0)},
    ... )
    >>> round(start.share, 4)
    0.0096
    """
    if not guardrails:
        raise ValueError("guardrails is empty: name at least one loss with its alpha")
    for side, counts in (("old", old), ("new", new)):
        if set(counts) != set(guardrails):
            raise ValueError(
                f"{side} must have rows for the guardrails {sorted(guardrails)}, got "
                f"{sorted(counts)}"
            )
    if confidence is None:
        found = {
            name: _in_expectation(each, old[name], new[name]) for name, each in guardrails.items()
        }
    else:
        error = (1 - number("confidence", confidence, above=0, below=1)) / (2 * len(guardrails))
        found = {
            name: _at_all_times(name, each, old[name], new[name], error)
            for name, each in guardrails.items()
        }
    binding = binding_guardrail(found)
    result = RampShare(
        found[binding].share, found, binding, reason_of_zero(found, confidence), confidence
    )
    _check(result)
    return result


def _in_expectation(guardrail: Guardrail, old: ArmCounts, new: ArmCounts) -> GuardrailShare:
    bound = guardrail.bound
    old_total, new_total = old.worst_total(bound), new.worst_total(bound)
    old_bound = float(expected_bound(np.array(old.rows), np.array(old_total), bound))
    new_bound = float(expected_bound(np.array(new.rows), np.array(new_total), bound))
    alpha = guardrail.alpha
    if alpha is None:
        alpha = alpha_of_promise(guardrail, old_bound, old.rows)
    if guardrail.promise is None:
        share = float(calibrated_share(np.array(old_bound), np.array(new_bound), np.array(alpha)))
        stability = worst_excess(new.rows, old_bound, alpha, bound)
    else:
        counts = np.array(new.rows), np.array(new_total)
        share = float(exact_share(*counts, np.array(old_bound), np.array(alpha), bound))
        stability = 0.0
    existence = existence_term(old_bound, old.rows, bound, alpha)
    return GuardrailShare(
        guardrail, old, new, old_bound, new_bound, alpha, share, stability, existence
    )


def _at_all_times(
    name: str, guardrail: Guardrail, old: ArmCounts, new: ArmCounts, error: float
) -> GuardrailShare:
    if guardrail.alpha is None:
        raise ValueError(
            f"guardrails[{name!r}] has a promise: with a confidence alpha itself is promised, so "
            "name alpha"
        )
    alpha, bound = guardrail.alpha, guardrail.bound
    old_bound, new_bound = (
        float(
            anytime_bound(np.array(arm.rows), np.array(arm.worst_total(bound)), bound, alpha, error)
        )
        for arm in (old, new)
    )
    share = 1.0
    if new_bound > alpha:  # else the old system's bound does not matter
        share = float(calibrated_share(np.array(old_bound), np.array(new_bound), np.array(alpha)))
    return GuardrailShare(guardrail, old, new, old_bound, new_bound, alpha, share, 0.0, 0.0)


def binding_guardrail(found: Mapping[str, GuardrailShare]) -> str:
    """The guardrail that allows the least; the first of several."""
    return min(found, key=lambda name: found[name].share)


def reason_of_zero(found: Mapping[str, GuardrailShare], confidence: float | None) -> str:
    """Why the share is 0, in words."""
    closed = [name for name, each in found.items() if each.share == 0]
    if not closed:
        return ""
    each = found[closed[0]]
    if not each.old.rows:
        return NO_OLD_ROWS
    fails = f"the old system alone does not pass for {closed[0]}"
    if confidence is None:
        return f"{fails}: {too_many_losses(each.guardrail, each.old)}"
    return (
        f"{fails}: the {confidence:g} upper bound on its risk is {each.old_bound:.4g} from "
        f"{each.old.rows:,} rows{each.old.missing_text(each.guardrail.bound)}, and alpha is "
        f"{each.alpha:.4g}"
    )


def _check(result: RampShare) -> None:
    """Recompute the calibrated risk of what is returned; a share that does not pass is refused."""
    for name, each in result.guardrails.items():
        if result.share == 0:
            continue
        risk = each.calibrated_risk(result.share)
        if not (0 <= result.share <= each.share and within_limit(risk, each.alpha)):
            raise RuntimeError(
                f"the share {result.share!r} has a calibrated risk of {risk!r} for {name}, above "
                f"alpha {each.alpha!r}; please report this"
            )
