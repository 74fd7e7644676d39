"""Checks of what a log is made from: its losses, and what it states of the policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tether._core import validate
from tether._core.shown import few
from tether._core.types import Floats, Losses
from tether._core.user_warnings import warn_user
from tether._core.warning_categories import AssumptionWarning

if TYPE_CHECKING:
    from tether.control.log import Log

    AnyLog = TypeVar("AnyLog", bound=Log)

SHARE_TOLERANCE = 1e-6
"""How far, in logs, a mixture may be below the safe policy's share of it."""


def checked_share(log: Log, safe_share: float | None) -> float | None:
    """The share of rows that the safe policy produced, compared with the mixture."""
    if log.log_mix is None:
        if safe_share is not None and validate.real("safe_share", safe_share) != 1:
            raise ValueError(
                f"safe_share is {safe_share!r} but without log_mix the safe policy produced "
                f"every row; give log_mix too"
            )
        return 1.0
    if safe_share is None:
        return None
    share = validate.number("safe_share", safe_share, above=0, below=1, including=(1,))
    short = log.log_mix < log.log_safe + np.log(share) - SHARE_TOLERANCE
    if short.any():
        row = int(np.argmax(short))
        raise ValueError(
            f"log_mix[{row}] is {log.log_mix[row]:g}, below log_safe + log(safe_share) = "
            f"{log.log_safe[row] + np.log(share):g}: a mixture with that share of the safe "
            f"policy is at least this large"
        )
    return share


def checked_max_ratio(log: Log, max_ratio: float | None) -> float | None:
    """A number that no ratio exceeds, compared with the rows."""
    if max_ratio is None:
        return None
    if validate.number("max_ratio", max_ratio, above=0, below=np.inf) < 1:
        raise ValueError(
            f"max_ratio must be at least 1, got {max_ratio!r}: some action is at least as "
            f"probable under the optimized policy as under the safe one"
        )
    log_ratio = log.log_optimized - log.log_safe
    beyond = log_ratio > np.log(max_ratio) + SHARE_TOLERANCE
    if beyond.any():
        row = int(np.argmax(beyond))
        raise ValueError(
            f"row {row} has the ratio exp(log_optimized - log_safe) = "
            f"{np.exp(log_ratio[row]):.6g}, above max_ratio = {max_ratio!r} "
            f"({int(beyond.sum())} such row(s))"
        )
    return float(max_ratio)


def named_losses(loss: Losses, rows: int) -> dict[str, Floats]:
    """Each loss by its name, checked."""
    columns = list(getattr(loss, "columns", ()))
    if len(columns) > 1 and not isinstance(loss, Mapping):
        raise ValueError(
            f"loss is a frame with the columns {few(np.array(columns, dtype=object))}: several "
            f"losses are passed as a mapping of columns by name, dict(frame); one loss is a column"
        )
    named = loss if isinstance(loss, Mapping) else {"loss": loss}
    if not named:
        raise ValueError("loss is an empty mapping; at least one loss is needed")
    checked: dict[str, Floats] = {}
    for key, values in named.items():
        if not isinstance(key, str):
            raise TypeError(f"loss must be named by strings, got the name {key!r}")
        name = "loss" if not isinstance(loss, Mapping) else f"loss[{key!r}]"
        checked[key] = validate.losses(name, values)
        validate.same_length(name, checked[key], "log_safe", rows)
    return checked


def warn_and_keep(log: AnyLog, *messages: str | None) -> AnyLog:
    """Warn of what looks wrong, where something does, and keep it for every calibration."""
    found = tuple(message for message in messages if message is not None)
    log.warnings += found
    for message in found:
        warn_user(message, AssumptionWarning)
    return log
