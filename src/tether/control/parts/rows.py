"""The rows of one part as a small log, and which columns of the source they are read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tether._core import frames
from tether._core.types import Floats
from tether.control.acting import Acting
from tether.control.log import Log
from tether.control.proposals import SOURCES, Proposals

TABLE_NAMES = ("log_safe_all", "log_optimized_all", "log_mix_all")
DRAW_NAMES = ("safe_draws", "optimized_draws")


Range = tuple[float, float]
"""The smallest and the largest of some values."""


def value_range(values: Floats) -> Range:
    """The range of some values, which is (inf, −inf) for none."""
    return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))


class LogPart(Log):
    """Some rows of a log: what can only be told from all rows is not checked here."""

    draws: dict[str, Floats]

    @cached_property
    def log_ratio(self) -> Floats:
        """The log ratio of every row, which several kernels need."""
        return self.log_optimized - self.log_safe

    @cached_property
    def ratio_range(self) -> Range:
        """The range of the log ratios, −inf included."""
        return value_range(self.log_ratio)

    @cached_property
    def score_ranges(self) -> tuple[Range, Range]:
        """The ranges of log_safe and log_optimized, −inf included."""
        return value_range(self.log_safe), value_range(self.log_optimized)

    @cached_property
    def loss_ranges(self) -> dict[str, Range]:
        """The range of each loss."""
        return {name: value_range(loss) for name, loss in self.loss.items()}

    def in_range(self) -> bool:
        """Whether losses and scores are what a log accepts; a range with NaN in it is not."""
        safe, optimized = self.score_ranges
        losses = self.loss_ranges.values()
        return (
            -np.inf < safe[0] <= safe[1] < np.inf
            and -np.inf <= optimized[0] <= optimized[1] < np.inf
            and all(0 <= low <= high < np.inf for low, high in losses)
        )

    def _refuse_probabilities(self) -> None:
        """A part may hold log-densities between 0 and 1 by chance."""


class ProposalsPart(Proposals):
    """Some draws of proposals, likewise."""

    def _refuse_probabilities(self) -> None:
        """A part may hold log-densities between 0 and 1 by chance."""


@dataclass(frozen=True)
class LogColumns:
    """The columns of the source that make a log; each table is several columns or one of lists.

    `draws` has, for each policy, the columns of lists with the log-probabilities of its draws in
    the context of the row under the safe policy, the optimized policy, and (if the log has one)
    the mixture.
    """

    loss: tuple[tuple[str, str], ...]
    single_loss: bool
    log_safe: str
    log_optimized: str
    log_mix: str | None = None
    tables: tuple[tuple[str, tuple[str, ...]], ...] = ()
    draws: tuple[tuple[str, tuple[str, ...]], ...] = ()
    reward: str | None = None
    safe_share: float | None = None
    max_ratio: float | None = None
    log_logged: str | None = None
    log_base_limit: str | None = None

    def columns(self, *, tables: bool, reward: bool) -> tuple[str, ...]:
        """The columns that are read, with or without those of tables, draws and rewards."""
        named = [column for _, column in self.loss] + [self.log_safe, self.log_optimized]
        acting = (self.log_logged, self.log_base_limit)
        named += [name for name in (self.log_mix, *acting) if name]
        if tables:
            named += [name for _, several in (*self.tables, *self.draws) for name in several]
        named += [self.reward] if reward and self.reward else []
        return tuple(dict.fromkeys(named))

    def read(self, frame: Any, *, tables: bool, reward: bool, check: bool) -> LogPart:
        """The rows of a part; with `check` every value is validated."""
        losses = {name: frames.column(frame, "loss", column) for name, column in self.loss}
        listed = {name: _table(frame, several) for name, several in self.tables} if tables else {}
        values: dict[str, Any] = {
            "log_mix": None if self.log_mix is None else frames.column(frame, "", self.log_mix),
            "reward": None
            if self.reward is None or not reward
            else frames.column(frame, "reward", self.reward),
        }
        safe = frames.column(frame, "log_safe", self.log_safe)
        optimized = frames.column(frame, "log_optimized", self.log_optimized)
        part: LogPart | None = None
        if not check or self._known_by_ranges((safe, optimized, *losses.values())):
            part = self._unchecked(losses, safe, optimized, {**values, **listed})
        if part is None or (check and not part.in_range()):
            loss: Any = losses["loss"] if self.single_loss else losses
            stated: dict[str, Any] = {"safe_share": self.safe_share, "max_ratio": self.max_ratio}
            part = LogPart(loss, safe, optimized, **{**values, **listed, **stated})
        part.draws = _draws(frame, self.draws, check) if tables else {}
        part.acting = self._acting(frame)
        return part

    def _known_by_ranges(self, columns: Sequence[Any]) -> bool:
        """Whether the ranges of some columns tell all that is checked; the survey needs them too.

        So it is for losses and scores alone, if they are floats already, one per row.
        """
        others = (self.log_mix, self.reward, self.safe_share, self.max_ratio)
        if self.tables or self.draws or any(each is not None for each in others):
            return False
        return (
            all(
                type(each) is np.ndarray and each.dtype == np.float64 and each.ndim == 1
                for each in columns
            )
            and len({len(each) for each in columns}) == 1
        )

    def _acting(self, frame: Any) -> Acting | None:
        """The densities of the policies that acted, if they are stated."""
        if self.log_logged is None:
            return None
        limit = None
        if self.log_base_limit is not None:
            limit = _floats(frames.column(frame, "log_base_limit", self.log_base_limit))
        logged = _floats(frames.column(frame, "log_logged", self.log_logged))
        return Acting(logged, log_base_limit=limit)

    def _unchecked(
        self, losses: dict[str, Any], safe: Any, optimized: Any, others: Mapping[str, Any]
    ) -> LogPart:
        part = LogPart.__new__(LogPart)
        part.loss = {name: _floats(values) for name, values in losses.items()}
        part.log_safe, part.log_optimized = _floats(safe), _floats(optimized)
        part.safe_share = 1.0 if self.log_mix is None else self.safe_share
        part.max_ratio, part.context, part.acting = self.max_ratio, None, None
        part.approximate, part.ratio_error = None, 1.0
        for name in ("log_mix", "reward", *TABLE_NAMES):
            values = others.get(name)
            setattr(part, name, None if values is None else _floats(values))
        return part


@dataclass(frozen=True)
class ProposalColumns:
    """The columns of the source that make proposals; `source` is a column or a policy."""

    log_safe: str
    log_optimized: str
    log_mix: str | None = None
    source: str = "optimized"
    source_is_column: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        named = [self.log_safe, self.log_optimized]
        named += [self.log_mix] if self.log_mix else []
        named += [self.source] if self.source_is_column else []
        return tuple(dict.fromkeys(named))

    def read(self, frame: Any) -> ProposalsPart:
        """The draws of a part, validated."""
        source: Any = self.source
        if self.source_is_column:
            source = frames.column(frame, "source", self.source)
        elif source not in SOURCES:
            raise ValueError(f"source must be one of {SOURCES} or a column, got {source!r}")
        return ProposalsPart(
            frames.column(frame, "log_safe", self.log_safe),
            frames.column(frame, "log_optimized", self.log_optimized),
            log_mix=None if self.log_mix is None else frames.column(frame, "", self.log_mix),
            source=source,
        )


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _table(frame: Any, columns: tuple[str, ...]) -> Floats:
    """One column of lists, or several columns side by side."""
    arrays = [frames.column(frame, "table", name) for name in columns]
    if len(arrays) == 1 and arrays[0].ndim == 2:
        return _floats(arrays[0])
    if len(arrays) == 1 and arrays[0].dtype == object:
        return _floats(np.stack([np.asarray(each) for each in arrays[0]]))
    return np.column_stack(arrays)


def _draws(frame: Any, named: Any, check: bool) -> dict[str, Floats]:
    """The stored draws of each row, by policy and score; −inf is allowed under the other policy."""
    from tether._core import validate

    found = {}
    for policy, columns in named:
        for score, column in zip(("log_safe", "log_optimized", "log_mix"), columns, strict=False):
            table = _table(frame, (column,))
            name = f"{policy}[{column!r}]"
            if check:
                own = score == f"log_{policy.partition('_')[0]}"
                table = validate.log_probabilities(name, table, ndim=2, zero=not own)
            found[f"{policy}.{score}"] = table
    return found
