"""What is read of all rows first: how many there are, and the ranges of their values.

Every value is validated in this pass, and whatever can be told from one row is an error there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether._core.kernels import merge_all
from tether._core.types import Floats
from tether.control.parts.row_hashes import FIRST_SEED, row_hashes
from tether.control.parts.rows import LogPart, ProposalsPart, Range, value_range
from tether.control.parts.shared_draws import SharedDraws
from tether.control.score_checks import MIN_ROWS_OF_PROBABILITIES, refuse_probabilities

NO_RANGE: Range = (np.inf, -np.inf)


@dataclass(frozen=True)
class LogSurvey:
    """Counts and ranges of the rows of a log; ranges of nothing are (inf, −inf)."""

    rows: int
    largest_loss: tuple[float, ...]
    scores: tuple[Range, Range]
    """The ranges of log_safe and log_optimized, −inf included."""
    ratio: Range
    """The range of finite log ratios of the rows."""
    log_base: Range
    acted_ratio: float = -np.inf
    """The largest log ratio of a row to the policy that acted, where it is known."""
    drawn_ratio: Range = NO_RANGE
    """The range of finite log ratios in tables, or of stored draws."""
    zeros: bool = False
    """Whether the optimized policy never takes some action that the safe one does."""
    outside: bool = False
    """Whether tables or draws have an action that only the optimized policy takes."""
    common: bool = True
    """Whether some action of tables or draws is possible under both policies."""
    actions: int | None = None
    listed_safe: Range = NO_RANGE
    """The range of log_safe in tables."""
    draws: tuple[int, int] | None = None
    """How many stored draws of the safe and of the optimized policy each row has."""
    shared: SharedDraws | None = None
    """How many rows have the same stored draws."""

    @classmethod
    def of(cls, part: LogPart) -> LogSurvey:
        """The survey of one part."""
        base = np.zeros(1) if part.log_mix is None else part.log_safe - part.log_mix
        scores = part.score_ranges
        zeros = scores[1][0] == -np.inf
        found = {
            "rows": len(part),
            "largest_loss": tuple(high for _, high in part.loss_ranges.values()),
            "scores": scores,
            "ratio": finite_range(part.log_ratio, part.ratio_range),
            "log_base": value_range(base),
            "acted_ratio": _acted_ratio(part),
            "zeros": zeros,
        }
        listed = listed_scores(part)
        if listed is not None:
            safe, optimized = listed
            with np.errstate(invalid="ignore"):
                drawn = optimized - safe
            found |= {
                "drawn_ratio": finite_range(drawn),
                "zeros": zeros or bool((np.isneginf(optimized) & (safe > -np.inf)).any()),
                "outside": bool((np.isneginf(safe) & (optimized > -np.inf)).any()),
                "common": bool((np.minimum(safe, optimized) > -np.inf).any()),
            }
        if part.log_safe_all is not None:
            found["actions"] = part.log_safe_all.shape[1]
            found["listed_safe"] = value_range(part.log_safe_all)
        if part.draws:
            found["draws"] = tuple(
                part.draws[f"{policy}_draws.log_safe"].shape[1] for policy in ("safe", "optimized")
            )
            drawn_columns = [part.draws[name] for name in sorted(part.draws)]
            found["shared"] = SharedDraws.of(row_hashes(drawn_columns, FIRST_SEED))
        return cls(**found)  # type: ignore[arg-type]

    def merge(self, other: LogSurvey) -> LogSurvey:
        """The survey of both."""
        for name in ("actions", "draws"):
            if getattr(self, name) != getattr(other, name):
                what = "actions in their tables" if name == "actions" else "stored draws"
                raise ValueError(
                    f"the rows of the log do not have the same number of {what}: "
                    f"{getattr(self, name)} and {getattr(other, name)}"
                )
        return LogSurvey(
            rows=self.rows + other.rows,
            largest_loss=tuple(map(max, self.largest_loss, other.largest_loss)),
            scores=(join(self.scores[0], other.scores[0]), join(self.scores[1], other.scores[1])),
            ratio=join(self.ratio, other.ratio),
            log_base=join(self.log_base, other.log_base),
            acted_ratio=max(self.acted_ratio, other.acted_ratio),
            drawn_ratio=join(self.drawn_ratio, other.drawn_ratio),
            zeros=self.zeros or other.zeros,
            outside=self.outside or other.outside,
            common=self.common or other.common,
            actions=self.actions,
            listed_safe=join(self.listed_safe, other.listed_safe),
            draws=self.draws,
            shared=merge_all((self.shared, other.shared)),
        )

    def check(self) -> None:
        """Refuse columns that hold probabilities rather than their logarithms."""
        refuse_ranges(self.rows, self.scores)


@dataclass(frozen=True)
class ProposalsSurvey:
    """The same of proposals."""

    rows: int
    safe_rows: int
    scores: tuple[Range, Range]
    ratio: Range
    """The range of finite log ratios."""
    largest_ratio: float
    """The largest log ratio of a draw that the safe policy can make; −inf if there is none."""
    log_base: Range
    zeros: bool
    outside: int
    common: bool

    @classmethod
    def of(cls, part: ProposalsPart) -> ProposalsSurvey:
        """The survey of one part."""
        safe, optimized = part.log_safe, part.log_optimized
        with np.errstate(invalid="ignore"):
            ratio = optimized - safe
        possible = safe > -np.inf
        base = np.zeros(1) if part.log_mix is None else (safe - part.log_mix)[possible]
        return cls(
            rows=len(part),
            safe_rows=int(part.from_safe.sum()),
            scores=(value_range(safe), value_range(optimized)),
            ratio=finite_range(ratio),
            largest_ratio=float(ratio.max(initial=-np.inf, where=possible)),
            log_base=value_range(base),
            zeros=bool((np.isneginf(optimized) & possible).any()),
            outside=int((~possible).sum()),
            common=bool((np.minimum(safe, optimized) > -np.inf).any()),
        )

    def merge(self, other: ProposalsSurvey) -> ProposalsSurvey:
        """The survey of both."""
        return ProposalsSurvey(
            rows=self.rows + other.rows,
            safe_rows=self.safe_rows + other.safe_rows,
            scores=(join(self.scores[0], other.scores[0]), join(self.scores[1], other.scores[1])),
            ratio=join(self.ratio, other.ratio),
            largest_ratio=max(self.largest_ratio, other.largest_ratio),
            log_base=join(self.log_base, other.log_base),
            zeros=self.zeros or other.zeros,
            outside=self.outside + other.outside,
            common=self.common or other.common,
        )

    def check(self) -> None:
        """Refuse columns that hold probabilities, unless one column holds log ratios."""
        if self.scores[0] != (0.0, 0.0):
            refuse_ranges(self.rows, self.scores)


def refuse_ranges(rows: int, scores: Sequence[Range]) -> None:
    """Refuse columns of scores whose ranges are those of probabilities."""
    for name, (low, high) in zip(("log_safe", "log_optimized"), scores, strict=True):
        if rows >= MIN_ROWS_OF_PROBABILITIES and low >= 0:
            # The check looks at the range and the number of values only.
            refuse_probabilities(name, np.linspace(low, high, MIN_ROWS_OF_PROBABILITIES))


def join(first: Range, second: Range) -> Range:
    """The smallest range with both in it."""
    return min(first[0], second[0]), max(first[1], second[1])


def finite_range(values: Floats, all_values: Range | None = None) -> Range:
    """The range of the finite values; that of all values may be given, where it is known."""
    low, high = all_values or value_range(values)
    if np.isfinite(low) and np.isfinite(high):
        return low, high
    finite = np.isfinite(values)
    return (
        float(values.min(initial=np.inf, where=finite)),
        float(values.max(initial=-np.inf, where=finite)),
    )


def _acted_ratio(part: LogPart) -> float:
    if part.acting is not None:
        return float((part.log_optimized - part.acting.log_logged).max())
    return part.ratio_range[1] if part.log_mix is None else -np.inf


def listed_scores(part: LogPart) -> tuple[Floats, Floats] | None:
    """The scores of all actions in the tables, or of all stored draws, one after the other."""
    if part.log_safe_all is not None and part.log_optimized_all is not None:
        return part.log_safe_all, part.log_optimized_all
    if not part.draws:
        return None
    scores = [
        np.concatenate([part.draws[f"{policy}_draws.{name}"].ravel() for policy in _POLICIES])
        for name in ("log_safe", "log_optimized")
    ]
    return scores[0], scores[1]


_POLICIES = ("safe", "optimized")
