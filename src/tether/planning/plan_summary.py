"""A plan in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tether._core.columns import Columns, cells_or_none
from tether._core.description import Description
from tether.control.refuted_log import REFUTED_WORDS
from tether.planning.log_verdict import beta_in_words

if TYPE_CHECKING:
    from tether.planning.plan_result import Plan


def describe_plan(made: Plan) -> Description:
    """What was assumed, the rows, and what each size of a log would allow."""
    what, level = ("alpha", made.alpha) if made.promise is None else ("promise", made.promise)
    largest = "" if made.max_ratio is None else f", and ratios of at most {made.max_ratio:.4g}"
    sure = confidence_in_words(made)
    given = (
        ("family", made.family),
        (
            "tolerated",
            f"{what} {level:g}{confidence_in_words(made)}, of losses up to {made.bound:g}",
        ),
        (
            "assumed",
            f"an expected loss of {made.safe_risk:g} for the safe policy and "
            f"{made.optimized_risk:g} for the optimized one; log ratios of the two with a "
            f"standard deviation of {made.log_ratio_spread:g}{largest}",
        ),
    )
    if not made.possible:
        why = "alpha" if made.promise is None else "the promise"
        text = f"no number of rows is enough: the safe policy's risk is not below {why}"
        return Description(text, "stop", given)
    needed = f"at least about {made.rows_needed:,} rows before any beta can pass"
    if made.confidence is not None:
        needed = (
            f"about {made.rows_needed:,} rows to certify this {what}, if their mean loss is the "
            f"safe risk"
        )
    elif made.promise is not None:
        needed = (
            f"about {made.rows_needed:,} rows to state this promise, if their mean loss is the "
            f"safe risk"
        )
    likely = f"{made.rows_likely:,} rows pass with probability {made.pass_probability:g}"
    rows = f"{needed}; {likely}"
    headline = f"plan: {made.rows_likely:,} rows of the safe policy{sure}"
    if made.beta_of_log:
        headline = f"plan: the {made.log_rows:,} rows of this log pass already"
    if made.refuted_by:
        headline = f"no plan: {REFUTED_WORDS}, and nothing can be measured from it"
    return Description(
        headline,
        "stop" if made.refuted_by else "good",
        (*given, *_of_log(made), ("rows", rows)),
        caption=f"what to expect of a log of so many rows (beta of the family {made.family}):",
        table=_table(made),
        warnings=made.refuted_by,
        notes=tuple(_limits(made)),
    )


def _table(made: Plan) -> Columns:
    """What each size allows; without a beta there is no promise either."""
    table = made.to_frame()
    passes = table["beta"] > 0
    for name in ("beta", "promise") if not passes.all() else ():
        table[name] = cells_or_none(table[name], passes)
    return table


def confidence_in_words(made: Plan) -> str:
    """The confidence that was asked for, to follow what was tolerated; nothing if none was."""
    return "" if made.confidence is None else f" with confidence {made.confidence:g}"


def _limits(made: Plan) -> Iterator[str]:
    """What the plan does not know."""
    yield "a plan is an expectation under a simple model, not a promise"
    if made.log_rows and made.safe_risk == 0:
        likely = min(3 / made.log_rows, 1.0) * made.bound
        yield (
            f"no row of this log has a loss; a safe risk of up to {likely:.2g} would not be "
            f"unusual, and needs more rows"
        )
    if made.not_modelled is not None:
        yield made.not_modelled


def _of_log(made: Plan) -> Iterator[tuple[str, str]]:
    """What the log that was measured allows, and what any number of rows would."""
    if made.beta_of_log is not None:
        found = f"{made.log_rows:,} rows allow {beta_in_words(made.beta_of_log, made.family)}"
        if not made.beta_of_log:
            found = f"{made.log_rows:,} rows do not pass"
        yield "this log", found
    if made.beta_limit is not None:
        yield (
            "more rows",
            f"any number of them allows at most {beta_in_words(made.beta_limit, made.family)}",
        )
