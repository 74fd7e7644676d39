"""Whether an event of a controller may follow on those before it, for verification.

Betas are computed again from the rows, scores and draws that are stored, by the function that
decided them; shares of a ramp likewise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core.records import encode
from tether.policies.normalizer import Normalizer
from tether.runs.body import pack, read_header, unpack
from tether.runs.decide_beta import Decision, Snapshot, decide_beta, describe, drawn_normalizer
from tether.runs.decide_ramp import decide_ramp, is_ramp_over
from tether.runs.errors import LossesMissingError
from tether.runs.event_log import Event, events
from tether.runs.log_rows import Contents
from tether.runs.state import State

TOLERANCE = 1e-6
"""How far, relatively, numbers of a calibration may be from those computed again elsewhere."""
ROUNDED = {"warnings", "curve", "probes"}
"""What is not compared: words and pictures in which a rounded number may tip over."""
MOST_ERRORS = 6.0
"""A normalizing constant further, in standard errors, from that of the stored draws is forged."""


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
        stored = unpack(event.body)[1].get("calibration")
        yield from _compare(where, header, stored, expected)
        psi, drawn = decision.get("log_psi"), drawn_normalizer(expected, contents)
        if (psi is None) != (drawn is None) or (drawn and not _agrees(psi, drawn)):
            yield f"{where}: the normalizing constant of round {number} is not that of its draws"


def _compare(where: str, header: dict[str, Any], stored: Any, expected: Decision) -> Iterator[str]:
    """Compare the stored decision of a round, and its calibration, with what its rows give."""
    number = header["number"]
    if not _alike(header["level"], expected.level):
        yield (
            f"{where}: the log beta of round {number} is {header['level']:.6g}, but its rows give "
            f"{expected.level:.6g}"
        )
        return
    said = {**header["decision"], "reference": header["reference"]}
    told = {**describe(expected), "reference": expected.reference}
    same = all(_alike(said.get(name), told[name]) for name in told.keys() - ROUNDED)
    if expected.calibration is not None and stored is not None:
        held, again = json.loads(str(stored[0])), encode(expected.calibration)
        same &= all(_alike(held.get(name), again[name]) for name in again.keys() - ROUNDED)
    if not same or (expected.calibration is None) != (stored is None):
        yield f"{where}: round {number} does not say what its rows say"


def _alike(first: Any, second: Any) -> bool:
    """Whether two plain values are the same, numbers up to rounding."""
    if isinstance(second, dict) and isinstance(first, dict):
        return first.keys() == second.keys() and all(_alike(first[k], second[k]) for k in second)
    if isinstance(second, (list, tuple)) and isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(_alike, first, second))
    if isinstance(second, float) and isinstance(first, (int, float)):
        near = abs(first - second) <= TOLERANCE * max(abs(second), 1e-3)
        return near or first == second or (math.isnan(first) and math.isnan(second))
    return bool(first == second)


def _agrees(stored: list[float], drawn: Normalizer) -> bool:
    """Whether a stored log ψ, of other and at least as many draws, may be that of these draws."""
    error = float(drawn.standard_error[0])
    own = min(stored[1], 2 * error)  # nobody widens it by a larger error
    return not abs(stored[0] - drawn.log_psi[0]) > MOST_ERRORS * math.hypot(error, own)


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
