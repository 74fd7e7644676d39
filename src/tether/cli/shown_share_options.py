"""The options of `tether threshold` for a share among all claims that are shown."""

from __future__ import annotations

import math

import numpy as np

from tether._core.types import Floats
from tether.risk.claim_losses import (
    CLAIM_LOSSES,
    FALSE_AMONG_SHOWN,
    FalseAmongShown,
    needed_shown,
)

LOSSES = (*CLAIM_LOSSES, FALSE_AMONG_SHOWN)
"""The losses of `--loss`."""


def chosen_loss(
    loss: str, promise: float | None, most_claims: int | None, thresholds: str | None
) -> str | FalseAmongShown:
    """The loss, made with the promise and the number of claims where it is about what is shown."""
    if loss != FALSE_AMONG_SHOWN:
        if most_claims is not None:
            raise ValueError(f"--most-claims is for --loss {FALSE_AMONG_SHOWN}, got --loss {loss}")
        return loss
    for option, missing in (
        ("--promise, the share of all claims shown that may be false", promise is None),
        ("--most-claims, the largest number of claims that an item can have", most_claims is None),
    ):
        if missing:
            raise ValueError(f"--loss {FALSE_AMONG_SHOWN} needs {option}")
    assert promise is not None
    assert most_claims is not None
    made = FalseAmongShown(promise, most_claims)
    if thresholds is None:
        raise ValueError(
            f"--loss {FALSE_AMONG_SHOWN} needs --thresholds LOWEST:HIGHEST:COUNT, chosen before "
            "the labels are seen; at the highest at least most_claims · (1 − promise) / promise = "
            f"{needed_shown(promise, most_claims):g} claims must be shown"
        )
    return made


def threshold_grid(text: str) -> Floats:
    """Evenly spaced thresholds from LOWEST:HIGHEST:COUNT, or those that are listed."""
    if "," in text:
        return _listed_thresholds(text)
    parts = text.split(":")
    try:
        low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
    except (IndexError, ValueError):
        low = high = math.nan
        count = 0
    if len(parts) != 3 or not (math.isfinite(low) and math.isfinite(high) and low < high):
        count = 0
    if count < 2:
        raise ValueError(
            "--thresholds must be LOWEST:HIGHEST:COUNT with LOWEST below HIGHEST and a COUNT of at "
            f"least 2, such as 0.4:0.9:51, got {text!r}"
        )
    return np.linspace(low, high, count)


def _listed_thresholds(text: str) -> Floats:
    """Thresholds that are separated by commas, in increasing order."""
    try:
        listed = np.array([float(part) for part in text.split(",")])
    except ValueError:
        listed = np.array([math.nan])
    if not np.isfinite(listed).all() or (np.diff(listed) <= 0).any():
        raise ValueError(
            "--thresholds must list numbers in increasing order, such as 0.9,0.99,0.999, got "
            f"{text!r}"
        )
    return listed
