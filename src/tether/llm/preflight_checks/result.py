"""The results of a preflight: checks with their status, and what a tether would cost."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from tether._core import records, validate
from tether._core.description import DESCRIPTION_WIDTH

STATUSES = ("pass", "warn", "fail")
NOISE_FLOOR = "noise floor"
"""Part of the names of the checks that measure how far rounding moves scores."""
TEXT_FIELDS = (*records.TEXT_ENTRIES, "status", "measured", "advice")
"""Entries of saved results that are text, even if the text reads like a number."""
DIVERGENCE = "KL"
"""How the names of the checks of divergences start."""
NEAR_DIVERGENCE, MAX_DIVERGENCE = 2.0, 10.0
"""Nats up to which mix passes a share worth having, and above which clip accepts hardly any draw.

In the table of `benchmarks.token_level` mix passes a share at 1 nat and, in a first round, hardly
any at 5; a limit of 2 lies between the two and was not measured itself.
"""


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
    warn  end of sequence
          8 of 8 were cut off
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
        """Return status and name on one line, and below it what was measured, and advice.

        Returns
        -------
        str
            What printing the check shows.
        """
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        """The lines of the summary."""
        lines = [f"{self.status:<4}  {self.name}", *_wrapped(self.measured, 6)]
        if self.advice and self.status != "pass":
            lines += _wrapped(f"→ {self.advice}", 6)
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
        return math.exp(self.log_ratio_error)

    @property
    def log_ratio_error(self) -> float:
        """The log of `ratio_error`, in nats."""
        return sum(check.value for check in self.checks if NOISE_FLOOR in check.name)

    @property
    def divergence(self) -> float | None:
        """The larger Kullback–Leibler divergence of the two policies, in nats per answer.

        None if it was not measured.
        """
        values = [check.value for check in self.checks if check.name.startswith(DIVERGENCE)]
        return max(0.0, *values) if values else None

    @property
    def advice(self) -> str:
        """Which family fits the distance of the two policies, in words; empty if it is unknown."""
        draws = [cost.draws for cost in self.costs if cost.family == "clip"]
        nats = self.divergence
        if nats is None or not draws:
            return ""
        most = f"clip takes up to {max(draws):.2g} draws per answer"
        if nats <= NEAR_DIVERGENCE:
            fits = f"near enough for every family: {most}, mix one, best of N takes N at once"
        elif nats <= MAX_DIVERGENCE:
            fits = f"{most}; mix passes hardly any share; best of N works at any distance"
        else:
            fits = "too far for clip and mix, which hardly move: use best of N"
        return f"at {nats:.2g} nats per answer: {fits}"

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
        lines += [f"  {line}" for check in self.checks for line in check._lines()]
        if any(NOISE_FLOOR in check.name for check in self.checks):
            lines += _wrapped(
                f"rounding changes ratios of probabilities by at most "
                f"{100 * math.expm1(self.log_ratio_error):.2g} % (ratio_error)",
                2,
            )
        if self.costs:
            lines.append(f"  {'family':<6} {'beta':>8} {'acceptance':>11} {'draws per action':>17}")
        lines += [
            f"  {cost.family:<6} {cost.beta:>8g} {cost.acceptance:>11.3g} {cost.draws:>17.3g}"
            for cost in self.costs
        ]
        if self.advice:
            lines += _wrapped(f"→ {self.advice}", 2)
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


def _wrapped(text: str, indent: int) -> list[str]:
    """A text in lines of the width of a printed description, below each other."""
    return textwrap.wrap(
        text,
        DESCRIPTION_WIDTH - 2,  # a preflight indents its checks
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2 * text.startswith("→")),
        break_long_words=False,
        break_on_hyphens=False,
    )
