"""What a plan says of the log that it was measured from: whether it passes already."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

from tether.control.calibrate import calibrate
from tether.control.families import Mix
from tether.control.log import Log


def beta_of(log: Log, family: str, asked: Mapping[str, Any]) -> float | None:
    """The beta of mix on the log, 0 if it promises nothing useful; None if it is not known."""
    if family != Mix.name or log.max_ratio is None:
        return None
    if asked["confidence"] is not None and log.log_mix is not None and log.acting is None:
        return None  # a confidence needs to know which policy acted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calibrate(log, family=family, **asked)
        return found.beta if found.useful else 0.0


def beta_in_words(beta: float, family: str) -> str:
    """A beta; for mix also the share of decisions that it gives to the optimized policy."""
    if family != Mix.name:
        return f"beta {beta:.4g}"
    share = Mix().optimized_share(math.log(beta) if beta else -math.inf)
    return f"beta {beta:.4g} ({share:.1%} of the decisions are the optimized policy's)"
