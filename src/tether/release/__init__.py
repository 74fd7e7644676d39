"""Two systems that tell no probabilities: how large the new one's share of the keys may be."""

from tether.release.arm_counts import ArmCounts
from tether.release.assignment import is_new, position_limit, positions
from tether.release.calibration_window import replaces_window
from tether.release.guardrail import Guardrail
from tether.release.ramp_calibration import ramp_share
from tether.release.ramp_result import GuardrailShare, RampShare

__all__ = [
    "ArmCounts",
    "Guardrail",
    "GuardrailShare",
    "RampShare",
    "is_new",
    "position_limit",
    "positions",
    "ramp_share",
    "replaces_window",
]
