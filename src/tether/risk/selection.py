"""What a method found: the threshold, what is promised for it, and what is not."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tether._core import records, validate
from tether._core.types import Floats

KIND = "tether selection"
WORDS = ("method", "loss", "safer", "guarantee", "warnings", "pooled")
"""Entries that hold words, whatever the user called a loss or a group."""


@dataclass(frozen=True)
class Stability:
    """How far the threshold moves when one item is replaced, and the bound that this implies.

    `epsilon` averages over the items the largest move on replacing that item by one that costs
    nothing or the bound at every threshold; `largest` is the worst. `bound` is
    alpha + lipschitz · epsilon (never more than the loss bound), where a constant was given.
    """

    epsilon: float
    largest: float
    lipschitz: float | None = None
    bound: float | None = None


@dataclass(frozen=True, eq=False)
class Selection:
    """A threshold and its guarantee. Keep what scores at least `threshold`.

    `exists` is False when no threshold passes: then `threshold` is the safest there is (of those
    given; where every score is a candidate, +inf, or −inf where smaller is safer) and nothing is
    promised beyond what that does. `risk` is the risk
    that was compared with alpha (LTT: the mean loss). `parts` holds one selection a loss when
    there are several, `groups` one a group; `warnings` says in words what to look at.
    """

    method: str
    threshold: float
    exists: bool
    risk: float
    alpha: float
    bound: float
    loss: str
    safer: str
    items: int
    effective_sample_size: float
    candidates: int
    monotone: bool
    faults: int
    faulty: tuple[int, ...]
    guarantee: str
    warnings: tuple[str, ...] = ()
    stability: Stability | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    curve_thresholds: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    curve_risks: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    parts: tuple[Selection, ...] = ()
    groups: dict[str, Selection] = field(default_factory=dict)
    pooled: tuple[str, ...] = ()

    def curve(self) -> tuple[Floats, Floats]:
        """Thresholds, rising, and the risk at each: every candidate, or up to 1,001 of them."""
        return self.curve_thresholds, self.curve_risks

    def for_group(self, group: Any) -> Selection:
        """The selection of one group; small groups share that of the pool."""
        name = str(group)
        if name in self.pooled:
            name = POOL
        if name not in self.groups:
            known = ", ".join(repr(key) for key in (*self.groups, *self.pooled) if key != POOL)
            raise ValueError(f"groups: {str(group)!r} was not calibrated; known: {known or 'none'}")
        return self.groups[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `json.dumps` takes: numbers, words, lists, dictionaries of them."""
        content = {item.name: _plain(getattr(self, item.name)) for item in fields(self)}
        if self.stability is not None:
            content["stability"] = vars(self.stability).copy()
        content["parts"] = [part.to_dict() for part in self.parts]
        content["groups"] = {name: part.to_dict() for name, part in self.groups.items()}
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Selection:
        """Undo `to_dict`."""
        values = dict(content)
        if values["stability"] is not None:
            values["stability"] = Stability(**values["stability"])
        values["parts"] = tuple(cls.from_dict(part) for part in values["parts"])
        values["groups"] = {name: cls.from_dict(part) for name, part in values["groups"].items()}
        for name in ("faulty", "warnings", "pooled"):
            values[name] = tuple(values[name])
        for name in ("curve_thresholds", "curve_risks"):
            values[name] = validate.frozen(np.asarray(values[name], dtype=np.float64))
        return cls(**values)

    def save(self, path: str | Path) -> None:
        """Write as JSON."""
        records.write(path, KIND, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Selection:
        """Read what `save` wrote."""
        return cls.from_dict(records.read(path, KIND, WORDS))

    def __str__(self) -> str:
        if self.groups:
            lines = [f"{self.method}: one threshold a group"]
        else:
            lines = [f"{self.method}: {_verdict(self)}", *_facts(self)]
        for part in self.parts:
            flag = "" if part.monotone else ", not monotone in the threshold"
            lines.append(
                f"  loss        {part.loss}: {part.risk:.4g} for alpha {part.alpha:g}{flag}"
            )
        for name, part in self.groups.items():
            lines.append(f"  group       {name}: {_verdict(part)} ({part.items:,} items)")
        if self.pooled:
            lines.append(f"  pooled      {', '.join(self.pooled)}")
        lines.append(f"  guarantee   {self.guarantee}")
        if self.stability is not None:
            moved = f"one item replaced moves the threshold by {self.stability.epsilon:.3g}"
            lines.append(f"  stability   {moved} on average, {self.stability.largest:.3g} at most")
        lines += [f"  warning     {warning}" for warning in self.warnings]
        return "\n".join(lines)


POOL = "(pooled)"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _verdict(found: Selection) -> str:
    if not found.exists:
        return f"no threshold passes at alpha {found.alpha:g}"
    return f"keep what scores at least {found.threshold:.6g}"


def _facts(found: Selection) -> list[str]:
    size = f"{found.items:,} items, {found.candidates:,} candidates"
    if found.effective_sample_size < found.items:
        size += f", effective sample size {found.effective_sample_size:,.1f}"
    settings = ", ".join(f"{name} {value}" for name, value in found.settings.items())
    return [
        f"  loss        {found.loss} in [0, {found.bound:g}]"
        + ("" if found.monotone or found.parts else ", not monotone in the threshold"),
        f"  risk        {found.risk:.4g} for alpha {found.alpha:g}"
        + (f" ({settings})" if settings else ""),
        f"  calibrated  on {size}",
    ]
