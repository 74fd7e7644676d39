"""The four methods of `tether threshold` side by side on the same claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.risk import Claims, Selection, filter_claims


@dataclass(frozen=True)
class MethodComparison:
    """What each method selects, and how many claims it keeps of those it was calibrated on."""

    claims: Claims
    groups: Any
    selections: dict[str, Selection]

    @property
    def useful(self) -> bool:
        """Whether a method has a useful promise."""
        return any(found.useful for found in self.selections.values())

    def kept(self, found: Selection) -> tuple[float, float]:
        """The share of all claims that is kept, and that of the true ones."""
        if not found.useful:
            return 0.0, 0.0
        keeps = filter_claims(found, self.claims.scores, groups=self.groups)
        true = self.claims.supported
        return float(keeps.mean()), float(keeps[true].mean()) if true.any() else 0.0

    def to_dict(self) -> dict[str, Any]:
        """One entry per method, with the shares that are kept."""
        entries = {}
        for name, found in self.selections.items():
            kept, true_kept = self.kept(found)
            entries[name] = {**found.to_dict(), "kept": kept, "true_kept": true_kept}
        return {"methods": entries}

    def __str__(self) -> str:
        head = ("method", "threshold", "promise", "kept", "of true", "")
        rows = [head, *(self._row(name, found) for name, found in self.selections.items())]
        widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        notes = [
            "kept: the share of these claims whose score reaches the threshold; of true: the same "
            "among true claims",
            "a promise holds for a method that was chosen without these figures; to choose by "
            "them, calibrate the chosen one on other claims",
        ]
        return "\n".join([*lines, "", *notes])

    def _row(self, name: str, found: Selection) -> tuple[str, ...]:
        kept, true_kept = self.kept(found)
        thresholds = [each.threshold for each in found.groups.values()] or [found.threshold]
        shown = f"{min(thresholds):.4g}"
        if len(thresholds) > 1:
            shown = f"{shown} to {max(thresholds):.4g}"
        if not found.useful:
            why = "no threshold passes" if not found.exists else "no useful promise"
            return (name, "-", "-" if not found.exists else f"{found.promise:.4g}", "-", "-", why)
        confidence = found.settings.get("confidence")
        with_probability = "" if confidence is None else f"with probability {confidence:g}"
        return (
            name,
            shown,
            f"{found.promise:.4g}",
            f"{kept:.1%}",
            f"{true_kept:.1%}",
            with_probability,
        )


def compare_methods(
    methods: dict[str, Any], scored: Claims, groups: Any, confidence: float | None, options: Any
) -> MethodComparison:
    """Select by every method; `options` go to all of them."""
    grouped = {} if groups is None else {"groups": groups}
    found = {}
    for name, method in methods.items():
        own = {"confidence": confidence} if name == "ltt" and confidence is not None else {}
        found[name] = method(scored, **grouped, **options, **own)
    return MethodComparison(scored, _per_claim(scored, groups), found)


def _per_claim(scored: Claims, groups: Any) -> Any:
    """The group of each claim."""
    if groups is None:
        return None
    assert scored.items is not None
    by_item = np.array([str(groups[name]) for name in scored.items.tolist()])
    return np.repeat(by_item, np.diff(scored.offsets))
