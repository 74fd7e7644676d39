"""A loss that is refused, as JSON, and what to send instead."""

from __future__ import annotations

import json
import math
from typing import Any

from tether._core.validate import loss_hint

MAX_LOSS_SHOWN = 80
"""How many characters of a refused loss are shown."""


def shown_loss(value: Any, bound: float = math.inf) -> str:
    """What was sent; for true and false, words and percentages, with what they should be.

    `bound` is the largest possible loss.
    """
    text = json.dumps(value)[:MAX_LOSS_SHOWN]
    if isinstance(value, bool):
        return f"{text}: send 1 for the harm and 0 for a good outcome"
    if isinstance(value, int | float) and bound == 1 < value <= 100:
        return f"{text}: is it a percentage? {value:g} % is {value / 100:g}"
    if isinstance(value, str) and _is_number(value):
        return f"{text}: this is text; send the number without quotes"
    return f"{text}{loss_hint([value])}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
