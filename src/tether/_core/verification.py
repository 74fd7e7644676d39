"""What a verification found: one line for each thing that was checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MARKS = {True: "ok", False: "WRONG", None: "not checked"}
"""How the outcome of a check is shown."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, and whether it holds; None if it could not be checked."""

    name: str
    ok: bool | None
    text: str

    def __str__(self) -> str:
        return f"{MARKS[self.ok]:<11}  {self.name}: {self.text}"


@dataclass(frozen=True)
class Verification:
    """Everything that was checked of a file or a store."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether something was checked and nothing is wrong."""
        return bool(self.findings) and not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(finding for finding in self.findings if finding.ok is False)

    def to_dict(self) -> dict[str, Any]:
        """The subject, the findings and whether all is well, as plain values."""
        return {**asdict(self), "findings": [asdict(each) for each in self.findings], "ok": self.ok}

    def __str__(self) -> str:
        checked = sum(finding.ok is not None for finding in self.findings)
        outcome = f"{len(self.problems)} of {checked} checks failed"
        if self.ok:
            outcome = f"all {checked} checks passed"
        return "\n".join([f"{self.subject}: {outcome}", *(f"  {each}" for each in self.findings)])
