"""All rows of a run as columns in memory: read once, then only what is new."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.types import Booleans, Floats, Integers
from tether.policies.shortlist_rows import ShortlistRows
from tether.rounds.store import schema
from tether.rounds.store.codecs import RowCodecs
from tether.rounds.store.database import read_settings

_NUMERIC_COLUMNS = ("round", "served", "calibration", "log_safe", "log_optimized", "log_prob")
_CODED_COLUMNS = ("context", "candidates", "action")
_NUMERIC_TYPES = (np.int32, np.int32, np.bool_, np.float64, np.float64, np.float64)

ROWS_PER_QUERY = 100_000
"""How many rows are read at a time, so that the database's copy of them stays small."""


@dataclass
class Rows:
    """Row k is the action with id k + 1. Missing losses and scores are NaN.

    `contexts` are as they were passed in, or their number where there are none; in a run on
    shortlists they are `ShortlistRows`, and `actions` are positions among the candidates.
    `observation` is the number of the row's observation or withdrawal, 0 while it is pending.
    """

    contexts: Any = 0
    actions: Any = None
    round: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    served: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    calibration: Booleans = field(default_factory=lambda: np.empty(0, np.bool_))
    log_safe: Floats = field(default_factory=lambda: np.empty(0))
    log_optimized: Floats = field(default_factory=lambda: np.empty(0))
    log_prob: Floats = field(default_factory=lambda: np.empty(0))
    loss: Floats = field(default_factory=lambda: np.empty(0))
    reward: Floats = field(default_factory=lambda: np.empty(0))
    observation: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.round)

    @property
    def observed(self) -> Booleans:
        """Rows whose loss has arrived."""
        return ~np.isnan(self.loss)

    @property
    def withdrawn(self) -> Booleans:
        """Rows that were never carried out."""
        return np.asarray((self.observation > 0) & np.isnan(self.loss))

    @property
    def pending(self) -> Booleans:
        """Rows whose loss is still missing."""
        return np.asarray(self.observation == 0)

    @property
    def last_observation(self) -> int:
        """The number of the last observation."""
        return int(self.observation.max(initial=0))

    def refresh(self, connection: sql.Connection) -> None:
        """Read what was written since the last call."""
        while self._read_actions(connection):
            pass
        while self._read_observations(connection):
            pass

    def _read_actions(self, connection: sql.Connection) -> bool:
        table = schema.actions
        selected = [table.c[name] for name in (*_CODED_COLUMNS, *_NUMERIC_COLUMNS)]
        query = sql.select(*selected).where(table.c.id > len(self)).order_by(table.c.id)
        fresh = connection.execute(query.limit(ROWS_PER_QUERY)).fetchall()
        if not fresh:
            return False
        contexts, candidates, actions, *numbers = zip(*fresh, strict=True)
        codecs = read_codecs(connection)
        longer: dict[str, Any] = {
            "contexts": _concatenated(self.contexts, codecs.decode_contexts(contexts, candidates)),
            "actions": _concatenated(self.actions, codecs.action.decode(actions)),
        }
        for name, kind, column in zip(_NUMERIC_COLUMNS, _NUMERIC_TYPES, numbers, strict=True):
            more: NDArray[Any] = np.array(column, dtype=kind)  # None becomes NaN
            longer[name] = np.concatenate([getattr(self, name), more])
        unknown = np.full(len(fresh), np.nan)
        longer["loss"] = np.concatenate([self.loss, unknown])
        longer["reward"] = np.concatenate([self.reward, unknown])
        longer["observation"] = np.concatenate([self.observation, np.zeros(len(fresh), np.int64)])
        self.__dict__.update(
            longer
        )  # at once: an interrupt must not leave columns of unequal length
        return True

    def _read_observations(self, connection: sql.Connection) -> bool:
        table = schema.observations
        selected = [table.c[name] for name in ("action", "number", "loss", "reward")]
        query = sql.select(*selected).where(table.c.number > self.last_observation)
        fresh = connection.execute(query.order_by(table.c.number).limit(ROWS_PER_QUERY)).fetchall()
        if not fresh:
            return False
        action, number, loss, reward = zip(*fresh, strict=True)
        place = np.array(action, dtype=np.int64) - 1
        updated = {
            "observation": self.observation.copy(),
            "loss": self.loss.copy(),
            "reward": self.reward.copy(),
        }
        updated["observation"][place] = number
        updated["loss"][place] = np.array(loss, dtype=np.float64)
        updated["reward"][place] = np.array(reward, dtype=np.float64)
        self.__dict__.update(updated)
        return True


def read_codecs(connection: sql.Connection) -> RowCodecs:
    """How contexts and actions are encoded, fixed by the run's first action."""
    return RowCodecs.from_dict(read_settings(connection))


def _concatenated(old: Any, new: Any) -> Any:
    """Concatenate contexts or actions of any supported type."""
    if isinstance(new, int):
        return old + new
    if old is None or isinstance(old, int):
        return new
    if isinstance(new, ShortlistRows):
        contexts = _concatenated(old.contexts, new.contexts)
        return ShortlistRows(contexts, _concatenated(old.candidates, new.candidates))
    if hasattr(new, "iloc"):
        import pandas as pd

        return pd.concat([old, new], ignore_index=True)
    return np.concatenate([old, new])
