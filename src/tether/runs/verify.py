"""Verification: the events are replayed, and all that follows from them is computed again."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether._core import signing
from tether.policies.normalizer import Normalizer
from tether.runs.body import unpack
from tether.runs.decide_beta import Evidence, decide_beta, drawn_normalizer
from tether.runs.decide_ramp import decide_ramp, is_ramp_over
from tether.runs.decide_share import decide_share, is_over
from tether.runs.errors import LossesMissingError, TamperedError
from tether.runs.event_log import (
    Event,
    EventLog,
    blob_digest,
    blobs,
    cache,
    claims,
    events,
    follow,
    is_cached,
    is_signed,
    mark_claim,
    read_events,
)
from tether.runs.keys import Index, assigned, claims_of
from tether.runs.log_rows import Contents
from tether.runs.settings import RELEASE
from tether.runs.state import CACHED, LOSS, REWARD, State

TOLERANCE = 1e-6
"""How far, relatively, numbers of a calibration may be from those computed again elsewhere."""
ROUNDED = {"warnings", "curve", "probes"}
"""What is not compared: words and pictures in which a rounded number may tip over."""
MOST_ERRORS = 6.0
"""A normalizing constant further, in standard errors, from that of the stored draws is forged."""


def verify_log(log: EventLog, key: signing.PublicKey | None = None) -> list[str]:
    """Everything that is wrong with a log: its chain, rules, decisions, index and cache."""
    public = log.public_key if key is None else signing.read_public_key(key)
    return log.read(lambda connection: _Replay(connection).findings(public))


class _Replay:
    """The events folded anew, with what follows from each of them."""

    def __init__(self, connection: sql.Connection) -> None:
        self._connection, self._found = connection, list[str]()
        self._state, self._index, self._contents = State(), dict[bytes, bytes](), Contents()
        self._cached: Event | None = None
        self._named = set[str]()  # the policies that are stored as bytes
        self._seen: dict[int, State] = {}  # what rounds were decided on
        query = sql.select(events.c.body).where(events.c.kind == "round")
        self._needed = set[int]()
        for body in connection.execute(query).scalars():
            with suppress(ValueError):  # the chain names what cannot be read
                self._needed.add(unpack(bytes(body))[0].get("seen", -1))

    def findings(self, key: signing.PublicKey | None) -> list[str]:
        """What is wrong, in the order of events; a broken chain ends it."""
        event, found = None, self._found
        try:
            for event in follow(read_events(self._connection)):
                found += [f"event {event.seq}: {each}" for each in self._check(event)]
                self._state.fold(event)
        except TamperedError as error:
            return [*found, str(error)]
        except Exception as error:
            assert event is not None
            return [*found, f"event {event.seq} ({event.kind}) cannot follow: {error}"]
        if event is None:
            return ["there is no event"]
        if self._state.raises is not None:
            found.append(f"event {event.seq}: the alarm that it raises is missing")
        if not found:
            self._check_signature(event, key)
            self._compare_index()
            self._compare_blobs()
            self._compare_cache()
        return found

    def _check(self, event: Event) -> Iterator[str]:
        """What is wrong with an event, given the state before it."""
        state, index = self._state, self._index
        if event.kind == CACHED:
            self._cached = event
            if not is_cached(event, state.dump()):
                yield "the cached state is not that of the events"
            return
        if state.raises is not None and event.kind not in ("alarm", "losses", "rows", "repeated"):
            yield "the alarm that was raised before it is missing"
        if state.settings is None:
            return
        header, columns = unpack(event.body)
        index |= mark_claim(event.mark)
        if event.kind == "alarm":
            if state.raises is None or (header["monitor"], header["message"]) != state.raises:
                yield "an alarm that nothing before it raises"
        elif event.kind == "policy" and header["blob"] is not None:
            self._named.add(header["blob"])
        elif event.kind == "losses":
            yield from _check_losses(state, columns)
        elif event.kind == "rows":
            is_release = state.given.kind == RELEASE
            check = _check_keys if is_release else _check_actions
            yield from check(state, header, columns, index)
            index |= claims_of(state, header, columns, index)
        if state.given.kind != RELEASE:
            if state.seq in self._needed:
                self._seen[state.seq] = state.copy()
            self._contents.take(event)
        if event.kind == "round":
            if state.given.kind == RELEASE:
                yield from _check_release_step(state, event, header)
            elif state.given.decides_shares:
                yield from _check_ramp_step(state, header)
            else:
                yield from self._check_round(header)

    def _check_round(self, header: dict[str, Any]) -> Iterator[str]:
        """What is wrong with the beta of a round, whose scores have been read."""
        state, contents = self._state, self._contents
        number, decision = len(state.units) + 1, header["decision"]
        known = self._seen.pop(header["seen"], None)
        begun = 0 if state.last is None else state.last.event
        if known is None or header["seen"] < begun:
            yield f"round {number} was decided on other events than those before it"
            return
        if "looked" not in decision:
            if header["level"] > -math.inf:
                yield f"round {number} has a beta, but nothing that it was decided on"
            return
        held = state.policies.get(header["policy"], {})
        if decision["looked"] not in (held.get("fingerprint"), held.get("name")):
            yield f"round {number} was decided for another policy than it names"
        try:
            evidence = Evidence(known, contents, decision["looked"], decision["given"])
            expected, found = decide_beta(evidence)
        except (ValueError, KeyError, LossesMissingError) as error:
            yield f"the beta of round {number} cannot be computed again: {error}"
            return
        expected["decision"]["log_psi"] = psi = decision.get("log_psi")
        expected["decision"]["scored"] = decision["scored"]  # other scores give another beta
        yield from _compare(state, header, header | expected)
        drawn = drawn_normalizer(found, contents)
        if (psi is None) != (drawn is None) or (drawn and not _agrees(psi, drawn)):
            yield f"the normalizing constant of round {number} is not that of its draws"

    def _check_signature(self, last: Event, key: signing.PublicKey | None) -> None:
        if key is None:
            if self._state.is_signed and last.signature is None:
                self._found.append("the run is signed, but its last event is not")
        elif not is_signed(last, key):
            self._found.append(f"event {last.seq}, the last one, is not signed with this key")

    def _compare_index(self) -> None:
        query = sql.select(claims)
        stored = {bytes(row[0]): bytes(row[1]) for row in self._connection.execute(query).all()}
        if stored != self._index:
            names = stored.keys() | self._index.keys()
            wrong = sum(stored.get(name) != self._index.get(name) for name in names)
            self._found.append(f"{wrong} entries of the index are not those of the events")

    def _compare_blobs(self) -> None:
        missing = self._named
        for digest, content in self._connection.execute(sql.select(blobs)):
            missing = missing - {digest}
            if blob_digest(bytes(content)) != digest:
                self._found.append(f"the stored bytes {digest} are not as they were written")
        if missing:
            self._found.append(f"{len(missing)} of the stored policies are gone")

    def _compare_cache(self) -> None:
        row, event = self._connection.execute(sql.select(cache)).first(), self._cached
        if row is None:
            return
        if event is None or event.seq != row[0] or not is_cached(event, bytes(row[1])):
            self._found.append("the cache is not the state that its event vouches for")


# ---- steps and rows -----------------------------------------------------------------------------


def _check_losses(state: State, columns: dict[str, Any]) -> Iterator[str]:
    for name, limit in state.given.limits.items():
        values = columns.get(LOSS + name, np.zeros(0))
        if ((values < 0) | (values > limit.bound)).any():
            yield f"a loss {name!r} is outside [0, {limit.bound:g}]"
    if np.isinf(columns.get(REWARD, np.zeros(0))).any():
        yield "a reward is infinite"


def _compare(state: State, header: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    """Compare a stored decision with what its rows give: shares exactly, betas up to rounding."""
    number, by_share = len(state.units) + 1, state.given.decides_shares
    same: Callable[[Any, Any], bool] = operator.eq if by_share else _alike
    level, unit = ("share", "step") if by_share else ("log beta", "round")
    if not same(header["level"], expected["level"]):
        yield (
            f"the {level} of {unit} {number} is {header['level']:.6g}, but its rows give "
            f"{expected['level']:.6g}"
        )
    elif not same(header, expected):
        yield f"the record of {unit} {number} is not what its rows give"


def _check_release_step(state: State, event: Event, header: dict[str, Any]) -> Iterator[str]:
    now = state.time_at(event.at)
    by_hand = state.given.units_per_step is None and state.given.step_seconds is None
    if state.units and not by_hand and not is_over(state, now):
        yield f"step {len(state.units) + 1} began before the last one was over"
    yield from _compare(state, header, decide_share(state, now))


def _check_ramp_step(state: State, header: dict[str, Any]) -> Iterator[str]:
    number, last = len(state.units) + 1, state.last
    goes_on = last is not None and last.policy is not None and header["policy"] == last.policy
    resumed = last is not None and last.cleared != state.cleared
    begins = header["ramp"] == number and not (goes_on and resumed)
    if not begins and state.given.units_per_step is not None and not is_ramp_over(state):
        yield f"step {number} began before the last one was over"
    yield from _compare(state, header, decide_ramp(state, header["policy"], begins=begins))


def _check_keys(
    state: State, header: dict[str, Any], columns: dict[str, Any], index: Index
) -> Iterator[str]:
    """The rows of a release: which system answered each key, and what was known of it."""
    keys = columns["key"].tolist()
    expected = assigned(state, keys, index, outage=header["outage"])
    wrong = {name for name, values in expected.items() if (columns[name] != values).any()}
    if "position" in wrong:
        yield "a position is not the hash of its key"
    if "arm" in wrong:
        yield "a key was answered by a system that its hash does not give"
    if wrong - {"position", "arm"} or header["first"] != state.rows.size:
        yield "what is noted of the earlier rows of a key is not what they say"
    if (expected["before"] >= state.units[-1].before).any() or len(set(keys)) < len(keys):
        yield "a key has two rows in one step"


def _check_actions(
    state: State, header: dict[str, Any], columns: dict[str, Any], index: Index
) -> Iterator[str]:
    """The rows of a controller: which policy acted."""
    if header["first"] != state.rows.size:
        yield "what is noted of the number of earlier rows is not so"
    arm, unit, ramps = columns["arm"], state.last, state.given.decides_shares
    by_policy = bool((arm != 0).any())
    if unit is None or (by_policy and state.is_stopped):
        yield "a policy other than the safe one acted while the run was stopped"
        return
    known = np.isin(arm, (0, 1, -unit.reference if ramps else 0))
    serves = unit.policy is not None and unit.level > (0.0 if ramps else -math.inf)
    if not known.all() or (by_policy and not serves):
        yield f"actions of a policy that round {unit.number} does not serve"


# ---- rounds -------------------------------------------------------------------------------------


def _alike(first: Any, second: Any) -> bool:
    """Whether two plain values are the same, numbers up to rounding."""
    if isinstance(second, dict) and isinstance(first, dict):
        same = first.keys() == second.keys()
        return same and all(_alike(first[name], second[name]) for name in second.keys() - ROUNDED)
    if isinstance(second, (list, tuple)) and isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(_alike, first, second))
    if isinstance(second, float) and isinstance(first, (int, float)):
        both_nan = math.isnan(first) and math.isnan(second)
        close = math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=1e-3 * TOLERANCE)
        return both_nan or close
    return bool(first == second)


def _agrees(stored: list[float], drawn: Normalizer) -> bool:
    """Whether a stored log ψ, of other and at least as many draws, may be that of these draws."""
    error = float(drawn.standard_error[0])
    own = min(2 * error, abs(stored[1]))  # nobody widens it by a larger error
    is_far = abs(stored[0] - drawn.log_psi[0]) > MOST_ERRORS * math.hypot(error, own)
    return not (is_far or math.isnan(stored[0]))
