"""What `tether status` shows of the rounds of a run that ramps its policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from tether._core.visible_text import visible
from tether.cli.status_text import INTERVAL_HEADING, estimate_text, plain_text

if TYPE_CHECKING:
    from tether.rounds.history import History, RoundRecord


def ramp_family_text(history: History) -> str:
    """How its steps end, for the title."""
    length = history.actions_per_step
    return "ramp, steps: " + ("by hand" if length is None else f"{length:,} actions")


def ramp_table(history: History) -> Table:
    """The rounds with their shares; of the losses those of all rows, and of the policy's own."""
    several = len(history.limits) > 1
    headings = ["round", "policy", "share", "promise", "actions", "of the policy", "losses"]
    for name in history.limits:
        headings += [f"mean {name}" if several else "mean loss", INTERVAL_HEADING, "of the policy"]
    table = Table(*map(visible, [*headings, "why"]), box=None, pad_edge=False)
    for record in history.rounds:
        above_alpha = any(
            loss.lower > history.limits[name].alpha for name, loss in record.losses.items()
        )
        cells = map(plain_text, _cells(history, record))
        table.add_row(*cells, style="red" if above_alpha else None)
    return table


def plain_ramp_round(record: RoundRecord) -> dict[str, Any]:
    """What the JSON of a round has instead of a beta and a calibration."""
    share = record.ramp_share
    return {
        "share": record.share,
        "why": record.why,
        "ramp_share": None if share is None else share.to_dict(),
    }


def _cells(history: History, record: RoundRecord) -> list[str]:
    share = record.ramp_share
    promise = ""
    if share is not None:
        stated = share.promises
        promise = ", ".join(f"{stated[name]:.3g}" for name in history.limits)
        promise = "none" if share.reason else promise
    cells = [str(record.number), record.policy or "safe", f"{record.share:.3%}", promise]
    cells += [f"{record.rows:,}", f"{record.policy_rows:,}", f"{record.observed:,}"]
    for name in history.limits:
        cells += estimate_text(record.losses.get(name))
        cells.append(estimate_text(record.policy_losses.get(name))[0])
    return [*cells, record.why]
