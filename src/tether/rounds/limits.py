"""The losses of a run by name, and what each of them may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core import validate
from tether.control.calibrate import find_target

ONLY_LOSS = "loss"
"""The name of a loss that the user has not named."""
MAX_LOSS_NAME_LENGTH = 40
MAX_LOSSES = 32
"""How long the name of a loss may be, and how many losses there may be."""


@dataclass(frozen=True)
class Limit:
    """What is tolerated of one loss.

    Parameters
    ----------
    alpha : float
        The tolerated expected loss, or the promise that every calibration is to state.
    bound : float
        The largest possible loss.
    alarm_risk : float
        The risk above which the risk monitor raises an alarm.

    Examples
    --------
    >>> Limit(alpha=0.1, bound=1.0, alarm_risk=0.15).alpha
    0.1
    """

    alpha: float
    bound: float
    alarm_risk: float

    def check(self, target: str, name: str) -> None:
        """Refuse values that do not fit together, naming the argument that has them.

        Parameters
        ----------
        target : str
            What `alpha` is: "alpha" or "promise".
        name : str
            The name of the loss.
        """
        of = _key(name)
        validate.number(f"bound{of}", self.bound, above=0, below=np.inf)
        validate.number(f"{target}{of}", self.alpha, above=0, below=self.bound)
        validate.number(f"alarm_risk{of}", self.alarm_risk, above=0, below=self.bound)
        if self.alarm_risk < self.alpha:
            raise ValueError(
                f"alarm_risk{of} must be at least {target} = {self.alpha:g}, got "
                f"{self.alarm_risk:g}: the monitor would raise alarms on policies that keep their "
                f"promise"
            )


Limits = dict[str, Limit]
"""One limit for each loss of a run, by name, in the order in which they are stored."""


def limits_from_arguments(
    alpha: float | Mapping[str, float] | None,
    promise: float | Mapping[str, float] | None,
    bound: float | Mapping[str, float],
    alarm_risk: float | Mapping[str, float] | None,
) -> tuple[str, Limits]:
    """What a controller's `alpha` or `promise` is, and the limits that its arguments set."""
    target, tolerated = find_target(alpha, promise)
    named = tolerated if isinstance(tolerated, Mapping) else {ONLY_LOSS: tolerated}
    check_names(target, named)
    bounds = _by_name("bound", bound, named)
    risks = _by_name("alarm_risk", alarm_risk, named)
    limits: Limits = {}
    for name, value in named.items():
        of = "" if named is not tolerated else f"[{name!r}]"
        top = validate.number(f"bound{of}", bounds[name], above=0, below=np.inf)
        level = validate.number(f"{target}{of}", value, above=0, below=top)
        risk = risks[name]
        risk = default_alarm_risk(level, top) if risk is None else risk
        limits[name] = Limit(
            level, top, validate.number(f"alarm_risk{of}", risk, above=0, below=top)
        )
    return target, limits


def default_alarm_risk(alpha: float, bound: float) -> float:
    """1.5 times alpha, but at most halfway from alpha to the bound.

    Calibration promises alpha on average over logs, so some calibrated policies are a little above
    it; a monitor set at alpha itself would raise an alarm on each of them.
    """
    return float(min(1.5 * alpha, (alpha + bound) / 2))


def limits_from_dict(stored: Mapping[str, Mapping[str, float]]) -> Limits:
    """The limits as the store keeps them."""
    return {name: Limit(**limit) for name, limit in stored.items()}


def as_arguments(target: str, limits: Limits) -> dict[str, float]:
    """Limits as a flat mapping, by the arguments that set them; to compare and to show."""
    flat = {}
    for name, limit in limits.items():
        of = _key(name)
        flat[f"{target}{of}"] = limit.alpha
        flat |= {f"bound{of}": limit.bound, f"alarm_risk{of}": limit.alarm_risk}
    return flat


def listed_limits(limits: Limits) -> str:
    """What is tolerated, as text: a number, or one for each name."""
    if list(limits) == [ONLY_LOSS]:
        return f"{limits[ONLY_LOSS].alpha:g}"
    return ", ".join(f"{name} {limit.alpha:g}" for name, limit in limits.items())


def _key(name: str) -> str:
    """What follows an argument where it is of one loss by name."""
    return "" if name == ONLY_LOSS else f"[{name!r}]"


def check_names(target: str, named: Mapping[str, Any]) -> None:
    """Refuse names of losses that cannot be stored or shown."""
    if not 0 < len(named) <= MAX_LOSSES:
        raise ValueError(f"{target} must name 1 to {MAX_LOSSES} losses, got {dict(named)!r}")
    for name in named:
        is_short = isinstance(name, str) and 0 < len(name) <= MAX_LOSS_NAME_LENGTH
        if not is_short or not name.isprintable() or name != name.strip():
            raise ValueError(
                f"{target} must name losses by printable text of 1 to {MAX_LOSS_NAME_LENGTH} "
                f"characters, got {name!r}"
            )


def _by_name(argument: str, given: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each loss: one for all of them, or one by name."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(named, given)
    if argument == "alarm_risk":  # by default for those that it does not name
        given = dict.fromkeys(named) | dict(given)
    if set(given) != set(named):
        raise ValueError(f"{argument} must name the losses {list(named)}, got {list(given)}")
    return dict(given)
