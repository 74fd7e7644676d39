"""The results of a preflight: checks with their status, and what a tether would cost."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from tether._core import records, validate

STATUSES = ("pass", "warn", "fail")
NOISE_FLOOR = "noise floor"
"""Part of the names of the checks that measure how far rounding moves scores."""
TEXT_FIELDS = (*records.TEXT_ENTRIES, "status", "measured", "advice")
"""Entries of saved results that are text, even if the text reads like a number."""


class _Record(records.Saved):
    """A frozen record that prints, converts to a dictionary, saves as JSON and loads again."""

    _text_entries: ClassVar[tuple[str, ...]] = TEXT_FIELDS

    def summary(self) -> str:
        """Return the result as text for reading.

        Returns
        -------
        str
            What printing the result shows.
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values.

        Returns
        -------
        dict
            Field names and values.
        """
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        return cls(**saved)

    def __str__(self) -> str:
        return self.summary()


@dataclass(frozen=True)
class Check(_Record):
    """One check of a preflight: what was measured, and what to do about it.

    Parameters
    ----------
    name : str
        What was checked.
    status : {'pass', 'warn', 'fail'}
        The outcome.
    value : float
        The measured value.
    measured : str
        The measured value in words.
    advice : str, optional
        What to do if the check did not pass.

    Examples
    --------
    >>> from tether.llm import Check
    >>> print(Check("end of sequence", "warn", 1.0, "8 of 8 were cut off", "raise max_new_tokens"))
    warn  end of sequence  8 of 8 were cut off
                           → raise max_new_tokens
    """

    _kind = "check"

    name: str
    status: str
    value: float
    measured: str
    advice: str = ""

    def __post_init__(self) -> None:
        validate.choice("status", self.status, STATUSES)

    def summary(self) -> str:
        """Return status, name and measured value on one line, and advice on a second.

        Returns
        -------
        str
            What printing the check shows.
        """
        return "\n".join(self._lines(len(self.name)))

    def _lines(self, width: int) -> list[str]:
        """The lines of the summary, with the name padded to a width."""
        lines = [f"{self.status:<4}  {self.name:<{width}}  {self.measured}"]
        if self.advice and self.status != "pass":
            lines.append(f"{'':<4}  {'':<{width}}  → {self.advice}")
        return lines


@dataclass(frozen=True)
class Cost(_Record):
    """The expected cost of one action of a tethered policy at one beta.

    Parameters
    ----------
    family : str
        The family that turns beta into a policy: 'clip' or 'mix'.
    beta : float
        The control parameter.
    acceptance : float
        The acceptance rate, averaged over prompts.
    draws : float
        The expected number of draws per action, averaged over prompts.

    Examples
    --------
    >>> from tether.llm import Cost
    >>> print(Cost("clip", 1.0, 0.5, 2.0))
    clip at beta 1: acceptance rate 0.5, 2 draws per action
    """

    _kind = "cost"

    family: str
    beta: float
    acceptance: float
    draws: float

    def summary(self) -> str:
        """Return the cost on one line.

        Returns
        -------
        str
            What printing the cost shows.
        """
        return (
            f"{self.family} at beta {self.beta:g}: acceptance rate {self.acceptance:.3g}, "
            f"{self.draws:.3g} draws per action"
        )


@dataclass(frozen=True)
class Preflight(_Record):
    """Whether the scores of two language policies can be trusted, and what a tether would cost.

    Parameters
    ----------
    checks : tuple of Check
        The checks of each policy, then of both together.
    costs : tuple of Cost
        Acceptance rates and draws per action at a few betas.
    prompts : int
        The number of prompts.
    draws : int
        The number of draws of each policy at each prompt.
    """

    _kind = "preflight"

    checks: tuple[Check, ...]
    costs: tuple[Cost, ...]
    prompts: int
    draws: int

    @property
    def passed(self) -> bool:
        """Whether no check failed; warnings are for the reader to judge."""
        return all(check.status != "fail" for check in self.checks)

    @property
    def ratio_error(self) -> float:
        """The factor by which rounding alone may change a ratio of the two policies' densities.

        The log ratio is off by at most the noise floors of both policies together. Pass it to
        `tether.calibrate` as `ratio_error`.
        """
        floors = [check.value for check in self.checks if NOISE_FLOOR in check.name]
        return math.exp(sum(floors))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values.

        Returns
        -------
        dict
            Field names and values, `passed` and `ratio_error`.
        """
        return {**super().to_dict(), "passed": self.passed, "ratio_error": self.ratio_error}

    def summary(self) -> str:
        """Return all checks and costs as a table.

        Returns
        -------
        str
            What printing the result shows.
        """
        counts = {
            status: sum(check.status == status for check in self.checks) for status in STATUSES
        }
        totals = ", ".join(f"{count} {status}" for status, count in counts.items())
        lines = [
            f"preflight on {self.prompts} prompt(s), {self.draws} draws of each policy: {totals}"
        ]
        width = max(len(check.name) for check in self.checks)
        lines += [f"  {line}" for check in self.checks for line in check._lines(width)]
        if any(NOISE_FLOOR in check.name for check in self.checks):
            lines.append(f"  rounding changes ratios by a factor of up to {self.ratio_error:.4g}")
        if self.costs:
            lines.append(f"  {'family':<6} {'beta':>8} {'acceptance':>11} {'draws per action':>17}")
        lines += [
            f"  {cost.family:<6} {cost.beta:>8g} {cost.acceptance:>11.3g} {cost.draws:>17.3g}"
            for cost in self.costs
        ]
        return "\n".join(lines)

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Self:
        for derived in ("passed", "ratio_error"):
            saved.pop(derived, None)
        return cls(
            checks=tuple(Check(**check) for check in saved.pop("checks")),
            costs=tuple(Cost(**cost) for cost in saved.pop("costs")),
            **saved,
        )
