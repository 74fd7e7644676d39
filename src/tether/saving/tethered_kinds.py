"""Tethered policies and shortlists: what they are saved as."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core import records
from tether.control.calibration import Calibration
from tether.control.families import BudgetedClip, Clip, Family, Mix
from tether.policies.normalizer import Normalizer
from tether.policies.picker import Picker
from tether.policies.probes import check_probes
from tether.policies.shortlist import Shortlist, TetheredShortlist
from tether.policies.tethered import Tethered
from tether.saving.kind import Kind, of_type
from tether.saving.saved_values import count, instance, real, vector_or_table

MAX_SAVED_SHORTLIST = 1_000_000
"""The most candidates of a saved shortlist."""


def _tethered_state(policy: Tethered) -> dict[str, Any]:
    same_name = ("safe", "optimized", "family", "log_beta", "log_betas", "log_shares", "blend")
    options = ("sampler", "max_draws", "normalizer_draws", "seed")
    return {
        **{name: getattr(policy, name) for name in (*same_name, *options)},
        "outside": "error" if policy._pair.strict else "never",
        "marginal": policy._marginal,
    }


def _tethered(
    safe: Any,
    optimized: Any,
    family: Any,
    log_beta: Any,
    log_betas: Any,
    log_shares: Any,
    blend: Any,
    max_draws: Any,
    normalizer_draws: Any,
    marginal: Any,
    **options: Any,
) -> Tethered:
    if not isinstance(marginal, bool) or not 0 <= real("blend", blend) < 1:
        raise ValueError(f"marginal must be true or false and blend a share, got {blend!r}")
    draws = None if normalizer_draws is None else count("normalizer_draws", normalizer_draws)
    policy = Tethered(
        safe,
        optimized,
        1.0,
        family=instance("family", family, Family),
        max_draws=count("max_draws", max_draws),
        normalizer_draws=draws,
        **options,
    )
    # Beta itself may overflow, and the log of its exponential round differently.
    policy.log_beta = real("log_beta", log_beta)
    policy.blend, policy._marginal = float(blend), marginal
    policy.serve_at(
        vector_or_table("log_betas", log_betas, 1), vector_or_table("log_shares", log_shares, 1)
    )
    return policy


def _tethered_notes(policy: Tethered) -> dict[str, Any]:
    return {"calibration": policy.calibration, "normalizer": policy._remembered}


def _attach(policy: Tethered, calibration: Any, normalizer: Any) -> None:
    if calibration is not None:
        found: Calibration = instance("calibration", calibration, Calibration)
        stated = (found.log_beta, found.family, found.blend)
        if stated != (policy.log_beta, policy.family.name, policy.blend):
            raise ValueError(
                f"the calibration has log beta, family and blend {stated}, but the policy "
                f"{(policy.log_beta, policy.family.name, policy.blend)}"
            )
        optimized = policy.optimized.policies[0] if policy.blend else policy.optimized  # type: ignore[attr-defined]
        check_probes(found.probes, {"safe": policy.safe, "optimized": optimized})
        policy.calibration = found
    if normalizer is not None:
        policy.remember(instance("normalizer", normalizer, Normalizer))


def _normalizer(log_psi: Any, standard_error: Any) -> Normalizer:
    columns = vector_or_table("log_psi", log_psi, 1), vector_or_table("error", standard_error, 1)
    if not (columns[0].shape == columns[1].shape == (1,) and np.isfinite(columns[0]).all()):
        raise ValueError(f"log_psi must be one finite number, got {columns[0][:3]}")
    if not columns[1][0] >= 0:
        raise ValueError(f"standard_error must be at least 0, got {columns[1][0]}")
    return Normalizer(*columns)


def _calibration(content: Any) -> Calibration:
    found: Calibration = records.decode(Calibration, content, "calibration")
    return found


def _picker(optimized: Any, size: Any, temperature: Any, safe: Any) -> Picker:
    number = count("size", size, MAX_SAVED_SHORTLIST)
    return Picker(optimized, number, real("temperature", temperature), safe)


def _shortlist(safe: Any, size: Any, temperature: Any, picker: Any) -> Shortlist:
    number = count("size", size, MAX_SAVED_SHORTLIST)
    shortlist = Shortlist(safe, size=number, temperature=real("temperature", temperature))
    if picker is not None:
        shortlist.picker = shortlist.picker_of(instance("picker", picker, Picker))
    return shortlist


def _tethered_shortlist(shortlist: Any, pick: Any) -> TetheredShortlist:
    instance("shortlist", shortlist, Shortlist)
    instance("pick", pick, Tethered)
    if pick.actions is None or len(pick.actions) != shortlist.size:
        raise ValueError(f"pick must be a policy over {shortlist.size} positions")
    return TetheredShortlist(shortlist, pick)


TETHERED_KINDS = (
    Kind(
        "tethered",
        lambda value: type(value) is Tethered,
        _tethered_state,
        _tethered,
        _tethered_notes,
        _attach,
    ),
    of_type("normalizer", Normalizer, "log_psi", "standard_error", build=_normalizer),
    Kind(
        "calibration",
        lambda value: type(value) is Calibration,
        lambda found: {"content": records.encode(found.to_dict())},
        _calibration,
    ),
    of_type("clip", Clip),
    of_type("mix", Mix),
    of_type("budgeted_clip", BudgetedClip, "max_draws"),
    Kind(
        "picker",
        lambda value: type(value) is Picker,
        lambda picker: {
            **{name: getattr(picker, name) for name in ("optimized", "size", "temperature")},
            "safe": picker._reference,
        },
        _picker,
    ),
    of_type("shortlist", Shortlist, "safe", "size", "temperature", "picker", build=_shortlist),
    of_type(
        "tethered_shortlist", TetheredShortlist, "shortlist", "pick", build=_tethered_shortlist
    ),
)
