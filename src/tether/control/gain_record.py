"""A gain as it is saved inside a calibration, checked and read back.

A calibration is saved with its gain if its log has rewards, or tables of all actions, which tell
exactly how many decisions change. What the entries of the gain say about
each other, and about those of the calibration, is checked; the means themselves need the log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tether.control.calibration_entries import a_list, each_of, exact_keys, integer, real, text
from tether.control.gains import Gain, PolicyMeans
from tether.control.weighted_means import WeightedMean


def check_gain(saved: Mapping[str, Any]) -> None:
    """Raise unless the gain of a saved calibration, if it has one, can be its gain."""
    stated = saved.get("gain")
    if stated is None:
        return
    exact_keys("gain", stated, [each.name for each in fields(Gain)])
    for name in ("log_beta", "rows"):
        if stated[name] != saved[name]:
            raise ValueError(f"gain.{name} is {stated[name]!r}, but {name} is {saved[name]!r}")
    rows = integer("gain.rows", stated["rows"], 1)

    def means(name: str, each: Any) -> None:
        exact_keys(name, each, [field.name for field in fields(PolicyMeans)])
        for policy, estimate in each.items():
            _estimate(f"{name}.{policy}", estimate, rows)

    if stated["reward"] is not None:
        means("gain.reward", stated["reward"])
    bounds = {each["name"]: each["bound"] for each in saved["constraints"]}
    each_of("gain.losses", stated["losses"], bounds, means)
    for name, bound in bounds.items():
        for policy, estimate in stated["losses"][name].items():
            least = -bound if policy == "difference" else 0.0
            _within(f"gain.losses[{name!r}].{policy}", estimate, least, bound)
    _estimate("gain.changed", stated["changed"], rows)
    _within("gain.changed", stated["changed"], 0.0, 1.0)
    if stated["traffic"] is not None:
        real("gain.traffic", stated["traffic"], 0, 1)
    if (stated["traffic"] is not None) != (saved["family"] == "mix") and saved["family"] in (
        "clip",
        "mix",
    ):
        raise ValueError(f"gain.traffic is {stated['traffic']!r} of family {saved['family']!r}")
    if not 0 < real("gain.confidence", stated["confidence"]) < 1:
        raise ValueError(
            f"gain.confidence must be above 0 and below 1, got {stated['confidence']!r}"
        )
    for note in a_list("gain.notes", stated["notes"]):
        text("gain.notes", note)


def read_gain(stated: Mapping[str, Any] | None) -> Gain | None:
    """The gain of decoded entries that have been checked."""
    if stated is None:
        return None
    return Gain(
        **{
            **stated,
            "reward": None if stated["reward"] is None else _policy_means(stated["reward"]),
            "losses": {name: _policy_means(each) for name, each in stated["losses"].items()},
            "changed": WeightedMean(**stated["changed"]),
            "notes": tuple(stated["notes"]),
        }
    )


def _policy_means(stated: Mapping[str, Any]) -> PolicyMeans:
    return PolicyMeans(**{name: WeightedMean(**each) for name, each in stated.items()})


def _estimate(name: str, stated: Any, rows: int) -> None:
    exact_keys(name, stated, [each.name for each in fields(WeightedMean)])
    real(f"{name}.effective_sample_size", stated["effective_sample_size"], 0, rows * 1.000001)
    ends = [stated[each] for each in ("lower", "mean", "upper")]
    if stated["unknown"] is not None:
        text(f"{name}.unknown", stated["unknown"])
        if ends != [None] * 3:
            raise ValueError(f"{name} has numbers, although it is unknown: {ends!r}")
        return
    low, mean, high = (real(name, end) for end in ends)
    if not (low <= mean <= high and math.isfinite(mean)):
        raise ValueError(f"{name} must be a finite mean inside its interval, got {ends!r}")


def _within(name: str, stated: Mapping[str, Any], low: float, high: float) -> None:
    rounding = 1e-9 * high
    for end in ("lower", "mean", "upper"):
        value = stated[end]
        if value is not None and not low - rounding <= value <= high + rounding:
            raise ValueError(f"{name} must be from {low:g} to {high:g}, got {value!r}")
