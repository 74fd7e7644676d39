"""The words of the page where a release and a run of a controller have different ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

BAND = (
    "The band is a 95 % interval for the mean risk so far, however the risk changes, and wide "
    "while there are few losses. The alarm answers another question, whether the risk was ever "
    "above the dashed line, and may come while the band still reaches below it."
)
"""How the band and the alarm of a monitor go together."""


@dataclass(frozen=True)
class PageWords:
    """What things are called.

    Parameters
    ----------
    unit : str
        What it goes on in: "step" or "round".
    row : str
        What is counted: "key" or "action".
    old : str
        What may be served at any time, in a list of numbers.
    new : str
        What is tried, likewise.
    unit_title : str
        The heading of the number of the present unit.
    value_title : str
        The heading of the value in force.
    value_note : str
        What the value is of.
    value_prefix : str
        What stands before the value in the title of the tab.
    rate_title : str
        The heading of the rate.
    path_title : str
        The heading of the path of the value.
    path_note : str
        How the path is to be read.
    losses_title : str
        The heading of the losses.
    old_title : str
        The heading of the mean loss of `old`.
    new_title : str
        The heading of the mean loss of `new`.
    all_rows : str
        What the promise is of.
    monitor_title : str
        The heading of a monitor.
    monitor_text : str
        What its chart shows.
    monitored : str
        Whose losses it sees.
    means_title : str
        The heading of the means.
    means_text : str
        What their chart shows.
    means_of : str
        What they are of, after "Mean loss".
    recent_title : str
        The heading of the last rows.
    recent_text : str
        What they are.
    recent_columns : sequence of tuple of str
        Fields of the last rows with their headings.
    no_acts : str
        What is said before anybody has done anything.
    store_lost : str
        What happens while the store is unavailable.
    ends : str
        How a unit without a length ends.
    """

    unit: str
    row: str
    old: str
    new: str
    unit_title: str
    value_title: str
    value_note: str
    value_prefix: str
    rate_title: str
    path_title: str
    path_note: str
    losses_title: str
    old_title: str
    new_title: str
    all_rows: str
    monitor_title: str
    monitor_text: str
    monitored: str
    means_title: str
    means_text: str
    means_of: str
    recent_title: str
    recent_text: str
    recent_columns: Sequence[tuple[str, str]]
    no_acts: str
    store_lost: str
    ends: str


RELEASE_WORDS = PageWords(
    unit="step",
    row="key",
    old="old",
    new="new",
    unit_title="Step",
    value_title="Share of the new system",
    value_note="of the keys now",
    value_prefix="",
    rate_title="Decisions",
    path_title="Share of the keys that the new system answers",
    path_note="",
    losses_title="Guardrails",
    old_title="Old system",
    new_title="New system",
    all_rows="of all keys",
    monitor_title="Its monitor in this step",
    monitor_text=f"The mean loss of the new system and its confidence sequence. {BAND}",
    monitored="the new system",
    means_title="Both systems, step by step",
    means_text="Dots are the new system, rings the old one, each with a 95 % interval that is "
    "valid at all times; with an arrow where it goes beyond the chart.",
    means_of="of both systems by step",
    recent_title="Recent decisions",
    recent_text="Keys that a system answered for the first time, the latest batch first. The keys "
    "of a batch are stored together, by system and key, so that these few do not show the share.",
    recent_columns=(("key", "Key"), ("system", "System"), ("step", "Step")),
    no_acts="Nobody has halted, resumed or advanced.",
    store_lost="the old system answers",
    ends="ends by hand",
)
"""The words of a release."""

RUN_WORDS = PageWords(
    unit="round",
    row="action",
    old="safe",
    new="optimized",
    unit_title="Round",
    value_title="Beta",
    value_note="0 is the safe policy, ∞ the optimized one",
    value_prefix="beta ",
    rate_title="Actions",
    path_title="Beta over the rounds",
    path_note="0 is the safe policy, ∞ the optimized policy; the scale in between is logarithmic.",
    losses_title="Losses",
    old_title="Safe policy",
    new_title="Realized risk",
    all_rows="of all actions",
    monitor_title="Its monitor in this round",
    monitor_text="The mean loss of what the optimized policy of the round served, up to beta, and "
    f"its confidence sequence. {BAND}",
    monitored="the round's policy",
    means_title="Realized risk, round by round",
    means_text="Dots are rounds with an optimized policy, rings rounds of the safe policy alone, "
    "each with a 95 % interval that is valid at all times; with an arrow where it goes beyond the "
    "chart.",
    means_of="of what was served by round",
    recent_title="Recent actions",
    recent_text="Latest first; contexts and actions are shortened.",
    recent_columns=(
        ("id", "Id"),
        ("served", "Served by"),
        ("context", "Context"),
        ("action", "Action"),
    ),
    no_acts="Nobody has halted, resumed or begun a round.",
    store_lost="the safe policy acts, where the run may act without its store",
    ends="lasts until the next one begins",
)
"""The words of a run whose rounds have a beta."""

RAMP_WORDS = replace(
    RUN_WORDS,
    value_title="Share of the optimized policy",
    value_note="of the actions now",
    value_prefix="",
    path_title="Share of the actions that the optimized policy takes",
    path_note="",
    monitor_text=f"The mean loss of the optimized policy and its confidence sequence. {BAND}",
    monitored="the optimized policy",
    means_text="Dots are rounds with an optimized policy, over the actions of both policies; rings "
    "are rounds of the safe policy alone. Each has a 95 % interval that is valid at all times, "
    "with an arrow where it goes beyond the chart.",
)
"""The words of a run whose rounds have a share."""
