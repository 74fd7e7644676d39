"""The log: what was done, what it cost, and how likely each policy was to do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tether._core import frames, validate
from tether._core.types import Floats

TABLE_SLACK = 1e-3
"""How far the probabilities of a finite action set may be from summing to one."""


class Log:
    """One row an action: its loss, and its log-probability under the safe and optimized policies.

    `context` labels what each action answered; a log with contexts is always calibrated with a
    normalizer for each of them. `log_mix` is the log-density of the policies that really produced
    the rows (`mixture_log_density`); without it the safe policy produced them all. For a finite
    action set, `log_safe_all` and `log_optimized_all` (rows × actions) make every normalizer exact.

    `log_mix_all` goes with the tables when `log_mix` is given; `safe_share` is the share of rows
    that the safe policy produced, which the analytic test weight needs when `log_mix` is given.
    """

    def __init__(
        self,
        loss: Any,
        log_safe: Any,
        log_optimized: Any,
        *,
        context: Any = None,
        log_mix: Any = None,
        log_safe_all: Any = None,
        log_optimized_all: Any = None,
        log_mix_all: Any = None,
        safe_share: float | None = None,
    ) -> None:
        self.log_safe = validate.log_probabilities("log_safe", log_safe)
        rows = len(self.log_safe)
        self.log_optimized = validate.log_probabilities("log_optimized", log_optimized, zero=True)
        validate.same_length("log_optimized", self.log_optimized, "log_safe", rows)
        self.loss = _losses(loss, rows)
        self.context: NDArray[Any] | None = None
        if context is not None:
            self.context = validate.labels("context", context, rows)
        self.log_mix: Floats | None = None
        if log_mix is not None:
            self.log_mix = validate.log_probabilities("log_mix", log_mix)
            validate.same_length("log_mix", self.log_mix, "log_safe", rows)
        self.safe_share = self._share(safe_share)
        self.log_safe_all = _actions("log_safe_all", log_safe_all, rows)
        self.log_optimized_all = _actions("log_optimized_all", log_optimized_all, rows)
        self.log_mix_all = _actions("log_mix_all", log_mix_all, rows)
        self._check_tables()

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        loss: str | Sequence[str] = "loss",
        log_safe: str = "log_safe",
        log_optimized: str = "log_optimized",
        context: str | None = None,
        log_mix: str | None = None,
        log_safe_all: Sequence[str] | None = None,
        log_optimized_all: Sequence[str] | None = None,
        log_mix_all: Sequence[str] | None = None,
        safe_share: float | None = None,
    ) -> Self:
        """A log from a pandas, polars or Arrow table, or a dictionary of arrays, by column names.

        Columns called `context` and `log_mix`, and tables called `log_safe_all_…`, are used when
        they are there even if they are not named: a context can never be forgotten in silence.
        """
        chosen: Any = frames.column(frame, "loss", loss) if isinstance(loss, str) else None
        if chosen is None:
            chosen = {name: frames.column(frame, "loss", name) for name in loss}
        return cls(
            chosen,
            frames.column(frame, "log_safe", log_safe),
            frames.column(frame, "log_optimized", log_optimized),
            context=frames.optional(frame, "context", context),
            log_mix=frames.optional(frame, "log_mix", log_mix),
            log_safe_all=frames.table(frame, "log_safe_all", log_safe_all),
            log_optimized_all=frames.table(frame, "log_optimized_all", log_optimized_all),
            log_mix_all=frames.table(frame, "log_mix_all", log_mix_all),
            safe_share=safe_share,
        )

    @property
    def contextual(self) -> bool:
        """Whether actions answer contexts, so that the normalizer is one of each context."""
        return self.context is not None or self.log_safe_all is not None

    def __len__(self) -> int:
        return len(self.log_safe)

    def __repr__(self) -> str:
        parts = [f"{len(self)} rows", f"losses {list(self.loss)}"]
        if self.context is not None:
            parts.append("contexts")
        if self.log_safe_all is not None:
            parts.append(f"{self.log_safe_all.shape[1]} actions")
        if self.log_mix is not None:
            parts.append("a mixture of policies")
        return f"Log({', '.join(parts)})"

    def _share(self, safe_share: float | None) -> float | None:
        if self.log_mix is None:
            if safe_share is not None and safe_share != 1:
                raise ValueError(
                    f"safe_share is {safe_share!r} but without log_mix the safe policy produced "
                    f"every row; give log_mix too"
                )
            return 1.0
        if safe_share is None:
            return None
        share = safe_share if safe_share == 1 else None
        share = share or validate.number("safe_share", safe_share, above=0, below=1)
        short = self.log_mix < self.log_safe + np.log(share) - 1e-6
        if short.any():
            row = int(np.argmax(short))
            raise ValueError(
                f"log_mix[{row}] is {self.log_mix[row]:g}, below log_safe + log(safe_share) = "
                f"{self.log_safe[row] + np.log(share):g}: a mixture with that share of the safe "
                f"policy cannot be so small"
            )
        return share

    def _check_tables(self) -> None:
        if (self.log_safe_all is None) != (self.log_optimized_all is None):
            lacking = "log_safe_all" if self.log_safe_all is None else "log_optimized_all"
            raise ValueError(f"{lacking} is missing: give the tables of both policies, or neither")
        if self.log_safe_all is None or self.log_optimized_all is None:
            if self.log_mix_all is not None:
                raise ValueError("log_mix_all needs log_safe_all and log_optimized_all beside it")
            return
        if (self.log_mix_all is None) != (self.log_mix is None):
            present, lacking = ("log_mix", "log_mix_all")
            if self.log_mix is None:
                present, lacking = lacking, present
            raise ValueError(
                f"{present} is given but {lacking} is not: with tables the mixture must be known "
                f"at every action, not only at those that were taken"
            )
        tables = {"log_safe_all": self.log_safe_all, "log_optimized_all": self.log_optimized_all}
        if self.log_mix_all is not None:
            tables["log_mix_all"] = self.log_mix_all
        for name, table in tables.items():
            if table.shape != self.log_safe_all.shape:
                raise ValueError(
                    f"{name} has shape {table.shape} but log_safe_all {self.log_safe_all.shape}"
                )
            total = np.exp(table).sum(axis=1)
            off = np.abs(total - 1) > TABLE_SLACK
            if off.any():
                row = int(np.argmax(off))
                raise ValueError(
                    f"{name}[{row}] has probabilities that sum to {total[row]:.6g}, not to 1; "
                    f"it must list every action"
                )
        taken = np.isclose(self.log_safe_all, self.log_safe[:, None], rtol=1e-4, atol=1e-4)
        same = self.log_optimized_all == self.log_optimized[:, None]  # −inf equals −inf
        same |= np.isclose(self.log_optimized_all, self.log_optimized[:, None], 1e-4, 1e-4)
        if self.log_mix is not None and self.log_mix_all is not None:
            same &= np.isclose(self.log_mix_all, self.log_mix[:, None], 1e-4, 1e-4)
        lost = ~(taken & same).any(axis=1)
        if lost.any():
            row = int(np.argmax(lost))
            raise ValueError(
                f"row {row} took an action with log_safe {self.log_safe[row]:g} and log_optimized "
                f"{self.log_optimized[row]:g}: no action of its tables has these and its log_mix"
            )


def _losses(loss: Any, rows: int) -> dict[str, Floats]:
    named = loss if isinstance(loss, Mapping) else {"loss": loss}
    if not named:
        raise ValueError("loss is an empty mapping; at least one loss is needed")
    checked: dict[str, Floats] = {}
    for key, values in named.items():
        if not isinstance(key, str):
            raise TypeError(f"loss must be named by strings, got the name {key!r}")
        name = "loss" if not isinstance(loss, Mapping) else f"loss[{key!r}]"
        checked[key] = validate.losses(name, values)
        validate.same_length(name, checked[key], "log_safe", rows)
    return checked


def _actions(name: str, table: Any, rows: int) -> Floats | None:
    if table is None:
        return None
    checked = validate.log_probabilities(name, table, ndim=2, zero=True)
    validate.same_length(name, checked, "log_safe", rows)
    return checked
