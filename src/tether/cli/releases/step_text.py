"""The present step of a release in one line, as `start` and `advance` print it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tether.cli.release_status import plain_release
from tether.cli.terminal import print_line

if TYPE_CHECKING:
    from tether.rounds.releases.release_history import ReleaseHistory


def show_step(history: ReleaseHistory, *, as_json: bool) -> None:
    """Print the present step: its share, what is promised, and why."""
    if as_json:
        print(json.dumps(plain_release(history)["steps"][-1], indent=2))
    else:
        print_line(step_text(history))


def step_text(history: ReleaseHistory) -> str:
    """The present step in words."""
    from tether.rounds.releases.closed_share import closed_share_advice

    step = history.steps[-1]
    if step.calibration.reason:
        advice = closed_share_advice(step.calibration)
        text = f"Step {step.number}: the old system answers all keys: {step.why}"
        return f"{text}; {advice}" if advice else text
    promises = step.calibration.promises
    stated = ", ".join(f"{name} ≤ {promises[name]:.3g}" for name in history.limits)
    sure = "in expectation"
    if history.confidence is not None:
        sure = f"with confidence {history.confidence:g} at all steps"
    return (
        f"Step {step.number}: the new system has {step.share:.3%} of the keys: {step.why}. "
        f"Promised {sure}: {stated}"
    )
