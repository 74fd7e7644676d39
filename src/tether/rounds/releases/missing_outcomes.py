"""Which missing outcomes keep a share down: a loss that is not known counts as the bound."""

from __future__ import annotations

from tether.release.arm_counts import ArmCounts
from tether.release.ramp_calibration import ramp_share
from tether.release.ramp_result import RampShare


def missing_outcomes(share: RampShare, *, wait: int = 0) -> str:
    """Which outcomes are missing, and what the share would be if they were harmless, in words.

    Empty where none is missing, and where the share would be the same. `wait` is that of the
    release; a longer one is named where outcomes of the new system are missing.
    """
    said = [
        f"{arm.pending:,} of the {arm.rows:,} rows of the {system} system have no outcome for "
        f"{name!r} and count as {each.guardrail.bound:g} each"
        for name, each in share.guardrails.items()
        for system, arm in (("new", each.new), ("old", each.old))
        if arm.pending
    ]
    if not said:
        return ""
    harmless = share_if_harmless(share)
    if harmless <= share.share:
        return ""
    later = ""
    if any(each.new.pending for each in share.guardrails.values()):
        later = (
            f". When they arrive this share is not computed again: it stays until enough new keys "
            f"have come, or until you halt and resume the release, which begins another ramp. If "
            f"outcomes are late in most steps, begin a release with wait={wait + 1}, in another "
            f"store: a step's rows are then used {_steps(wait + 1)} later"
        )
    return (
        f"when the share was computed, {'; '.join(said)}. If each of them were 0, it would be "
        f"{harmless:.3%}{later}"
    )


def share_if_harmless(share: RampShare) -> float:
    """What the share would be if every outcome that is missing were 0."""
    return ramp_share(
        {name: each.guardrail for name, each in share.guardrails.items()},
        old={name: _all_known(each.old) for name, each in share.guardrails.items()},
        new={name: _all_known(each.new) for name, each in share.guardrails.items()},
        confidence=share.confidence,
    ).share


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"{count} steps"


def _all_known(arm: ArmCounts) -> ArmCounts:
    """The same rows, with a loss of 0 for each that is not known."""
    return ArmCounts(arm.rows, arm.total)
