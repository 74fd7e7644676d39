"""What to do about a share of 0 that the rows of the old system cause."""

from __future__ import annotations

from tether.release.old_rows_needed import EXPECTED_PART, enough_old_rows
from tether.release.ramp_result import GuardrailShare, RampShare
from tether.rounds.releases.missing_outcomes import share_if_harmless


def closed_share_advice(found: RampShare, *, outcomes_may_come: bool = False) -> str:
    """What to do where the old system alone does not pass; empty where that is not the reason.

    In expectation a release keeps the rows of the old system that it began with; with a confidence
    later ones count too. `outcomes_may_come` says whether those rows are of the first step, whose
    missing outcomes count as soon as they have arrived, and not of a log.
    """
    closed = [each for each in found.guardrails.values() if each.share == 0 and each.old.rows]
    if found.share > 0 or not closed:
        return ""
    each = closed[0]
    mean, tolerated = _mean(each), each.guardrail.tolerated
    if mean is not None and mean > each.guardrail.bound / 2:
        return (
            f"the mean of the old losses is {mean:.3g}, of at most {each.guardrail.bound:g}: are "
            f"losses inverted? The harm has the larger loss. This release cannot go on: begin in "
            f"another store"
        )
    if mean is not None and mean >= tolerated:
        return (
            f"the mean of the old losses is {mean:.3g} itself, so that more rows alone will hardly "
            f"help, and this release cannot go on: tolerate more, in another store"
        )
    if each.old.pending and outcomes_may_come and share_if_harmless(found) > 0:
        return (
            f"{each.old.pending:,} of the {each.old.rows:,} rows of the old system have no outcome "
            f"yet. Report them to this release: the next step counts those that have arrived by "
            f"then"
        )
    if found.confidence is not None:
        return "more rows of the old system are needed; those of this release count too"
    return (
        f"more rows of the old system are needed, in another store: a release keeps those that it "
        f"began with{_how_many(each, mean)}"
    )


def _how_many(each: GuardrailShare, mean: float | None) -> str:
    """How many rows are likely to be enough; empty if more than anybody has."""
    risk = mean or EXPECTED_PART * each.guardrail.tolerated
    rows = enough_old_rows(each.guardrail, risk)
    if rows is None:
        return ""
    return f". If its risk is {risk:.3g}, {rows:,} rows pass with a probability of 95 %"


def _mean(each: GuardrailShare) -> float | None:
    """The mean of the old losses that are known, if any are."""
    known = each.old.rows - each.old.pending
    return each.old.total / known if known else None
