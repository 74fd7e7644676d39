"""Two systems that tell no probabilities: how large the new one's share of the keys may be.

`Release` keeps a release in a store. It is imported from `tether.rounds` on first use, since it
needs a database library; everything else here is pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether.release.arm_counts import ArmCounts
from tether.release.assignment import is_new, position_limit, positions
from tether.release.calibration_window import replaces_window
from tether.release.guardrail import Guardrail
from tether.release.ramp_calibration import ramp_share
from tether.release.ramp_result import GuardrailShare, RampShare
from tether.release.routing import is_routed

if TYPE_CHECKING:
    from tether.rounds import Release

__all__ = [
    "ArmCounts",
    "Guardrail",
    "GuardrailShare",
    "RampShare",
    "Release",
    "is_new",
    "is_routed",
    "position_limit",
    "positions",
    "ramp_share",
    "replaces_window",
]


def __getattr__(name: str) -> Any:
    if name != "Release":
        raise AttributeError(f"module 'tether.release' has no attribute {name!r}")
    from tether.rounds import Release

    return Release


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
