"""From stored rows to the log of a calibration: every row under the mixture that produced them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._core.contexts import labels, take
from tether._core.types import Booleans, Floats
from tether.control.acting import Acting
from tether.control.log import Log
from tether.policies.table_policy import picked, positions
from tether.policies.tethered import Tethered
from tether.rounds.calibration_rows import CalibrationRows
from tether.rounds.mixture_sums import Density, RowSums
from tether.rounds.policy_registry import SAFE
from tether.rounds.running_mixture import advance


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
        kept = rows.scores.sums
        self._sums, kept = advance(rows, kept, counts, reference, own=acting)
        rows.scores.sums = kept
        is_safe = reference == SAFE
        self._density = rows.safe_density if is_safe else kept.densities[reference]

    @property
    def log_reference(self) -> Floats:
        """The density of the policy that beta is measured against, at every row."""
        return self._density.log

    def make(self, losses: Mapping[str, Floats], kind: type[Log] = Log) -> Log:
        """The log with the losses of all rows, by name, or of `kind` some rows of a log."""
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
            columns["policy_path"] = rows.policy_path.rows(used)
            share = 0.0  # its weights have no bound in which it could enter
        own_error: float = getattr(rows.candidate, "ratio_error", 1.0)
        return kind(
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
        deployed = self._rows.deployed[number]
        if not isinstance(deployed.policy, Tethered):
            return np.inf
        family, log_beta = deployed.policy.family, deployed.policy.log_beta
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
        variance += _own_variance(sums, self._acting)[used]
        if self._reference not in self._counts or len(self._counts) > 1:
            variance += self._density.errors[used] ** 2
        return 1.0 + float(variance.max())


def _own_variance(sums: RowSums, acting: bool) -> Floats:
    own: Density | None = sums.own
    return np.zeros(len(sums.log_sum)) if not acting or own is None else own.errors**2
