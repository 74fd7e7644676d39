"""The density of the mixture that produced the rows, kept from one round to the next.

Row x has the density Σ_k n_k·p_k(x) / n, where the policy of round k produced n_k of the n rows in
use. Of one round to the next only the last rounds' counts change. So the sum over all earlier
rounds is kept for each row: a new round costs one policy at all rows, and all policies at new rows.

The order of summation is always the same, rounds ascending and the safe policy last, so that every
process finds the same bits, whatever it has kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

Counts = tuple[tuple[int, int], ...]
"""How many rows the policies of rounds produced: (round, count), ascending."""


class Density(NamedTuple):
    """The log-density of a policy at some rows, and its standard error; None where it is exact."""

    log: Floats
    error: Floats | None = None

    def rows(self, start: int, stop: int) -> Density:
        """At some of these rows."""
        error = None if self.error is None else self.error[start:stop]
        return Density(self.log[start:stop], error)

    @classmethod
    def join(cls, parts: Sequence[Density]) -> Density:
        """The density at rows that follow on one another."""
        parts = [part for part in parts if len(part.log)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        log = np.concatenate([part.log for part in parts])
        if all(part.error is None for part in parts):
            return cls(log)
        return cls(log, np.concatenate([part.errors for part in parts]))

    @property
    def errors(self) -> Floats:
        """The standard error of each row."""
        return np.zeros(len(self.log)) if self.error is None else self.error


@dataclass(frozen=True)
class RowSums:
    """Σ_k n_k·p_k at each row, over some policies.

    `log_squares` is log Σ_k (n_k·p_k·e_k)², with e_k the standard error of log p_k. With `own`, the
    policy that took a row's action is left out of it, and is in `own` instead.
    """

    log_sum: Floats
    log_squares: Floats
    own: Density | None

    @classmethod
    def empty(cls, shape: tuple[int, ...], *, own: bool) -> RowSums:
        """Sums over no policy."""
        nothing = np.full(shape, -np.inf)
        unknown = Density(np.full(shape, np.nan), np.zeros(shape[0])) if own else None
        return cls(nothing, np.full(shape[0], -np.inf), unknown)

    def with_policy(
        self, number: int, count: int, density: Density, served: NDArray[Any]
    ) -> RowSums:
        """The same with one more policy, that of round `number`; a count of 0 adds nothing."""
        own, is_own = self.own, served == number
        if own is not None and is_own.any():
            where = is_own.reshape(-1, *[1] * (own.log.ndim - 1))
            own = Density(
                np.where(where, density.log, own.log), np.where(is_own, density.errors, own.errors)
            )
        if not count:
            return RowSums(self.log_sum, self.log_squares, own)
        term = np.log(count) + density.log
        log_squares = self.log_squares
        if density.error is not None:
            with np.errstate(divide="ignore"):
                square = 2 * (term + np.log(density.error))
            if own is not None:
                square[is_own] = -np.inf
            log_squares = np.logaddexp(log_squares, square)
        return RowSums(np.logaddexp(self.log_sum, term), log_squares, own)

    @classmethod
    def join(cls, parts: Sequence[RowSums]) -> RowSums:
        """The sums at rows that follow on one another."""
        parts = [part for part in parts if len(part.log_sum)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        own = [part.own for part in parts if part.own is not None]
        return cls(
            np.concatenate([part.log_sum for part in parts]),
            np.concatenate([part.log_squares for part in parts]),
            Density.join(own) if own else None,
        )


@dataclass(frozen=True)
class MixtureSums:
    """What is kept of past rounds: sums over all but the last ones, and the densities of these.

    `folded` are the rounds that `sums` covers, `counts` are those of the last calibration.
    """

    folded: Counts = ()
    counts: Counts = ()
    sums: RowSums | None = None
    densities: Mapping[int, Density] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows they cover."""
        return 0 if self.sums is None else len(self.sums.log_sum)

    def limited_to(self, numbers: Collection[int]) -> MixtureSums:
        """The same with the densities of these rounds alone."""
        densities = {k: density for k, density in self.densities.items() if k in numbers}
        return replace(self, densities=densities)

    def continues(self, counts: Counts, shape: tuple[int, ...], *, own: bool) -> bool:
        """Whether the sums are a part of those with these counts, at rows of this shape."""
        if self.sums is None or self.sums.log_sum.shape[1:] != shape[1:]:
            return False
        if (self.sums.own is not None) != own:
            return False
        return self.rows <= shape[0] and counts[: len(self.folded)] == self.folded

    def changed(self, counts: Counts) -> int:
        """How many of the last rounds have other counts than in the last calibration."""
        same = 0
        for before, now in zip(self.counts, counts, strict=False):
            if before != now:
                break
            same += 1
        return len(counts) - same
