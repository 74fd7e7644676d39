"""All rows of a run as columns in memory: read once, then only what is new."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.rounds.store import schema
from tether.rounds.store.codec import Codec
from tether.rounds.store.store import read_terms

_NUMBERS = ("round", "served", "calibration", "log_safe", "log_optimized", "log_prob")
_TYPES = (np.int32, np.int32, np.bool_, np.float64, np.float64, np.float64)

AT_ONCE = 100_000
"""How many rows are read at a time, so that the database's copy of them stays small."""


@dataclass
class Rows:
    """Row k is action k + 1. Losses are NaN until they arrive; so is what was never scored."""

    contexts: Any = 0
    """As they were given; their number where there are none."""
    actions: Any = None
    round: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    served: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    calibration: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    log_safe: Floats = field(default_factory=lambda: np.empty(0))
    log_optimized: Floats = field(default_factory=lambda: np.empty(0))
    log_prob: Floats = field(default_factory=lambda: np.empty(0))
    loss: Floats = field(default_factory=lambda: np.empty(0))
    reward: Floats = field(default_factory=lambda: np.empty(0))
    report: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """The number of the report; 0 while there is none."""

    def __len__(self) -> int:
        return len(self.round)

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Rows whose loss has arrived."""
        return ~np.isnan(self.loss)

    @property
    def withdrawn(self) -> NDArray[np.bool_]:
        """Rows that were never carried out."""
        return np.asarray((self.report > 0) & np.isnan(self.loss))

    @property
    def pending(self) -> NDArray[np.bool_]:
        """Rows whose loss is awaited."""
        return np.asarray(self.report == 0)

    @property
    def last_report(self) -> int:
        """The last report that is in."""
        return int(self.report.max(initial=0))

    def refresh(self, connection: sql.Connection) -> None:
        """Read what was written since the last time."""
        while self._read_actions(connection):
            pass
        while self._read_reports(connection):
            pass

    def _read_actions(self, connection: sql.Connection) -> bool:
        table = schema.actions
        chosen = [table.c[name] for name in ("context", "action", *_NUMBERS)]
        query = sql.select(*chosen).where(table.c.id > len(self)).order_by(table.c.id)
        fresh = connection.execute(query.limit(AT_ONCE)).fetchall()
        if not fresh:
            return False
        contexts, actions, *numbers = zip(*fresh, strict=True)
        for_contexts, for_actions = read_codecs(connection)
        longer: dict[str, Any] = {
            "contexts": _joined(self.contexts, for_contexts.decode(contexts)),
            "actions": _joined(self.actions, for_actions.decode(actions)),
        }
        for name, kind, column in zip(_NUMBERS, _TYPES, numbers, strict=True):
            more: NDArray[Any] = np.array(column, dtype=kind)  # None becomes NaN
            longer[name] = np.concatenate([getattr(self, name), more])
        unknown = np.full(len(fresh), np.nan)
        longer["loss"] = np.concatenate([self.loss, unknown])
        longer["reward"] = np.concatenate([self.reward, unknown])
        longer["report"] = np.concatenate([self.report, np.zeros(len(fresh), np.int64)])
        self.__dict__.update(longer)  # at once: an interrupt must not leave columns of two lengths
        return True

    def _read_reports(self, connection: sql.Connection) -> bool:
        table = schema.reports
        chosen = [table.c[name] for name in ("action", "number", "loss", "reward")]
        query = sql.select(*chosen).where(table.c.number > self.last_report)
        fresh = connection.execute(query.order_by(table.c.number).limit(AT_ONCE)).fetchall()
        if not fresh:
            return False
        action, number, loss, reward = zip(*fresh, strict=True)
        place = np.array(action, dtype=np.int64) - 1
        told = {
            "report": self.report.copy(),
            "loss": self.loss.copy(),
            "reward": self.reward.copy(),
        }
        told["report"][place] = number
        told["loss"][place] = np.array(loss, dtype=np.float64)
        told["reward"][place] = np.array(reward, dtype=np.float64)
        self.__dict__.update(told)
        return True


def read_codecs(connection: sql.Connection) -> tuple[Codec, Codec]:
    """How contexts and actions are written, known from the run's first action on."""
    return codecs_in(read_terms(connection))


def codecs_in(terms: dict[str, Any]) -> tuple[Codec, Codec]:
    """The same, of terms that were read."""
    return Codec.from_dict(terms["contexts"]), Codec.from_dict(terms["actions"])


def _joined(old: Any, new: Any) -> Any:
    """Rows after rows, of whatever kind they are."""
    if isinstance(new, int):
        return old + new
    if old is None or isinstance(old, int):
        return new
    if hasattr(new, "iloc"):
        import pandas as pd

        return pd.concat([old, new], ignore_index=True)
    return np.concatenate([old, new])
