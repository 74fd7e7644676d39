"""How a controller begins and restores its rounds, and stores and reads the rows of each."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import ArrayLike

from tether._core import policy_calls, records, validate
from tether._core.arrays import Integers
from tether._core.contexts import labels, length
from tether.control.calibration import Calibration
from tether.policies.probes import fingerprint
from tether.runs.actions import CALL_BITS, WAITED, Actions, rows_of
from tether.runs.body import Columns, pack, unpack
from tether.runs.decide_beta import (
    Decision,
    decide_beta,
    describe,
    past_rounds,
    rows_in_use,
)
from tether.runs.decide_ramp import decide_ramp, is_ramp_over
from tether.runs.errors import RoundOverError, RoundTakenError, TamperedError
from tether.runs.event_log import Event, Transaction, blob_digest, blobs, follow, read_events
from tether.runs.export_log import accepted, seen_by
from tether.runs.keys import action_name, claims_of
from tether.runs.log_rows import Contents, cut, decode_rows, encode_rows, formats_of, same_formats
from tether.runs.policies import Deployed, Policies, Probe, saved
from tether.runs.round import Drawn, Round
from tether.runs.run import PATIENCE, ROWS_PER_EVENT, Run, losses_in
from tether.runs.score import Scorer, find_normalizer
from tether.runs.state import SAFE, State, Unit


class StoredRounds(Run):
    """A run whose units are rounds of policies, and whose rows have contexts and actions."""

    _policies: Policies
    _contents: Contents
    _lock: RLock
    _context_score: Callable[[Any], ArrayLike] | None

    @property
    def safe(self) -> Any:
        """The safe policy; on shortlists, a uniform pick among the candidates."""
        return self._policies.safe

    # ---- beginning ----------------------------------------------------------------------------

    def _refresh(self) -> State:
        """The rows and rounds of this moment, whose contents have been read."""
        known: State = self.submit(lambda t: t.state.copy(), PATIENCE)
        self._log.read(lambda connection: self._contents.read(connection, known.seq, known.head))
        return known

    def _state_at(self, seen: int) -> State:
        """The state after an event, folded anew."""
        state = State()

        def walk(connection: sql.Connection) -> None:
            for event in read_events(connection, until=seen):
                state.fold(event)

        self._log.read(walk)
        return state

    def _scored(self, known: State, optimized: Any) -> Scorer:
        """The rows in use, scored by all policies; the log of them, and draws."""
        in_use = rows_in_use(known)
        for past in past_rounds(known, in_use):
            self._deployed(known.units[past - 1])
        return Scorer(known, self._contents, self._policies, optimized, in_use)

    def _begin_calibrated(
        self, known: State, optimized: Any, name: str, found: Calibration | None
    ) -> Round:
        number, subject = len(known.units) + 1, fingerprint(optimized) or name
        if found is not None:
            known = self._state_at(seen_by(found))
            if number != len(known.units) + 1:
                raise RoundTakenError(
                    f"calibration is of a log that was exported before round {number - 1} began: "
                    f"export the log again"
                )
        scorer = self._scored(known, optimized)
        log, contents, given = scorer.log, scorer.contents, scorer.given
        if found is None:
            decision = decide_beta(known, contents, number, subject, given, log)
        else:
            decision = accepted(known, subject, found, log, contents)
        deployed: Deployed | None = None
        more: dict[str, Any] = {"looked": subject, "given": given, "log_psi": None}
        if decision.calibration is not None and decision.calibration.exists:
            policy = self._policies.tethered(optimized, decision.reference, decision.calibration)
            more["log_psi"] = find_normalizer(policy, log)
            deployed = Deployed(optimized, policy, scorer.probe())
        more["attempt"] = self._store_scores(scorer)
        return self._begin_decided(known, decision, optimized, name, deployed, **more)

    def _store_scores(self, scorer: Scorer) -> str:
        """Store scores and draws beforehand, in pieces; the round names them by this attempt."""
        attempt = secrets.token_hex(8)
        bodies = [
            ("scores", {"name": name, "policy": policy, "first": first + start}, piece)
            for name, policy, first, values in scorer.new
            for start, piece in cut({"values": values})
        ]
        bodies += [("draws", {}, piece) for _, piece in cut(scorer.contents.draws or {})]
        for kind, header, piece in bodies:
            body = pack({"attempt": attempt, **header}, **piece)
            self.submit(partial(Transaction.append, kind=kind, body=body), PATIENCE)
        return attempt

    def _begin_decided(
        self,
        known: State,
        decision: Decision,
        optimized: Any,
        name: str,
        deployed: Deployed | None = None,
        **more: Any,
    ) -> Round:
        described, columns = describe(decision) | more, {}
        if decision.calibration is not None:
            text = json.dumps(records.encode(decision.calibration))
            columns["calibration"] = np.array([text], dtype=object)
        policy = None if optimized is None else name
        rests = {"reference": decision.reference, "seen": known.seq, "policy": policy}

        def body(state: State) -> bytes:
            return pack(state.next_unit(decision.level, described, **rests), **columns)

        return self._append_round(len(known.units) + 1, body, optimized, name, deployed)

    def _append_round(
        self,
        number: int,
        body: Callable[[State], bytes],
        optimized: Any,
        name: str,
        deployed: Deployed | None,
    ) -> Round:
        """Store a round with its policy, unless another process has begun it meanwhile."""
        content, problem = (None, "") if optimized is None else saved(optimized)
        policy = {"name": name, "fingerprint": fingerprint(optimized), "problem": problem}

        def job(t: Transaction) -> Unit:
            if len(t.state.units) != number - 1:
                raise RoundTakenError(
                    f"round {number} was begun by another process while this one calibrated: use "
                    f"`run.round`, or begin the next round"
                )
            if optimized is not None:
                _append_policy(t, policy, None if deployed is None else deployed.probe, content)
            t.append("round", body(t.state))
            return t.state.units[-1]

        unit = self.submit(job, PATIENCE)
        if deployed is not None:
            self._policies.deployed[self._key_of(unit)] = deployed
        return Round(self, unit, deployed)

    # ---- what was begun before ----------------------------------------------------------------

    def _round_of(self, unit: Unit) -> Round:
        serves = self.settings.decides_shares or unit.level > -math.inf
        retired = self.submit(lambda t: unit.number in t.state.retired)
        is_deployed = unit.policy is not None and serves and not retired
        return Round(self, unit, self._deployed(unit) if is_deployed else None)

    def _policy_of(self, number: int) -> Any:
        if number == SAFE:
            return self.safe
        return self._deployed(self.submit(lambda t: t.state.units[number - 1])).policy

    def _key_of(self, unit: Unit) -> int | str:
        """What a round's policy is kept under: the steps of a ramp share theirs."""
        return str(unit.policy) if self.settings.decides_shares else unit.number

    def _deployed(self, unit: Unit) -> Deployed:
        """What a round deploys, restored from the store if this process has not begun it."""
        key = self._key_of(unit)
        if key in self._policies.deployed:
            return self._policies.deployed[key]
        with self._lock:
            if unit.reference != SAFE:
                self._policy_of(unit.reference)
            seq = self.submit(lambda t: t.state.policies[str(unit.policy)]["event"])
            header, columns = unpack(self._read_event(seq).body)
            probe = None
            if header["formats"] is not None:
                count = len(columns["score"])
                probe = Probe(*decode_rows(columns, header["formats"], count), columns["score"])
            found = self._policies.restore(
                unit, header, probe, self._read_blob, self._calibration_of(unit)
            )
            self._policies.deployed[key] = found
            return found

    def _read_event(self, seq: int) -> Event:
        """One event, which was folded before; it must not have been changed since."""
        found = self._log.read(lambda connection: list(read_events(connection, seq - 2, seq)))
        if len(found) < 2:
            raise TamperedError(f"event {seq} of the run is gone")
        return next(follow(found[1:], seq - 1, found[0].head))

    def _read_blob(self, digest: str) -> bytes:
        query = sql.select(blobs.c.content).where(blobs.c.digest == digest)
        content = self._log.read(lambda connection: connection.execute(query).scalar())
        if content is None or blob_digest(bytes(content)) != digest:
            raise TamperedError(f"the stored policy {digest} was changed or removed")
        return bytes(content)

    def _calibration_of(self, unit: Unit) -> Calibration | None:
        _, columns = unpack(self._read_event(unit.event).body)
        if "calibration" not in columns:
            return None
        held = json.loads(str(columns["calibration"][0]))
        found: Calibration = records.decode(Calibration, held, "calibration")
        return found

    # ---- rows ---------------------------------------------------------------------------------

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
        columns, names = self._columns(drawn, rng, keys), [action_name(key) for key in keys or ()]
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
            if t.find(names) or stopped not in (None, state.is_stopped):
                return present, state.is_stopped
            formats = same_formats(state.formats, given)
            header: dict[str, Any] = {"formats": formats}
            if drawn.failure:
                header["failure"] = drawn.failure[:500]
            encoded = encode_rows(drawn.contexts, drawn.actions, formats)
            first = _append_rows(t, header, columns | encoded)
            return first + np.arange(len(drawn.actions), dtype=np.int64)

        return self.submit(job)

    def _columns(
        self, drawn: Drawn, rng: np.random.Generator, keys: list[str] | None
    ) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "arm": drawn.arm.astype(np.int32),
            "calibration": rng.random(len(drawn.actions)) < self.settings.calibration_share,
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

    def _find_keys(self, keys: list[str], contexts: Any) -> dict[int, int]:
        """The rows that were stored under some of the keys, by position."""
        names = [action_name(key) for key in keys]
        found = self.submit(lambda t: t.find(names))
        known = {
            place: int.from_bytes(found[name], "little")
            for place, name in enumerate(names)
            if name in found
        }
        if known and not isinstance(contexts, int):
            stored = self._read_actions(np.array(list(known.values())))
            places = np.array(list(known))
            wrong = np.flatnonzero(labels(stored.contexts) != labels(contexts)[places])
            if len(wrong):
                raise ValueError(f"key {keys[places[wrong[0]]]!r} was used for another context")
        return known

    def _read_actions(self, rows: Integers) -> Actions:
        with self._lock:
            return self._handed_out(self._refresh(), rows)

    def _handed_out(self, known: State, rows: Integers) -> Actions:
        if not len(rows):
            return Actions(rows, np.empty(0), 0, rows)
        return Actions.of(rows, *self._contents.rows(rows), known.served[rows])

    def _carry_out(
        self, t: Transaction, kind: str, header: dict[str, Any], columns: Columns
    ) -> int:
        if kind == "rows":
            return _append_rows(t, header, columns)
        ids = columns["id"]
        rows = rows_of(t.state, ids)
        gone = ids[t.state.rows["withdrawn"][rows]]
        if len(gone):
            raise ValueError(f"ids {gone[:5].tolist()} were withdrawn: they have no losses")
        return self._store_losses(t, rows, losses_in(columns))

    def _keep_for_later(
        self, drawn: Drawn, rng: np.random.Generator, keys: list[str] | None
    ) -> Integers:
        """Let rows of the safe policy wait in the outbox; their ids."""
        given = formats_of(drawn.contexts, drawn.actions)
        formats = same_formats(self._log.state.formats, given)
        first = WAITED + (secrets.randbits(40) << CALL_BITS)
        columns = self._columns(drawn, rng, keys)
        columns |= encode_rows(drawn.contexts, drawn.actions, formats)
        header = {"formats": formats, "waited": first, "failure": drawn.failure[:500]}
        assert self._log.outbox is not None
        self._log.outbox.add("rows", pack(header, **columns))
        self._log.is_available = False  # until the writer has reached the store again
        return first + np.arange(len(drawn.actions), dtype=np.int64)


def _append_rows(t: Transaction, header: dict[str, Any], columns: dict[str, Any]) -> int:
    """Append the rows of one call; the first of them."""
    first = t.state.rows.size
    for start, part in cut(columns, ROWS_PER_EVENT):
        header |= {"unit": len(t.state.units), "first": first + start}
        t.append("rows", pack(header, **part), claims_of(t.state, header, part, {}))
        header = {key: value for key, value in header.items() if key != "waited"}
    return first


def _append_policy(
    t: Transaction, policy: dict[str, Any], probe: Probe | None, content: bytes | None
) -> None:
    name, own = policy["name"], policy["fingerprint"]
    held = t.state.policies.get(name)
    if held is not None and (own is None or own != held["fingerprint"]):
        raise ValueError(
            f"name {name!r} belongs to another policy, or it is not known to be the same: choose "
            f"another name"
        )
    columns, formats = {}, None if probe is None else t.state.formats
    if probe is not None and formats is not None:
        columns = encode_rows(probe.contexts, probe.actions, formats)
        columns["score"] = probe.scores
    header = {**policy, "formats": formats, "blob": None if content is None else t.blob(content)}
    if held is None or (held["formats"] is None and probe is not None):
        t.append("policy", pack(header, **columns))
