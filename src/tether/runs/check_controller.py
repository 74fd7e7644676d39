"""Whether an event of a controller may follow on those before it, for verification.

Betas are computed again from the rows, scores and draws that are stored, by the function that
decided them; shares of a ramp likewise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.runs.body import pack, read_header, unpack
from tether.runs.decide_beta import Decision, Snapshot, decide_beta
from tether.runs.decide_ramp import decide_ramp, is_ramp_over
from tether.runs.errors import LossesMissingError
from tether.runs.event_log import Event, events
from tether.runs.log_rows import Contents
from tether.runs.state import State

TOLERANCE = 1e-6
"""How far, relatively, numbers of a calibration may be from those computed again elsewhere."""


class ControllerCheck:
    """Follows the events of a controller, and says what is wrong with each."""

    def __init__(self, connection: sql.Connection | None = None) -> None:
        query = sql.select(events.c.body).where(events.c.kind == "round")
        bodies = [] if connection is None else connection.execute(query).scalars().all()
        self._needed = {read_header(bytes(body)).get("seen", -1) for body in bodies}
        self._seen: dict[int, Snapshot] = {}
        self._contents = Contents()

    def check(self, state: State, event: Event, index: Mapping[bytes, bytes]) -> Iterator[str]:
        """Everything that is wrong with an event, given the state before it."""
        if event.seq - 1 in self._needed:
            self._seen[event.seq - 1] = Snapshot.of(state, event.seq - 1)
        where = f"event {event.seq}"
        if event.kind == "round":
            header = read_header(event.body)
            if state.given.decides_shares:
                yield from _check_step(where, state, header)
            else:
                yield from self._check_round(where, state, event, header)
        elif event.kind == "rows":
            yield from _check_rows(where, state, event)
        elif event.kind == "losses":
            yield from check_losses(where, state, event)
        self._contents.take(event)

    @staticmethod
    def claims_of(event: Event, known: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """The entries of the index that an event makes."""
        if event.kind != "rows":
            return {}
        header, columns = unpack(event.body)
        if "key" not in columns:
            return {}
        return {
            claim_of(str(key)): claimed(event.seq, header["first"] + place)
            for place, key in enumerate(columns["key"])
        }

    def _check_round(
        self, where: str, state: State, event: Event, header: dict[str, Any]
    ) -> Iterator[str]:
        number, decision = header["number"], header["decision"]
        known = self._seen.pop(header["seen"], None)
        begun = 0 if state.last is None else state.last.event
        if known is None or header["seen"] < begun:
            yield f"{where}: round {number} rests on events that are not those before it"
            return
        if "attempt" not in decision:
            if header["level"] > -math.inf:
                yield f"{where}: round {number} has a beta, and nothing that it was decided on"
            return
        held = state.policies.get(header["policy"], {})
        if decision["looked"] not in (held.get("fingerprint"), held.get("name")):
            yield f"{where}: round {number} was decided for another policy than it names"
        contents = self._contents.attempted(decision["attempt"])
        try:
            expected = decide_beta(known, contents, number, decision["looked"], decision["given"])
        except (ValueError, KeyError, LossesMissingError) as error:
            yield f"{where}: the beta of round {number} cannot be computed again: {error}"
            return
        yield from _compare(where, header, expected)


def _compare(where: str, header: dict[str, Any], expected: Decision) -> Iterator[str]:
    """Compare the stored decision of a round with what its rows give."""
    number, decision = header["number"], header["decision"]
    if not _same(header["level"], expected.level):
        yield (
            f"{where}: the log beta of round {number} is {header['level']:.6g}, but its rows give "
            f"{expected.level:.6g}"
        )
        return
    found = expected.calibration
    stored = [decision["rows"], decision["looks"], header["reference"]]
    same = stored == [expected.rows, expected.looks, expected.reference]
    if found is not None:
        for name, each in found.losses.items():
            same &= _same(decision["promises"].get(name, math.nan), each.promise)
            same &= _same(decision["risks"].get(name, math.nan), each.risk)
        same &= decision["family"] == found.family and _same(decision["blend"], found.blend)
    if not same or decision["reason"] != expected.note:
        yield f"{where}: round {number} does not say what its rows say"


def _same(first: float, second: float) -> bool:
    return first == second or abs(first - second) <= TOLERANCE * max(abs(second), 1e-3)


def _check_step(where: str, state: State, header: dict[str, Any]) -> Iterator[str]:
    number, last = header["number"], state.last
    goes_on = last is not None and last.policy is not None and header["policy"] == last.policy
    resumed = last is not None and last.cleared != state.cleared
    begins = header["ramp"] == number and not (goes_on and resumed)
    if not begins and state.given.units_per_step is not None and not is_ramp_over(state):
        yield f"{where}: step {number} began before the last one was over"
    expected, _ = unpack(pack(decide_ramp(state, header["policy"], begins=begins)))
    if header["level"] != expected["level"]:
        yield (
            f"{where}: the share of round {number} is {header['level']:.6g}, but its rows give "
            f"{expected['level']:.6g}"
        )
    elif header != expected:
        yield f"{where}: round {number} does not say what its rows say"


def _check_rows(where: str, state: State, event: Event) -> Iterator[str]:
    _, columns = unpack(event.body)
    arm, unit = columns["arm"], state.last
    by_policy = arm != 0
    if unit is None or (by_policy.any() and state.is_stopped):
        yield f"{where}: another policy than the safe one acted while the run was stopped"
        return
    known = (arm == 0) | (arm == 1)
    if unit.reference and state.given.decides_shares:
        known |= arm == -unit.reference
    serves = unit.policy is not None and unit.level not in (0.0, -math.inf)
    serves = serves or (unit.policy is not None and not state.given.decides_shares)
    if not known.all() or (by_policy.any() and not serves):
        yield f"{where}: actions of a policy that round {unit.number} does not serve"


def check_losses(where: str, state: State, event: Event) -> Iterator[str]:
    """Refuse losses outside of their bounds."""
    header, columns = unpack(event.body)
    for name in header["losses"]:
        values, bound = columns[f"loss/{name}"], state.given.limits[name].bound
        if ((values < 0) | (values > bound)).any():
            yield f"{where}: a loss {name!r} is outside [0, {bound:g}]"
    if np.isinf(columns.get("reward", np.zeros(0))).any():
        yield f"{where}: a reward is infinite"


def claim_of(key: str) -> bytes:
    """The name of an idempotency key in the index."""
    return b"a" + key.encode("utf-8", "surrogateescape")


def claimed(seq: int, row: int) -> bytes:
    """What the index says of a key: the event of its action, and the row."""
    return seq.to_bytes(8, "little") + row.to_bytes(8, "little")
