"""What a preflight found: checks that passed or not, and what a tether would cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tether._core import records, validate

STATUSES = ("pass", "warn", "fail")


@dataclass(frozen=True)
class Check:
    """One thing that was measured, and what to do about it."""

    name: str
    status: str
    """"pass", "warn" or "fail"."""
    value: float
    measured: str
    """The value in words."""
    advice: str = ""
    """What to do, where it did not pass."""

    def __post_init__(self) -> None:
        validate.choice("status", self.status, STATUSES)


@dataclass(frozen=True)
class Cost:
    """What an answer costs at one beta."""

    family: str
    beta: float
    acceptance: float
    """The share of draws that is kept, on average over prompts."""
    draws: float
    """Expected draws for one answer, on average over prompts."""


@dataclass(frozen=True)
class Preflight:
    """Whether the numbers of two language policies can be trusted, and what a tether costs."""

    checks: tuple[Check, ...]
    costs: tuple[Cost, ...]
    prompts: int
    draws: int
    """Draws of each policy at each prompt."""

    @property
    def passed(self) -> bool:
        """Whether nothing failed; warnings are for the reader to judge."""
        return all(check.status != "fail" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "passed": self.passed}

    def save(self, path: str | Path) -> None:
        """Write everything as JSON."""
        records.write(path, "preflight", self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        words = (*records.TEXT_ENTRIES, "status", "measured", "advice")
        saved = records.read(path, "preflight", words)
        saved.pop("passed")
        return cls(
            checks=tuple(Check(**each) for each in saved.pop("checks")),
            costs=tuple(Cost(**each) for each in saved.pop("costs")),
            **saved,
        )

    def __str__(self) -> str:
        counts = {status: sum(c.status == status for c in self.checks) for status in STATUSES}
        told = ", ".join(f"{count} {status}" for status, count in counts.items())
        lines = [
            f"preflight on {self.prompts} prompt(s), {self.draws} draws of each policy: {told}"
        ]
        wide = max(len(check.name) for check in self.checks)
        for check in self.checks:
            lines.append(f"  {check.status:<4}  {check.name:<{wide}}  {check.measured}")
            if check.advice and check.status != "pass":
                lines.append(f"  {'':<4}  {'':<{wide}}  → {check.advice}")
        if self.costs:
            lines.append(f"  {'family':<6} {'beta':>8} {'acceptance':>11} {'draws an answer':>16}")
        lines += [
            f"  {each.family:<6} {each.beta:>8g} {each.acceptance:>11.3g} {each.draws:>16.3g}"
            for each in self.costs
        ]
        return "\n".join(lines)
