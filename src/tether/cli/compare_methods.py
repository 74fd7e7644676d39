"""The four methods of `tether threshold` side by side on the same claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from tether._core.kernels import Columns, Several
from tether.risk import Claims, Selection
from tether.risk.claim_filter import keep_promised
from tether.risk.claim_parts import ClaimColumns
from tether.risk.methods_by_name import METHODS
from tether.risk.scanned_claims import ScannedClaims


@dataclass(frozen=True)
class KeptTrue:
    """How many claims there are and how many are kept, of all and of the true ones."""

    claims: int
    kept: int
    true: int
    true_kept: int

    @classmethod
    def of(cls, found: Selection, scores: Any, true: Any, groups: Any) -> KeptTrue:
        """Count some claims; a selection without a useful promise keeps none."""
        keeps = np.zeros(len(true), dtype=np.bool_)
        if found.serves:
            keeps, _ = keep_promised(found, scores, groups)
        return cls(len(true), int(keeps.sum()), int(true.sum()), int(keeps[true].sum()))

    def merge(self, other: KeptTrue) -> KeptTrue:
        """Those of both."""
        return KeptTrue(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def shares(self) -> tuple[float, float]:
        """The share of all claims that is kept, and that of the true ones."""
        return self.kept / self.claims, self.true_kept / self.true if self.true else 0.0


@dataclass(frozen=True)
class MethodComparison:
    """What each method selects, and how many claims it keeps of those it was calibrated on."""

    selections: dict[str, Selection]
    counts: dict[str, KeptTrue]

    @property
    def useful(self) -> bool:
        """Whether a method has a useful promise, in some group at least."""
        return any(found.serves for found in self.selections.values())

    def to_dict(self) -> dict[str, Any]:
        """One entry per method, with the shares that are kept."""
        entries = {}
        for name, found in self.selections.items():
            kept, true_kept = self.counts[name].shares
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
        kept, true_kept = self.counts[name].shares
        served = [each for each in found.groups.values() if each.useful] or [found]
        thresholds = [each.threshold for each in served]
        shown = f"{min(thresholds):.4g}"
        if len(thresholds) > 1:
            shown = f"{shown} to {max(thresholds):.4g}"
        if not found.serves:
            why = "no threshold passes" if not found.exists else "no useful promise"
            if name == "crc" and not found.monotone:
                why = "promises nothing: losses are not monotone"
            elif found.exists and found.keeps_nothing:
                why = "keeps nothing"
            return (name, "-", "-" if not found.exists else f"{found.promise:.4g}", "-", "-", why)
        confidence = found.settings.get("confidence")
        notes = [] if confidence is None else [f"with probability {confidence:g}"]
        if refused := found.refused_groups:
            notes.append(f"refuses {', '.join(refused)}")
        return (
            name,
            shown,
            f"{max(each.promise for each in served):.4g}",
            f"{kept:.1%}",
            f"{true_kept:.1%}",
            "; ".join(notes),
        )


def compare_methods(
    methods: Iterable[str],
    scored: Claims | ScannedClaims,
    groups: Any,
    confidence: float | None,
    options: Any,
) -> MethodComparison:
    """Select by every method; `options` go to all of them."""
    found = {name: select_by(name, scored, groups, confidence, options) for name in methods}
    return MethodComparison(found, _counts(scored, groups, found))


def select_by(
    name: str, scored: Claims | ScannedClaims, groups: Any, confidence: float | None, options: Any
) -> Selection:
    """Select by one method, with what is computed on first use."""
    grouped = {} if groups is None else {"groups": groups}
    own = {"confidence": confidence} if name == "ltt" and confidence is not None else {}
    found: Selection = METHODS[name](scored, **grouped, **options, **own)
    found.to_dict()
    return found


def _counts(
    scored: Claims | ScannedClaims, groups: Any, found: dict[str, Selection]
) -> dict[str, KeptTrue]:
    """What each selection keeps of the claims."""
    if isinstance(scored, ScannedClaims):
        counted = scored.parts.reduce(CountKept(scored.columns, tuple(found.values())))
        return dict(zip(found, counted.each, strict=True))
    by_claim = None
    if groups is not None:
        assert scored.items is not None
        by_item = np.array([str(groups[name]) for name in scored.items.tolist()])
        by_claim = np.repeat(by_item, np.diff(scored.offsets))
    return {
        name: KeptTrue.of(each, scored.scores, scored.supported, by_claim)
        for name, each in found.items()
    }


@dataclass(frozen=True)
class CountKept:
    """A kernel that counts what several selections keep of claims in parts."""

    names: ClaimColumns
    selections: tuple[Selection, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        groups = () if self.names.groups is None else (self.names.groups,)
        return (self.names.scores, self.names.supported, *groups)

    def partial(self, columns: Columns) -> Several:
        """The counts of a part, whose values were checked when the methods read them."""
        scores, true = columns[self.names.scores], columns[self.names.supported].astype(np.bool_)
        groups = None if self.names.groups is None else columns[self.names.groups].astype(str)
        return Several(tuple(KeptTrue.of(each, scores, true, groups) for each in self.selections))
