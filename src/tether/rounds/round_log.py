"""From stored rows to the log of a calibration: every row under the mixture that produced them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Booleans, Floats
from tether._core.contexts import labels, take
from tether.control.columns import Acting, PolicyPath
from tether.control.log import Log
from tether.policies.tables import picked, positions
from tether.rounds.calibration_rows import CalibrationRows, Density
from tether.rounds.policy_registry import SAFE


@dataclass(frozen=True)
class RowSums:
    """Σ_k n_k·p_k at each row, over some policies: row x has the density Σ_k n_k·p_k(x) / n.

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


class RoundLog:
    """The log of a round, from the rows in use; `reference` is what beta is measured against.

    `counts` says how many of the rows in use each policy produced. With `acting` the log also says
    which policies acted.
    """

    def __init__(
        self,
        rows: CalibrationRows,
        counts: dict[int, int],
        reference: int,
        used: Booleans,
        *,
        acting: bool = False,
    ) -> None:
        self._rows, self._counts, self._reference = rows, counts, reference
        self._used, self._acting = used, acting
        self._density, sums = rows.safe_density, RowSums.empty(rows.shape, own=acting)
        for number, density in [*rows.densities(), (SAFE, rows.safe_density)]:
            sums = sums.with_policy(number, counts.get(number, 0), density, rows.served)
            if number == reference:
                self._density = density
        self._sums = sums

    @property
    def log_reference(self) -> Floats:
        """The density of the policy that beta is measured against, at every row."""
        return self._density.log

    def make(self, losses: Mapping[str, Floats]) -> Log:
        """The log with the losses of all rows, by name."""
        rows, used, counts = self._rows, self._used, self._counts
        tables = {
            "safe": self._density.log[used],
            "optimized": rows.candidate_scores[used],
        }
        mixed = set(counts) != {self._reference}
        if mixed:
            tables["mix"] = self._sums.log_sum[used] - np.log(sum(counts.values()))
        columns: dict[str, Any] = {f"log_{name}": table for name, table in tables.items()}
        if rows.all_actions is not None:
            place = positions(rows.all_actions, rows.actions[used])
            columns = {f"log_{name}_all": table for name, table in tables.items()}
            columns |= {f"log_{name}": picked(table, place) for name, table in tables.items()}
        if rows.contextual:
            columns["context"] = labels(take(rows.contexts, np.flatnonzero(used)))
        share = counts.get(self._reference, 0) / sum(counts.values())
        if rows.policy_path is not None:
            path = rows.policy_path
            densities = path.log_density[used]
            columns["policy_path"] = PolicyPath(path.family, path.log_beta, densities)
            share = 0.0  # its weights have no bound in which it could enter
        own_error: float = getattr(rows.candidate, "ratio_error", 1.0)
        return Log(
            {name: loss[used] for name, loss in losses.items()},
            **columns,
            safe_share=share or None,
            acting=self._who_acted() if self._acting and mixed else None,
            approximate=getattr(rows.candidate, "approximate", None),
            ratio_error=own_error * self._ratio_error(),
        )

    def _who_acted(self) -> Acting:
        """The densities of the policies that acted, each in its own rows."""
        rows, used, own = self._rows, self._used, self._sums.own
        assert own is not None
        served, logged = rows.served[used], own.log[used]
        limits = np.array([self._log_base_limit(number) for number in self._counts])
        limit = limits[np.searchsorted(list(self._counts), served)]
        if rows.all_actions is None:
            return Acting(logged, log_base_limit=limit)
        place = positions(rows.all_actions, rows.actions[used])
        return Acting(picked(logged, place), logged, limit)

    def _log_base_limit(self, number: int) -> float:
        """How far the reference's density can exceed that of a round's policy, in logs."""
        if number == self._reference:
            return 0.0
        if number == SAFE:
            return np.inf
        if self._rows.policy_path is not None:
            return np.inf
        deployed = self._rows.deployed[number]
        family, log_beta, _ = deployed.mixing
        if family.single_draw and deployed.reference == self._reference:
            share = family.optimized_share(log_beta) or 0.0
            if share < 1:
                return float(-np.log1p(-share))
        return np.inf

    def _ratio_error(self) -> float:
        """One plus the largest relative variance of a density that weights divide by.

        That is the mixture's, and also that of the policy that acted where it is divided by.

        One over an unbiased estimate is too large by about this factor on average, and the noise
        itself does no harm: it is part of what is averaged over, like the action.
        """
        if self._rows.all_actions is not None:
            return 1.0
        sums, used = self._sums, self._used
        variance = np.exp(sums.log_squares[used] - 2 * sums.log_sum[used])
        if sums.own is not None:
            variance += sums.own.errors[used] ** 2
        if self._reference not in self._counts or len(self._counts) > 1:
            variance += self._density.errors[used] ** 2
        return 1.0 + float(variance.max())
