"""A log and proposals whose rows are read in parts, from a source that applies kernels to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tether._core.kernels import Kernel, Several
from tether.control.parts.rows import LogColumns, LogPart, ProposalColumns
from tether.control.parts.survey import LogSurvey, ProposalsSurvey


class Source(Protocol):
    """Rows that are only seen through kernels."""

    def reduce(self, kernel: Kernel) -> Any:
        """The summaries of all parts, merged; None if there are no rows."""
        ...


class LogKernel(Protocol):
    """What is computed from the rows of a part."""

    def of(self, part: LogPart) -> Any:
        """The summary of a part."""
        ...


@dataclass(frozen=True)
class _OnLog:
    """Kernels on the rows of a log, read from the columns of a source; with a survey of them."""

    log: LogColumns
    kernels: tuple[Any, ...]
    tables: bool
    reward: bool
    survey: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return self.log.columns(tables=self.tables, reward=self.reward)

    def partial(self, columns: Any) -> Several:
        part = self.log.read(columns, tables=self.tables, reward=self.reward, check=self.survey)
        found = (LogSurvey.of(part),) if self.survey else ()
        return Several((*found, *(each.of(part) for each in self.kernels)))


@dataclass(frozen=True)
class _OnProposals:
    proposals: ProposalColumns
    kernels: tuple[Any, ...]
    survey: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return self.proposals.columns

    def partial(self, columns: Any) -> Several:
        part = self.proposals.read(columns)
        found = (ProposalsSurvey.of(part),) if self.survey else ()
        return Several((*found, *(each.of(part) for each in self.kernels)))


Survey = TypeVar("Survey", LogSurvey, ProposalsSurvey)


class _RowsInParts(Generic[Survey]):
    """Rows of a source, whose first pass surveys them; `passes` counts how often all were read."""

    what = "rows"
    unit = "rows"

    def __init__(self, source: Source) -> None:
        self.source, self.passes = source, 0
        self._survey: Survey | None = None

    @property
    def survey(self) -> Survey:
        """Counts and ranges of all rows, read when first needed."""
        if self._survey is None:
            self.reduce()
        assert self._survey is not None
        return self._survey

    def __len__(self) -> int:
        return self.survey.rows

    def reduce(self, *kernels: Any) -> tuple[Any, ...]:
        """The summaries of several kernels, in one pass; the first pass surveys the rows too."""
        raise NotImplementedError

    def _reduced(self, kernel: Kernel) -> tuple[Any, ...]:
        """The summaries of one pass, of which the first is a survey where there is none yet."""
        self.passes += 1
        found = self.source.reduce(kernel)
        if found is None:
            raise ValueError(f"the {self.what} no rows, at least one is needed: {self.source!r}")
        if self._survey is not None:
            return tuple(found.each)
        found.each[0].check()
        self._survey = found.each[0]
        return tuple(found.each[1:])

    @property
    def _read_so_far(self) -> str:
        return "not read yet" if self._survey is None else f"{self._survey.rows} {self.unit}"


class LogInParts(_RowsInParts[LogSurvey]):
    """A log larger than memory: what `tether.Log.scan` returns.

    Its rows are read when something is computed from them, as often as that needs. `passes` counts
    how often all of them were read.

    Parameters
    ----------
    source : Source
        Where the rows are.
    columns : LogColumns
        Which columns make the log.
    contexts : bool
        Whether the rows have contexts.
    """

    what = "log has"

    def __init__(self, source: Source, columns: LogColumns, *, contexts: bool) -> None:
        super().__init__(source)
        self.columns, self.has_contexts = columns, contexts
        self.approximate: str | None = None
        self.ratio_error = 1.0
        self.acting = None

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The names of the losses."""
        return tuple(name for name, _ in self.columns.loss)

    @property
    def has_tables(self) -> bool:
        """Whether the rows list all actions."""
        return bool(self.columns.tables)

    @property
    def has_draws(self) -> bool:
        """Whether draws are stored beside the rows."""
        return bool(self.columns.draws)

    @property
    def has_mixture(self) -> bool:
        """Whether several policies produced the rows."""
        return self.columns.log_mix is not None

    @property
    def safe_share(self) -> float | None:
        """The share of rows that the safe policy produced."""
        return self.columns.safe_share if self.has_mixture else 1.0

    @property
    def max_ratio(self) -> float | None:
        """A number that optimized over safe probability never exceeds."""
        return self.columns.max_ratio

    @property
    def contextual(self) -> bool:
        """Whether the log has contexts or tables, and so one normalizing constant per context."""
        return self.has_contexts or self.has_tables or self.has_draws

    def __repr__(self) -> str:
        return f"LogInParts({self._read_so_far}, losses {list(self.loss_names)}, {self.source!r})"

    def reduce(self, *kernels: LogKernel, reward: bool = False) -> tuple[Any, ...]:
        """The summaries of several kernels, in one pass; the first pass surveys the rows too."""
        first = self._survey is None
        kernel = _OnLog(
            self.columns,
            kernels,
            tables=self.has_tables or self.has_draws,
            reward=reward or (first and self.columns.reward is not None),
            survey=first,
        )
        return self._reduced(kernel)


class ProposalsInParts(_RowsInParts[ProposalsSurvey]):
    """Proposals larger than memory: what `tether.Proposals.scan` returns.

    Parameters
    ----------
    source : Source
        Where the draws are.
    columns : ProposalColumns
        Which columns make proposals.
    contexts : bool
        Whether the draws have contexts.
    """

    what, unit = "proposals have", "draws"

    def __init__(self, source: Source, columns: ProposalColumns, *, contexts: bool) -> None:
        super().__init__(source)
        self.columns, self.has_contexts = columns, contexts

    @property
    def has_mixture(self) -> bool:
        """Whether the draws state the mixture that produced the log."""
        return self.columns.log_mix is not None

    def __repr__(self) -> str:
        return f"ProposalsInParts({self._read_so_far}, {self.source!r})"

    def reduce(self, *kernels: Any) -> tuple[Any, ...]:
        """The summaries of several kernels, in one pass; the first pass surveys the draws too."""
        first = self._survey is None
        return self._reduced(_OnProposals(self.columns, kernels, survey=first))
