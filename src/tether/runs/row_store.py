"""How a controller stores and reads its rows: in a transaction, and in an outage without one."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import policy_calls, validate
from tether._core.arrays import Floats, Integers
from tether._core.contexts import labels, length
from tether.runs.actions import CALL_BITS, WAITED, Actions, rows_of
from tether.runs.body import pack, unpack
from tether.runs.decide_beta import Snapshot
from tether.runs.decide_ramp import decide_ramp, is_ramp_over
from tether.runs.errors import RoundOverError
from tether.runs.event_log import Transaction
from tether.runs.log_rows import Contents, encode_rows, formats_of, same_formats
from tether.runs.outbox import Waiting
from tether.runs.policies import Policies
from tether.runs.round import Drawn
from tether.runs.run import PATIENCE, ROWS_PER_EVENT, Run
from tether.runs.state import Unit


class RowStore(Run):
    """A run whose rows have contexts and actions."""

    _policies: Policies
    _contents: Contents
    _lock: RLock
    _context_score: Callable[[Any], ArrayLike] | None

    @property
    def safe(self) -> Any:
        """The safe policy; on shortlists, a uniform pick among the candidates."""
        return self._policies.safe

    @property
    def _is_available(self) -> bool:
        """Whether it is worth asking the store, or there is nothing else to be done."""
        return self._log.is_available or self._log.outbox is None

    @property
    def _may_fall_back(self) -> bool:
        return self._log.outbox is not None

    def _refresh(self) -> tuple[Snapshot, int | None]:
        """The rows and rounds of this moment, with what they hold; and the alarm that stands."""

        def look(t: Transaction) -> tuple[Snapshot, int | None, int, bytes]:
            return Snapshot.of(t.state, t.log.seq), t.state.standing, t.log.seq, t.log.head

        known, standing, seq, head = self._submit(look, PATIENCE)
        self._log.read(lambda connection: self._contents.read(connection, seq, head))
        return known, standing

    def _with_candidates(self, contexts: Any, rng: np.random.Generator) -> Any:
        shortlist = self._policies.shortlist
        return contexts if shortlist is None else shortlist.draw(contexts, rng)

    def _scored_by_safe(self, contexts: Any, actions: Any, failure: str = "") -> Drawn:
        scores = {}
        if not self.settings.decides_shares:
            log_safe = policy_calls.score("safe", self.safe, contexts, actions, drew=True)
            scores = {"log_safe": log_safe, "log_prob": log_safe}
        return Drawn(contexts, actions, np.zeros(len(actions), np.int64), scores, failure)

    def _store_rows(
        self,
        unit: Unit,
        drawn: Drawn,
        rng: np.random.Generator,
        *,
        keys: list[str] | None = None,
        stopped: bool | None = None,
    ) -> Integers | tuple[Unit, bool]:
        """Store actions; their rows, or the present step and whether it is stopped if that changed.

        `stopped` is what the caller assumed; None if it does not matter.
        """
        columns = self._columns(drawn, rng, keys)
        given = formats_of(drawn.contexts, drawn.actions)

        def job(t: Transaction) -> Integers | tuple[Unit, bool]:
            state, present = t.state, t.state.units[-1]
            if state.given.decides_shares and unit.policy is not None and is_ramp_over(state):
                t.append("round", pack(decide_ramp(state, unit.policy, begins=False)))
                return state.units[-1], state.is_stopped
            if present.number != unit.number:
                if present.policy is not None and present.policy == unit.policy:
                    return present, state.is_stopped
                raise RoundOverError(
                    f"round {unit.number} is over: round {present.number} has begun; act in "
                    f"`run.round`"
                )
            names = [] if keys is None else [claim_of(key) for key in keys]
            if t.find(names) or stopped not in (None, state.is_stopped):
                return present, state.is_stopped
            first = self._append_rows(t, drawn, columns, given)
            return first + np.arange(len(drawn.actions), dtype=np.int64)

        return self._submit(job)

    def _columns(
        self, drawn: Drawn, rng: np.random.Generator, keys: list[str] | None
    ) -> dict[str, Any]:
        count = len(drawn.actions)
        columns: dict[str, Any] = {
            "arm": drawn.arm.astype(np.int32),
            "calibration": rng.random(count) < self.settings.calibration_share,
            **drawn.scores,
        }
        if keys is not None:
            columns["key"] = np.array(keys, dtype=object)
        if self._context_score is not None:
            plain = getattr(drawn.contexts, "contexts", drawn.contexts)
            answer, name = self._context_score(plain), "context_score's result"
            scores = validate.floats(name, answer, meaning="score", finite=True)
            validate.same_length(name, scores, "contexts", length(plain))
            columns["context_score"] = scores
        return columns

    @staticmethod
    def _append_rows(
        t: Transaction,
        drawn: Drawn,
        columns: dict[str, Any],
        given: dict[str, Any],
    ) -> int:
        """Append the rows of one call; the first of them."""
        formats = same_formats(t.state.formats, given)
        columns = columns | encode_rows(drawn.contexts, drawn.actions, formats)
        first = t.state.rows.size
        header = {"failure": drawn.failure[:500]} if drawn.failure else {}
        for start in range(0, len(drawn.actions), ROWS_PER_EVENT):
            part = {name: each[start : start + ROWS_PER_EVENT] for name, each in columns.items()}
            place = {"unit": len(t.state.units), "first": first + start, "formats": formats}
            claim = {
                claim_of(key): claimed(first + start + k)
                for k, key in enumerate(part.get("key", ()))
            }
            t.append("rows", pack({**header, **place}, **part), claim)
        return first

    def _find_keys(self, keys: list[str], contexts: Any) -> dict[int, int]:
        """The rows that were stored under some of the keys, by position."""
        found = self._submit(lambda t: t.find([claim_of(key) for key in keys]))
        known = {
            place: int.from_bytes(found[claim_of(key)], "little")
            for place, key in enumerate(keys)
            if claim_of(key) in found
        }
        if known and not isinstance(contexts, int):
            stored = self._read_actions(np.array(list(known.values())))
            places = np.array(list(known))
            given = labels(contexts)[places]
            wrong = np.flatnonzero(labels(stored.contexts) != given)
            if len(wrong):
                raise ValueError(f"key {keys[places[wrong[0]]]!r} was used for another context")
        return known

    def _read_actions(self, rows: Integers) -> Actions:
        with self._lock:
            known, _ = self._refresh()
            return self._handed_out(known, rows)

    def _handed_out(self, known: Snapshot, rows: Integers) -> Actions:
        if not len(rows):
            return Actions(rows, np.empty(0), 0, rows)
        contexts, actions = self._contents.rows(rows)
        return Actions.of(rows, contexts, actions, known.served[rows])

    def _observe(
        self, t: Transaction, ids: Integers, losses: dict[str, Floats], reward: Floats | None
    ) -> int:
        rows = rows_of(t.state, ids)
        gone = ids[t.state.rows["withdrawn"][rows]]
        if len(gone):
            raise ValueError(f"ids {gone[:5].tolist()} were withdrawn: they have no losses")
        return self._store_losses(t, rows, losses, reward=reward)

    def _keep_for_later(
        self, drawn: Drawn, rng: np.random.Generator, keys: list[str] | None
    ) -> Integers:
        """Let rows of the safe policy wait in the outbox; their ids."""
        state = self._log.state
        formats = same_formats(state.formats, formats_of(drawn.contexts, drawn.actions))
        first = WAITED + (secrets.randbits(40) << CALL_BITS)
        columns = self._columns(drawn, rng, keys)
        columns |= encode_rows(drawn.contexts, drawn.actions, formats)
        header = {"formats": formats, "waited": first, "failure": drawn.failure[:500]}
        assert self._log.outbox is not None
        self._log.outbox.add("rows", pack(header, **columns))
        self._log.is_available = False  # until the writer has reached the store again
        return first + np.arange(len(drawn.actions), dtype=np.int64)

    def _deliver(self, t: Transaction, waiting: Waiting) -> None:
        header, columns = unpack(waiting.body)
        if waiting.kind == "observe":
            losses = {name[5:]: each for name, each in columns.items() if name.startswith("loss/")}
            self._observe(t, columns["id"], losses, columns.get("reward"))
            return
        first = t.state.rows.size
        place = {"unit": len(t.state.units), "first": first}
        keys = columns.get("key", ())
        claim = {claim_of(str(key)): claimed(first + k) for k, key in enumerate(keys)}
        t.append("rows", pack({**header, **place}, **columns), claim)


def claim_of(key: str) -> bytes:
    """The name of an idempotency key in the index."""
    return b"a" + key.encode("utf-8", "surrogateescape")


def claimed(row: int) -> bytes:
    """What the index says of a key: the row of its action."""
    return row.to_bytes(8, "little")
