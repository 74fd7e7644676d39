"""Columns of probabilities in place of log-probabilities: what a table of decisions has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import tether
from tether._core import frames, validate
from tether._core.frames import NoSuchColumnError
from tether._core.types import Floats, Integers
from tether.cli.logarithm_source import Logarithms, LogarithmSource
from tether.cli.scanned_paths import location
from tether.cli.table_file import FileColumns
from tether.control.contradictions import ratio_contradiction
from tether.policies.propensities import (
    MAX_PROPENSITY,
    PROPENSITY_TOLERANCE,
    checked_propensities,
    max_ratio_of,
)

Logs = Callable[[Any], Floats]

PropensityOption = Annotated[
    str | None,
    typer.Option(
        help="The column of the safe policy's probabilities of the actions taken, instead of "
        "--log-safe."
    ),
]
ProbabilityOption = Annotated[
    str | None,
    typer.Option(
        help="The column of the optimized policy's probabilities of the same actions, instead of "
        "--log-optimized."
    ),
]
MinPropensityOption = Annotated[
    float | None,
    typer.Option(
        help="A number that the safe policy's probability of any action is not below, instead of "
        "--max-ratio."
    ),
]


ActionOption = Annotated[
    str | None,
    typer.Option(
        help="The column of the actions, which are compared with --propensity and "
        "--min-propensity. (default: action, if there is one)"
    ),
]


class DoubtfulColumnsError(ValueError):
    """Columns of probabilities of which each fits the place of the other."""


@dataclass(frozen=True)
class ProbabilityColumns:
    """Which columns hold probabilities, and the smallest one that the safe policy gives."""

    propensity: str | None = None
    probability: str | None = None
    min_propensity: float | None = None
    action: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        return [name for name in (self.propensity, self.probability) if name is not None]

    @property
    def options(self) -> dict[str, str]:
        """Which option names which column, that of the actions included."""
        given = {
            self.propensity: "--propensity",
            self.probability: "--probability",
            self.action or ("action" if self.names else None): "--action",
        }
        return {name: option for name, option in given.items() if name is not None}

    def scan(
        self,
        path: Path,
        condition: Any,
        log_safe: str,
        log_optimized: str,
        max_ratio: float | None,
        counted_as: Mapping[str, float],
    ) -> tuple[Any, float | None]:
        """Files in parts that have log-probabilities under these names, and max_ratio."""
        from tether.scan.source import open_source

        source = open_source(location(path), where=condition)
        names = source.names or []
        made = []
        for option, column, target, logs in self._made(log_safe, log_optimized):
            if column not in names:
                raise NoSuchColumnError(option, column, names)
            if target in names:
                raise ValueError(f"{option} {column}: there is a column {target!r} too")
            made.append((target, column, logs))
        if self.min_propensity is not None:
            self._refuse_max_ratio(max_ratio)
            lowest = validate.number("--min-propensity", self.min_propensity, above=0, below=1)
            max_ratio = 1 / lowest
        if not made and self.min_propensity is None and not counted_as:
            return source, max_ratio
        found = Logarithms(tuple(made), log_safe, self.min_propensity, counted_as)
        return LogarithmSource(source, found), max_ratio

    def _made(self, log_safe: str, log_optimized: str) -> Iterator[tuple[str, str, str, Logs]]:
        """Each option with its column, the name of its logarithms, and how they are made."""
        if self.propensity is not None:
            yield "--propensity", self.propensity, log_safe, _log_propensities
        if self.probability is not None:
            yield "--probability", self.probability, log_optimized, _log_probabilities

    def _refuse_max_ratio(self, max_ratio: float | None) -> None:
        if max_ratio is not None:
            raise ValueError(
                f"--min-propensity {self.min_propensity:g} and --max-ratio {max_ratio:g} state the "
                f"same thing: give --min-propensity without --max-ratio, or the other"
            )

    def read(
        self, table: FileColumns, log_safe: str, log_optimized: str, max_ratio: float | None
    ) -> tuple[FileColumns, float | None]:
        """The table with log-probabilities under the names that a log looks for, and max_ratio."""
        self._refuse_exchanged(table)
        arrays, known = dict(table.arrays), list(table.column_names)
        for option, column, target, logs in self._made(log_safe, log_optimized):
            if target in known:
                raise ValueError(f"{option} {column}: there is a column {target!r} too")
            arrays[target] = logs(frames.column(table, option, column))
            known.append(target)
        if self.min_propensity is not None:
            self._refuse_max_ratio(max_ratio)
            frames.column(FileColumns(known, arrays, table.missing), "log_safe", log_safe)
            max_ratio = max_ratio_of(self.min_propensity, arrays[log_safe], finite=True)
        return FileColumns(known, arrays, table.missing), max_ratio

    def _refuse_exchanged(self, table: FileColumns) -> None:
        """Refuse propensities that cannot be some where the other column can."""
        if self.propensity is None or self.probability in (None, self.propensity):
            return
        columns = {self.propensity: "--propensity", self.probability: "--probability"}
        if not set(columns) <= set(table.arrays):
            return
        safe, optimized = (
            validate.floats(option, table.arrays[column]) for column, option in columns.items()
        )
        lowest = self.min_propensity or 0.0
        if (safe > 0).all() and safe.min() >= lowest * (1 - PROPENSITY_TOLERANCE):
            return
        fits = (optimized > 0).all() and optimized.max() <= 1 and optimized.min() >= lowest
        if fits and safe.min() >= 0 and safe.max() <= 1:
            below = "is 0 in some rows" if safe.min() == 0 else f"falls to {safe.min():.3g}"
            raise DoubtfulColumnsError(
                f"are --propensity {self.propensity} and --probability {self.probability} "
                f"exchanged? {self.propensity} {below}, which the probability of an action that "
                f"was taken cannot be here, and {self.probability} is not below "
                f"{optimized.min():.3g}"
            )

    def equal_scores(self, safe: str, optimized: str) -> str:
        """What is said of two columns that are equal in every row, in which no beta means much."""
        one = f"is the column {safe!r}" if safe == optimized else f"are {safe!r} and {optimized!r}"
        return (
            f"{one} the probability under both policies? They are equal in every row: the file "
            f"does not tell the optimized policy from the safe one. Name the column of the "
            f"optimized policy's probabilities of the logged actions with "
            f"{'--probability' if self.names else '--log-optimized'}"
        )

    def numbered_actions(self, table: FileColumns) -> tuple[NDArray[Any], Integers] | None:
        """The names of the actions beside propensities, and the number of that of each row."""
        actions = frames.optional(table, "action", self.action)
        if actions is None or self.propensity is None:
            return None
        return np.unique(actions.astype(str), return_inverse=True)

    def contradiction(self, table: FileColumns, log_safe: Floats) -> str | None:
        """How the actions of the file contradict the propensities, in words.

        With --min-propensity, which tells how many actions there can be.
        """
        numbered = self.numbered_actions(table)
        if numbered is None or self.min_propensity is None:
            return None
        return None

    def exchanged(self, log: tether.Log) -> str | None:
        """Ask whether the two columns are exchanged; None if they cannot be.

        The mean of optimized over safe probability of the actions that the safe policy took is at
        most one; exchanged, it is above one by how different the policies are. The rule is that of
        `tether.calibrate`, which promises nothing useful then.
        """
        if self.propensity is None or self.probability is None or log.log_mix is not None:
            return None
        log_ratios = log.log_optimized - log.log_safe
        if ratio_contradiction(log_ratios, 1.0) is None:
            return None
        ratios = np.exp(log_ratios)
        error = ratios.std() / np.sqrt(len(ratios))
        return (
            f"are --propensity {self.propensity} and --probability {self.probability} exchanged? "
            f"The mean of {self.probability} / {self.propensity} is {ratios.mean():.3g} ± "
            f"{error:.2g}, and at most 1 where --propensity is the probability with which the "
            f"action of the same row was taken"
        )


def _log_propensities(values: Any) -> Floats:
    logs: Floats = np.log(checked_propensities(values, len(values), finite=True))
    return logs


def _log_probabilities(values: Any) -> Floats:
    """The logarithms of the optimized policy's probabilities, which may be 0."""
    numbers = validate.floats("probabilities", values)
    bad = ~((numbers >= 0) & (numbers <= MAX_PROPENSITY))
    if bad.any():
        validate.reject("probabilities", numbers, bad, "a probability from 0 to 1 (40 % is 0.4)")
    with np.errstate(divide="ignore"):
        return np.log(np.minimum(numbers, 1.0))
