"""The table of the demonstration: one row per policy and tolerated number of missed cancers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tether.demo.biopsy_outcomes import Outcome

TABLE_WIDTH = 100
TABLE_COLUMNS = (
    "policy",
    "tolerated",
    "cancers missed",
    "needless biopsies avoided",
    "stated promise",
)


def print_table(outcomes: list[Outcome], splits: int, show: Callable[[str], object]) -> None:
    """Show one row per policy and alpha, with rich if it is installed."""
    title = f"Of 100 patients, over {splits} random splits (± one standard error; median promise)"
    rows = [_table_row(outcome) for outcome in outcomes]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        show(title)
        for row in (TABLE_COLUMNS, *rows):
            show("{:<16} {:>9}  {:<22} {:<26} {}".format(*row))
        return
    table = Table(*TABLE_COLUMNS, title=title, title_justify="left")
    alpha_above = outcomes[0].alpha
    for outcome, row in zip(outcomes, rows, strict=True):
        if outcome.alpha != alpha_above:
            table.add_section()
        table.add_row(*row, style="red" if outcome.exceeds_alpha else None)
        alpha_above = outcome.alpha
    console = Console(width=TABLE_WIDTH)
    with console.capture() as captured:
        console.print(table)
    show(captured.get().rstrip())


def _table_row(outcome: Outcome) -> tuple[str, str, str, str, str]:
    missed, missed_error = outcome.mean_and_error(outcome.missed)
    avoided, avoided_error = outcome.mean_and_error(outcome.avoided)
    promise = float(np.median(outcome.promise))
    return (
        outcome.name,
        "" if outcome.alpha is None else f"{100 * outcome.alpha:g}",
        f"{missed:5.1f} ± {missed_error:.1f}{'  too many' if outcome.exceeds_alpha else ''}",
        f"{avoided:5.1f} ± {avoided_error:.1f}",
        "" if np.isnan(promise) else f"{promise:.1f}",
    )
