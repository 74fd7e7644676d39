"""What `tether status` shows of the rounds of a run that aims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tether._core.visible_text import visible
from tether.cli.status_text import number_text, plain_text

if TYPE_CHECKING:
    from tether.rounds.history import History, RoundRecord


def aim_table(history: History) -> Table:
    """What each round chose, its predicted beside its realized loss, and what plain was allowed."""
    several = len(history.limits) > 1
    headings = ["round", "calibrated"]
    for name in history.limits:
        of = f" {name}" if several else ""
        headings += [f"predicted{of}", f"realized{of} ± se"]
    headings += [] if history.is_ramp else ["beta", "beta of plain"]
    table = Table(*map(visible, [*headings, "why"]), box=None, pad_edge=False)
    for record in history.rounds:
        if record.aim is not None:
            table.add_row(*map(plain_text, _cells(history, record)))
    return table


def _cells(history: History, record: RoundRecord) -> list[str]:
    aim = record.aim
    assert aim is not None
    cells = [str(record.number), aim.candidate]
    for name in history.limits:
        predicted, realized = aim.predicted.get(name), record.realized.get(name)
        cells.append("" if predicted is None else number_text(predicted))
        mean = ""
        if realized is not None:
            error = number_text(realized.standard_error, 2)
            mean = f"{number_text(realized.mean)} ± {error}"
        cells.append(mean)
    if not history.is_ramp:
        plain = "" if aim.plain_beta is None else number_text(aim.plain_beta)
        cells += [number_text(record.beta), plain]
    return [*cells, aim.why]
