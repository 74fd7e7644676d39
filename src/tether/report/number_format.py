"""Numbers as a person reads them: short, and honest about zero, infinity and nothing at all."""

from __future__ import annotations

import math
from datetime import datetime

from tether.rounds.history import Estimate

NOTHING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits, with thin groups and without trailing zeros.

    >>> number(0.10432), number(12345.6), number(2e-7), number(float("inf")), number(None)
    ('0.104', '12,346', '2e-7', '∞', '–')
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if abs(value) >= 10**digits:
        written = f"{value:,.0f}" if abs(value) < 1e9 else _scientific(value, digits)
    elif abs(value) < 1e-4:
        written = _scientific(value, digits)
    else:
        written = f"{value:.{digits}g}"
    return written.replace("-", "−") if value < 0 and "e" not in written else written


def beta(log_beta: float) -> str:
    """Beta from its log, which does not overflow.

    >>> beta(0.0), beta(-math.inf), beta(math.inf), beta(2000.0)
    ('1', '0', '∞', 'exp(2000)')
    """
    if math.isinf(log_beta):
        return "∞" if log_beta > 0 else "0"
    return number(math.exp(log_beta)) if abs(log_beta) < 300 else f"exp({number(log_beta, 4)})"


def percent(share: float | None) -> str:
    """A share of one.

    >>> percent(0.3333), percent(1.0), percent(0.004)
    ('33 %', '100 %', '0.4 %')
    """
    if share is None or math.isnan(share):
        return NOTHING
    return f"{100 * share:.0f} %" if share >= 0.01 or share == 0 else f"{number(100 * share, 1)} %"


def interval(estimate: Estimate) -> str:
    """The limits of an estimate, in words."""
    return f"{number(estimate.lower)} to {number(estimate.upper)}"


def moment(when: str | None) -> str:
    """An ISO 8601 time to the minute; anything else as it stands.

    >>> moment("2026-03-01T09:30:12.5+00:00")
    '1 March 2026, 09:30 UTC'
    """
    if when is None:
        return NOTHING
    try:
        read = datetime.fromisoformat(when)
    except ValueError:
        return when
    return f"{read.day} {read:%B %Y, %H:%M} {read.tzname() or 'UTC'}"


def count(number_of: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> count(1, "row"), count(1200, "row"), count(0, "loss", "losses")
    ('1 row', '1,200 rows', 'no losses')
    """
    noun = one if number_of == 1 else many or f"{one}s"
    return f"{number_of:,} {noun}" if number_of else f"no {noun}"


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"
