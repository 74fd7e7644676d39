"""What a plan says of the log that it was measured from: whether it passes, or refutes itself."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

from tether.control.calibrate import calibrate
from tether.control.contradictions import log_contradiction
from tether.control.families import Mix
from tether.control.log import Log
from tether.control.refuted_log import Refutation


def beta_of(log: Log, family: str, asked: Mapping[str, Any]) -> float | None:
    """The beta on the log, 0 if it promises nothing useful; None where draws would decide it."""
    needs_no_draws = log.log_safe_all is not None or (
        family == Mix.name and log.max_ratio is not None
    )
    if not needs_no_draws:
        return None
    if asked["confidence"] is not None and log.log_mix is not None and log.acting is None:
        return None  # a confidence needs to know which policy acted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calibrate(log, family=family, **asked)
        return found.beta if found.useful else 0.0


def refutations_of(log: Log) -> tuple[str, ...]:
    """How the log refutes what it states, so that no plan can be measured from it."""
    found = tuple(each for each in log.warnings if isinstance(each, Refutation))
    by_ratios = None if found else log_contradiction(log, 1.0)
    return found if by_ratios is None else (by_ratios,)


def beta_in_words(beta: float, family: str) -> str:
    """A beta; for mix also the share of decisions that it gives to the optimized policy."""
    if family != Mix.name:
        return f"beta {beta:.4g}"
    share = Mix().optimized_share(math.log(beta) if beta else -math.inf)
    return f"beta {beta:.4g} ({share:.1%} of the decisions are the optimized policy's)"
