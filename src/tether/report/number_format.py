"""Numbers, times and counts as text, with words of their own for infinity and missing values."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from tether._core.words import counted

if TYPE_CHECKING:
    from tether.rounds.history import Estimate

NO_VALUE = "–"
"""What is written where there is no value."""
MAX_PLAIN_LOG_BETA = 300
"""Beyond this log, beta is written as exp(…), since beta itself would be unreadable or overflow."""


def format_number(value: float | None, digits: int = 3) -> str:
    """Write a number with `digits` significant digits, grouped, without trailing zeros.

    >>> format_number(0.10432), format_number(12345.6), format_number(2e-7)
    ('0.104', '12,346', '2e-7')
    >>> format_number(float("inf")), format_number(None)
    ('∞', '–')
    """
    if value is None or math.isnan(value):
        return NO_VALUE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if abs(value) >= 10**digits:
        text = f"{value:,.0f}" if abs(value) < 1e9 else _scientific(value, digits)
    elif abs(value) < 1e-4:
        text = _scientific(value, digits)
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−") if value < 0 and "e" not in text else text


def format_beta(log_beta: float) -> str:
    """Write beta given its log, which does not overflow.

    >>> format_beta(0.0), format_beta(-math.inf), format_beta(math.inf), format_beta(2000.0)
    ('1', '0', '∞', 'exp(2000)')
    """
    if math.isinf(log_beta):
        return "∞" if log_beta > 0 else "0"
    if abs(log_beta) < MAX_PLAIN_LOG_BETA:
        return format_number(math.exp(log_beta))
    return f"exp({format_number(log_beta, 4)})"


def format_percent(share: float | None) -> str:
    """Write a share of one as a percentage.

    >>> format_percent(0.3333), format_percent(1.0), format_percent(0.004)
    ('33 %', '100 %', '0.4 %')
    """
    if share is None or math.isnan(share):
        return NO_VALUE
    if share >= 0.01 or share == 0:
        return f"{100 * share:.0f} %"
    return f"{format_number(100 * share, 1)} %"


def format_interval(estimate: Estimate) -> str:
    """Write the limits of an estimate."""
    return f"{format_number(estimate.lower)} to {format_number(estimate.upper)}"


def format_time(iso_time: str | None) -> str:
    """Write an ISO 8601 time to the minute; return any other text unchanged.

    >>> format_time("2026-03-01T09:30:12.5+00:00")
    '1 March 2026, 09:30 UTC'
    """
    if iso_time is None:
        return NO_VALUE
    try:
        time = datetime.fromisoformat(iso_time)
    except ValueError:
        return iso_time
    return f"{time.day} {time:%B %Y, %H:%M} {time.tzname() or 'UTC'}"


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Write a count with its noun.

    >>> format_count(1, "row"), format_count(1200, "row"), format_count(0, "loss", "losses")
    ('1 row', '1,200 rows', 'no losses')
    """
    text = counted(count, singular, plural)
    return text if count else f"no {text.removeprefix('0 ')}"


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"
