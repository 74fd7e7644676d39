"""Numbers, estimates and limits of a run as text in a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tether._core.visible_text import visible

if TYPE_CHECKING:
    from tether.rounds.history import Estimate
    from tether.rounds.limits import Limit


INTERVAL_HEADING = "95% interval"
"""What the intervals of mean losses are: confidence sequences, valid at all times."""


def limits_text(limits: Mapping[str, Limit]) -> str:
    """What is tolerated of each loss, out of what it can be at most."""
    several = len(limits) > 1
    return ", ".join(
        f"{name + ' ' if several else ''}{limit.alpha:g} (losses up to {limit.bound:g})"
        for name, limit in limits.items()
    )


def estimate_text(estimate: Estimate | None) -> tuple[str, str]:
    """A mean, and its interval; empty if there is none."""
    if estimate is None:
        return "", ""
    lower, upper = number_text(estimate.lower, 3), number_text(estimate.upper, 3)
    return number_text(estimate.mean), f"{lower} – {upper}"


def number_text(value: float, digits: int = 4) -> str:
    """A number with a few digits."""
    return "?" if math.isnan(value) else f"{value:.{digits}g}"


def plain_text(text: str, style: str = "") -> Text:
    """Text from a store as it is: no markup, and no control characters."""
    return Text(visible(text), style)
