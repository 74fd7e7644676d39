"""The `tether plan` that answers how many rows a log that does not pass should have had."""

from __future__ import annotations

from typing import Any

import tether
from tether.planning.plan_inputs import measure_inputs

PLANNED_FAMILIES = ("clip", "mix", "budgeted_clip")


def plan_command(found: tether.Calibration, log: Any) -> str | None:
    """The command, with what it needs to know as measured from the log.

    None where a beta passes, where rows do not help, as the safe policy's own loss is above what
    is asked for or the log refutes what it states, and where there is no plan: for several losses,
    and for logs that are read in parts.
    """
    family = found.family.partition("(")[0]
    one_loss = len(found.constraints) == 1
    if found.exists or found.refuted_by or not isinstance(log, tether.Log) or not one_loss:
        return None
    measured, only = measure_inputs(log), found.constraints[0]
    asked = only.alpha if found.asked_promise is None else found.asked_promise[only.name]
    if family not in PLANNED_FAMILIES or not 0 < measured.safe_risk < asked:
        return None
    options: dict[str, float | str | None] = {
        "alpha" if found.asked_promise is None else "promise": asked,
        "confidence": found.confidence,
        "safe-risk": measured.safe_risk,
        "optimized-risk": measured.optimized_risk,
        "spread": measured.log_ratio_spread,
        "bound": None if only.bound == 1 else only.bound,
        "family": None if family == "clip" else family,
        "max-ratio": log.max_ratio if family == "mix" else None,
    }
    words = [
        f"--{name} {value if isinstance(value, str) else f'{value:.4g}'}"
        for name, value in options.items()
        if value is not None
    ]
    return f"tether plan {' '.join(words)}"
