"""The `tether plan` that answers how many rows a log that does not pass should have had."""

from __future__ import annotations

import tether


def plan_command(found: tether.Calibration) -> str | None:
    """The command, with what it needs to know as measured from the log.

    None where a beta passes, where rows do not help, as the safe policy's own loss is above what
    is asked for, and for several losses.
    """
    only = found.binding
    if found.exists or len(found.losses) > 1 or not 0 < only.safe_mean < only.alpha:
        return None
    options: dict[str, float | None] = {
        "promise" if found.rule == "promise" else "alpha": only.alpha,
        "confidence": found.confidence,
        "safe-risk": only.safe_mean,
        "bound": None if only.bound == 1 else only.bound,
    }
    words = [f"--{name} {value:.4g}" for name, value in options.items() if value is not None]
    return f"tether plan {' '.join(words)}"
