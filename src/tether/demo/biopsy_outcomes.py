"""What each policy of the demonstration led to, in a table and in two sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats

PROMISES = (0.05, 0.06, 0.08, 0.10)
FAMILIES = ("clip", "mix")
TABLE_WIDTH = 88


@dataclass(frozen=True)
class Outcome:
    """Missed cancers and avoided needless biopsies per hundred patients, in every split.

    `promise` is None for a policy that does not depend on it.
    """

    name: str
    promise: float | None
    missed: Floats
    avoided: Floats

    @staticmethod
    def mean_and_error(values: Floats) -> tuple[float, float]:
        """The mean over splits and its standard error."""
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))

    @property
    def exceeds_promise(self) -> bool:
        """Whether the missed cancers exceed the promise by more than two standard errors."""
        risk, error = self.mean_and_error(self.missed)
        return self.promise is not None and risk > 100 * self.promise + 2 * error


def summarize(outcomes: list[Outcome]) -> tuple[str, str]:
    """One sentence about the cancers missed, and one about the biopsies avoided."""
    by_name = {(outcome.name, outcome.promise): outcome for outcome in outcomes}
    exceeded = sum(by_name["naive threshold", promise].exceeds_promise for promise in PROMISES)
    kept = sum(
        not any(by_name[f"tether, {family}", promise].exceeds_promise for family in FAMILIES)
        for promise in PROMISES
    )
    safe = by_name["safe", None]
    lowest, highest = (by_name["tether, clip", PROMISES[i]] for i in (0, -1))
    missed = (
        f"The naive threshold looked safe on the patients it was tuned on, and misses clearly more "
        f"cancers than tolerated at {exceeded} of {len(PROMISES)} promises; tether keeps {kept} of "
        f"{len(PROMISES)}."
    )
    avoided = (
        f"The safe policy spares {safe.avoided.mean():.0f} in 100 a needless biopsy; tether (clip) "
        f"spares {lowest.avoided.mean():.0f} if {100 * PROMISES[0]:g} missed cancers in 100 are "
        f"tolerated, and {highest.avoided.mean():.0f} if {100 * PROMISES[-1]:g} are."
    )
    return missed, avoided


def print_table(outcomes: list[Outcome], splits: int, show: Callable[[str], object]) -> None:
    """Show one row per policy and promise, with rich if it is installed."""
    title = f"Of 100 patients, over {splits} random splits (± one standard error)"
    columns = ("policy", "promise", "cancers missed", "needless biopsies avoided")
    rows = [_table_row(outcome) for outcome in outcomes]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        show(title)
        for row in (columns, *rows):
            show("{:<16} {:>6}  {:<26} {}".format(*row))
        return
    table = Table(*columns, title=title, title_justify="left")
    promise_above = outcomes[0].promise
    for outcome, row in zip(outcomes, rows, strict=True):
        if outcome.promise != promise_above:
            table.add_section()
        table.add_row(*row, style="red" if outcome.exceeds_promise else None)
        promise_above = outcome.promise
    console = Console(width=TABLE_WIDTH)
    with console.capture() as captured:
        console.print(table)
    show(captured.get().rstrip())


def _table_row(outcome: Outcome) -> tuple[str, str, str, str]:
    missed, missed_error = outcome.mean_and_error(outcome.missed)
    avoided, avoided_error = outcome.mean_and_error(outcome.avoided)
    return (
        outcome.name,
        "" if outcome.promise is None else f"{100 * outcome.promise:g}",
        f"{missed:5.1f} ± {missed_error:.1f}{'  too many' if outcome.exceeds_promise else ''}",
        f"{avoided:5.1f} ± {avoided_error:.1f}",
    )
