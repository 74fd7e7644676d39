"""How a round of a controller begins, and how one is restored after a restart."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import records
from tether.control.calibration import Calibration
from tether.control.log import Log
from tether.policies.logs import approximation_of
from tether.policies.probes import fingerprint
from tether.runs.body import pack, unpack
from tether.runs.decide_beta import (
    SAFE,
    Decision,
    Snapshot,
    check_support,
    decide_beta,
    describe,
    make_log,
    past_rounds,
    rows_in_use,
)
from tether.runs.decide_ramp import decide_ramp
from tether.runs.errors import RoundTakenError, TamperedError
from tether.runs.event_log import Event, Transaction, blob_digest, blobs, read_events
from tether.runs.export_log import accepted, seen_by
from tether.runs.log_rows import cut, decode_rows, encode_rows
from tether.runs.policies import Deployed, Probe, saved
from tether.runs.round import Round
from tether.runs.row_store import RowStore
from tether.runs.run import PATIENCE
from tether.runs.score import Scorer, find_normalizer
from tether.runs.state import State, Unit


class Beginning(RowStore):
    """A run that begins rounds."""

    def _snapshot_at(self, seen: int) -> Snapshot:
        """The rows and rounds up to an event, folded anew."""
        state = State()

        def walk(connection: sql.Connection) -> None:
            for event in read_events(connection, until=seen):
                state.fold(event)

        self._log.read(walk)
        return Snapshot.of(state, seen)

    def _scored(
        self, known: Snapshot, number: int, optimized: Any
    ) -> tuple[Scorer, Log, dict[str, Any]]:
        """The rows in use, scored by all policies; the log of them, and draws."""
        in_use = rows_in_use(known)
        for past in past_rounds(known, in_use):
            self._deployed(known.units[past - 1])
        scorer = Scorer(known, self._contents, self._policies, number, optimized)
        scorer.complete(in_use)
        approximate, error = approximation_of(optimized)
        given = {"approximate": approximate, "ratio_error": error}
        log = make_log(known, scorer.contents, number, in_use, given)
        drawn = scorer.draw(in_use, log)
        if drawn is not None:
            check_support(drawn["log_safe"], drawn["log_optimized"])
            scorer.contents.add_draws(drawn)
        return scorer, log, given

    def _begin_calibrated(
        self, known: Snapshot, optimized: Any, name: str, found: Calibration | None
    ) -> Round:
        number, subject = len(known.units) + 1, fingerprint(optimized) or name
        if not rows_in_use(known).used.any():
            decision = decide_beta(known, self._contents, number, subject, {})
            return self._store_round(known, decision, optimized, name)
        if found is not None:
            known = self._snapshot_at(seen_by(found))
            if number != len(known.units) + 1:
                raise RoundTakenError(f"the log of calibration was exported before round {number}")
        scorer, log, given = self._scored(known, number, optimized)
        if found is None:
            decision = decide_beta(known, scorer.contents, number, subject, given, log)
        else:
            decision = accepted(known, number, subject, found, log, scorer.contents)
        deployed = None
        if decision.calibration is not None and decision.calibration.exists:
            policy = self._policies.tethered(optimized, decision.reference, decision.calibration)
            normalizer = find_normalizer(policy, log)
            if normalizer is not None:
                policy.remember(normalizer)
            probe = Probe(*scorer.probe())
            deployed = Deployed(optimized, policy, decision.reference, normalizer, probe)
        more = {"looked": subject, "given": given, "attempt": self._store_scores(number, scorer)}
        return self._store_round(known, decision, optimized, name, deployed, more)

    def _store_scores(self, number: int, scorer: Scorer) -> str:
        """Store scores and draws beforehand, in pieces; the round names them by this attempt."""
        attempt = secrets.token_hex(8)
        header = {"unit": number, "attempt": attempt}
        bodies = [
            ("scores", {**header, "name": name, "policy": policy, "first": first + start}, piece)
            for name, policy, first, values in scorer.new
            for start, piece in cut({"values": values})
        ]
        if (drawn := scorer.contents.draws) is not None:
            bodies += [("draws", header, piece) for _, piece in cut(drawn)]
        for kind, held, piece in bodies:
            self._submit(partial(Transaction.append, kind=kind, body=pack(held, **piece)), PATIENCE)
        return attempt

    def _store_round(
        self,
        known: Snapshot,
        decision: Decision,
        optimized: Any,
        name: str,
        deployed: Deployed | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Round:
        described, texts = describe(decision) | dict(more or {}), {}
        if decision.calibration is not None:
            text = json.dumps(records.encode(decision.calibration))
            texts["calibration"] = np.array([text], dtype=object)
            held = None if deployed is None else deployed.normalizer
            described["log_psi"] = held and [float(held.log_psi[0]), float(held.standard_error[0])]

        def body(t: Transaction) -> bytes:
            header = {
                **{"number": len(known.units) + 1, "level": decision.level},
                **{"before": t.state.rows.size, "cleared": t.state.cleared, "seen": known.seen},
                **{"policy": None if optimized is None else name, "decision": described},
            }
            return pack({**header, "reference": decision.reference}, **texts)

        return self._append_round(len(known.units) + 1, body, optimized, name, deployed)

    def _begin_ramp(self, number: int, optimized: Any, name: str) -> Round:
        policy = None if optimized is None else name
        deployed = None if optimized is None else Deployed(optimized, optimized)
        return self._append_round(
            number,
            lambda t: pack(decide_ramp(t.state, policy, begins=True)),
            optimized,
            name,
            deployed,
        )

    def _append_round(
        self,
        number: int,
        body: Callable[[Transaction], bytes],
        optimized: Any,
        name: str,
        deployed: Deployed | None,
    ) -> Round:
        """Store a round with its policy, unless another process has begun it meanwhile."""
        content, problem = (None, "") if optimized is None else saved(optimized)

        def job(t: Transaction) -> Unit:
            if len(t.state.units) != number - 1:
                raise RoundTakenError(
                    f"round {number} was begun by another process while this one calibrated: use "
                    f"`run.round`, or begin the next round"
                )
            if optimized is not None:
                probe = None if deployed is None else deployed.probe
                _append_policy(t, name, fingerprint(optimized), probe, content, problem)
            t.append("round", body(t))
            return t.state.units[-1]

        unit = self._submit(job, PATIENCE)
        if deployed is not None:
            self._policies.add(self._key_of(unit), deployed)
        return Round(self, unit, deployed)

    # ---- what was begun before ----------------------------------------------------------------

    def _round_of(self, unit: Unit) -> Round:
        serves = unit.policy is not None and (
            self.settings.decides_shares or unit.level > -math.inf
        )
        retired = self._submit(lambda t: unit.number in t.state.retired)
        return Round(self, unit, self._deployed(unit) if serves and not retired else None)

    def _policy_of(self, number: int) -> Any:
        if number == SAFE:
            return self.safe
        return self._deployed(self._submit(lambda t: t.state.units[number - 1])).policy

    def _key_of(self, unit: Unit) -> int | str:
        """What a round's policy is kept under: the steps of a ramp share theirs."""
        return str(unit.policy) if self.settings.decides_shares else unit.number

    def _deployed(self, unit: Unit) -> Deployed:
        """What a round deploys, restored from the store if this process has not begun it."""
        key = self._key_of(unit)
        known = self._policies.known(key)
        if known is not None:
            return known
        with self._lock:
            if unit.reference != SAFE:
                self._policy_of(unit.reference)
            header, columns = self._stored_policy(str(unit.policy))
            probe = None
            if header["formats"] is not None:
                count = len(columns["score"])
                probe = Probe(*decode_rows(columns, header["formats"], count), columns["score"])
            found = self._policies.restore(
                unit, header, probe, self._read_blob, self._calibration_of(unit)
            )
            self._policies.add(key, found)
            return found

    def _stored_policy(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        seq = self._submit(lambda t: t.state.policies[name]["event"])
        return unpack(self._read_event(seq).body)

    def _read_event(self, seq: int) -> Event:
        """One event, which was folded before; it must not have been changed since."""
        found = self._log.read(lambda connection: list(read_events(connection, seq - 2, seq)))
        if len(found) < 2 or not found[1].follows(seq - 1, found[0].head):
            raise TamperedError(f"event {seq} is not as it was written")
        return found[1]

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
        found: Calibration = records.decode(
            Calibration, json.loads(str(columns["calibration"][0])), "calibration"
        )
        return found


def _append_policy(
    t: Transaction,
    name: str,
    own: str | None,
    probe: Probe | None,
    content: bytes | None,
    problem: str,
) -> None:
    held = t.state.policies.get(name)
    if held is not None and (own is None or own != held["fingerprint"]):
        raise ValueError(
            f"name {name!r} belongs to another policy, or it is not known to be the same: choose "
            f"another name"
        )
    header: dict[str, Any] = {"name": name, "fingerprint": own, "problem": problem}
    header["formats"] = formats = None if probe is None else t.state.formats
    header["blob"] = None if content is None else t.blob(content)
    columns = {}
    if probe is not None and formats is not None:
        columns = encode_rows(probe.contexts, probe.actions, formats)
        columns["score"] = probe.scores
    if held is None or (held["formats"] is None and probe is not None):
        t.append("policy", pack(header, **columns))
