"""Numbers, times and counts as text, with words of their own for infinity and missing values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

NO_VALUE = "–"
"""What is written where there is no value."""
MAX_PLAIN_LOG_BETA = 300
"""Beyond this log, beta is written as exp(…): beta itself would be unreadable, or overflow."""


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
    if value and (abs(value) < 1e-4 or abs(value) >= 1e9):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}"
    text = f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    return text.replace("-", "−")


def format_share(share: float | None) -> str:
    r"""Write a share as a percentage with three digits, and a no-break space.

    >>> format_share(0.583468), format_share(0.0096123), format_share(1.0)
    ('58.3\xa0%', '0.961\xa0%', '100\xa0%')
    """
    missing = share is None or math.isnan(share)
    return NO_VALUE if missing else f"{format_number(100 * (share or 0.0))}\N{NO-BREAK SPACE}%"


def format_beta(log_beta: float) -> str:
    """Write beta given its log, which does not overflow.

    >>> format_beta(0.0), format_beta(-math.inf), format_beta(math.inf), format_beta(2000.0)
    ('1', '0', '∞', 'exp(2,000)')
    """
    if math.isinf(log_beta):
        return "∞" if log_beta > 0 else "0"
    if abs(log_beta) < MAX_PLAIN_LOG_BETA:
        return format_number(math.exp(log_beta))
    return f"exp({format_number(log_beta)})"


def format_time(time: str | int) -> str:
    """Write a moment, ISO 8601 or microseconds, to the minute.

    >>> format_time("2026-03-01T09:30:12.5+00:00")
    '1 March 2026, 09:30 UTC'
    """
    known = datetime.fromisoformat(iso_time(time))
    return f"{known.day} {known:%B %Y, %H:%M} {known.tzname() or 'UTC'}"


def iso_time(time: str | int) -> str:
    """A moment in ISO 8601: as it is, or from microseconds."""
    if isinstance(time, str):
        return time
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat(timespec="seconds")


def as_sentence(text: str) -> str:
    """Make a sentence of a text: with a capital first and a full stop last."""
    text = text.strip()
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?…" else ".")


def beta_ticks(low: float, high: float, most: int = 6) -> dict[float, str]:
    """Round betas between two logs: powers of ten, with 2 and 5 (or 3) where there is room."""
    ticks: list[float] = []
    for digits in ((1, 2, 5), (1, 3), (1,)):
        powers = range(math.floor(low / math.log(10)) - 1, math.ceil(high / math.log(10)) + 1)
        ticks = [math.log(digit) + power * math.log(10) for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low - 0.2 <= tick <= high + 0.2]
        if len(ticks) <= most:
            break
    return {tick: format_beta(tick) for tick in ticks[:: math.ceil(len(ticks) / most) or 1]}


def beta_scale(log_betas: Sequence[float]) -> tuple[list[float], dict[float, str]]:
    """Heights of betas given by their logs, and ticks: 0 is below all others, infinity above."""
    finite = [each for each in log_betas if math.isfinite(each)] or [0.0]
    middle = (max(finite) + min(finite)) / 2
    half = max((max(finite) - min(finite)) / 2, 0.7)
    bottom, top = middle - 1.6 * half, middle + 1.6 * half
    inside = beta_ticks(middle - half, middle + half, 4).items()
    ticks = {place: text for place, text in inside if abs(place - middle) <= half}
    ticks |= {bottom: "0"} if -math.inf in log_betas else {}
    ticks |= {top: "∞"} if math.inf in log_betas else {}
    return [min(max(each, bottom), top) for each in log_betas], ticks
