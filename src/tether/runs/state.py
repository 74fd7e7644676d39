"""The fold: what follows from the events of a run so far. Nothing else is ever decided on.

Every process folds the same events into the same state, verification does it again, and a dump of
it is the cache. `raises` names an alarm that the events have raised and that has to be appended in
the same transaction; until it is, nothing else may follow.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Booleans, Floats, Integers
from tether._core.records import decode, to_plain
from tether.runs.body import pack, unpack
from tether.runs.settings import Settings
from tether.runs.watch import Shift, Stop, bets_of

if TYPE_CHECKING:
    from tether.runs.event_log import Event

SAFE = 0
"""Stands for the safe policy where a round's number stands for that round's policy."""
MICROSECONDS = 1_000_000
NO_HEAD = bytes(32)
"""The hash before the first event."""
CACHED = "cached"
"""The kind of the events that vouch for the cache: the digest of the state before them."""
SETTLED, NOBODY = -1, -2
"""Stand for the transaction of a row that nobody can disown, and of one that was disowned."""
LOSS, REWARD = "loss/", "reward"
"""How the columns of losses begin, with the name behind it, and the column of rewards."""
ROWS = {
    **{"unit": "i4", "arm": "i4", "position": "u8", "at": "i8", "calibration": "?"},
    **{REWARD: "f8", "before": "i8", "known": "u1", "answers": "i4", "transaction": "i8"},
}
"""What is known of each row apart from its losses: also how many calls have answered from it, none
if it was withdrawn, and in which transaction the last one has."""
GIVEN = {"arm", "position", "calibration", "before", "known", "context_score"}
"""What the event of a row says of it."""
CLOCK_TOLERANCE = 60 * MICROSECONDS
"""Clocks of different machines may differ by so much."""


@dataclass(frozen=True)
class Unit:
    """One round of a controller, or one step of a release or ramp.

    `level` is its share, or its log beta. `begun` says when it began, `event` with which event, and
    `seen` up to which one its decision rests on; `before` how many rows there were. `cleared`
    counts the alarms that had been cleared, and `ramp` is the number of the unit with which the
    present ramp began. `since` is the time of the run when it began. `reference` is the round whose
    policy the level is measured against.
    """

    number: int
    begun: int
    level: float
    before: int
    seen: int
    cleared: int = 0
    ramp: int = 0
    policy: str | None = None
    reference: int = 0
    event: int = 0
    since: int = 0
    decision: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Alarm:
    """An alarm of a monitor; the safe policy or old system serves from `raised` until `cleared`."""

    number: int
    unit: int
    monitor: str
    message: str
    raised: int
    cleared: int | None = None
    reason: str | None = None
    actor: str | None = None


@dataclass(frozen=True)
class Act:
    """What a person did: halt, resume, tighten, retire, withdraw, export_log, begin."""

    number: int
    act: str
    reason: str
    actor: str
    done: int
    subject: str | None = None


class Columns:
    """Columns of equal length that grow at the end."""

    def __init__(self, stored: dict[str, NDArray[Any]]) -> None:
        self._stored = stored
        self.size = len(next(iter(stored.values()), ()))

    def extend(self, count: int, **values: Any) -> slice:
        """Add rows; columns that are not given are 0, or NaN."""
        end = self.size + count
        for name, stored in self._stored.items():
            if end > len(stored):
                more = np.empty(max(1024, 2 * end) - self.size, stored.dtype)
                self._stored[name] = stored = np.append(stored[: self.size], more)
            empty = math.nan if stored.dtype.kind == "f" else 0
            stored[self.size : end] = values.get(name, empty)
        new, self.size = slice(self.size, end), end
        return new

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._stored[name][: self.size]

    def dump(self) -> dict[str, NDArray[Any]]:
        """All columns."""
        return {name: self[name] for name in self._stored}


@dataclass(eq=False)
class State:
    """The state of a run; only `fold` changes it."""

    seq: int = 0  # the last event
    settings: Settings | None = None
    original: Settings | None = None  # before anything was tightened
    tightened: int = 0  # the event that tightened it last
    units: list[Unit] = field(default_factory=list)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    alarms: list[Alarm] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    standing: int | None = None
    cleared: int = 0
    cached: int = 0  # the event that vouches for the last cache
    now: int = 0  # the time of the run
    offset: int = 0  # what it adds to the clocks
    raises: tuple[str, str] | None = None
    quiet: dict[str, list[int]] = field(default_factory=dict)  # rows and time of each last loss
    formats: dict[str, Any] | None = None
    looks: list[tuple[str, int]] = field(default_factory=list)  # of which policy, on how many rows
    waited: dict[int, int] = field(default_factory=dict)  # rows of an outbox: first id, and row
    latest: dict[str, int] = field(default_factory=dict)  # the last transaction of each process
    stop: Stop = field(default_factory=Stop)
    shift: Shift = field(default_factory=Shift)
    head: bytes = field(default=NO_HEAD, init=False)  # the hash of the last event
    rows: Columns = field(default_factory=lambda: Columns({}), init=False)

    # ---- what is asked of it ------------------------------------------------------------------

    @property
    def given(self) -> Settings:
        """The settings of a run that has begun."""
        assert self.settings is not None
        return self.settings

    @property
    def is_signed(self) -> bool:
        """Whether only processes with the key of the run may write."""
        return self.settings is not None and self.settings.signer is not None

    @property
    def last(self) -> Unit | None:
        """The present unit."""
        return self.units[-1] if self.units else None

    @property
    def is_stopped(self) -> bool:
        """Whether only the safe policy or old system serves, until the next unit or `resume`."""
        last = self.last
        if last is None or last.number in self.retired:
            return True
        if self.standing is not None or self.raises is not None:
            return True
        return self.given.decides_shares and self.cleared != last.cleared

    @property
    def retired(self) -> frozenset[int]:
        """The rounds whose rows are left out of calibrations."""
        return frozenset(int(each.subject or 0) for each in self.acts if each.act == "retire")

    @property
    def share(self) -> float:
        """The share of the new system or policy at this moment."""
        return 0.0 if self.is_stopped or self.last is None else self.last.level

    def loss(self, name: str) -> Floats:
        """The losses of all rows; NaN where one is not known."""
        return self.rows[LOSS + name]

    def of_unit(self, number: int) -> slice:
        """The rows that were taken in a unit."""
        return slice(self.units[number - 1].before, self.end_of(number))

    def end_of(self, number: int) -> int:
        """How many rows there were when a unit ended."""
        return self.units[number].before if number < len(self.units) else self.rows.size

    @property
    def calibration_rows(self) -> Integers:
        """The rows that are set apart for calibration."""
        return np.flatnonzero(self.rows["calibration"])

    @property
    def served(self) -> Integers:
        """The round whose policy took each action."""
        unit, arm = self.rows["unit"].astype(np.int64), self.rows["arm"].astype(np.int64)
        return np.where(arm > 0, unit, -arm)

    @property
    def observed(self) -> Booleans:
        """The rows of which all losses are known."""
        known = [~np.isnan(self.loss(name)) for name in self.given.limits]
        return np.asarray(np.all(known, axis=0))

    @property
    def reference(self) -> int:
        """The round whose policy the next beta is measured against."""
        last = self.last
        if self.given.against == "safe" or last is None or last.level == -math.inf:
            return SAFE
        return SAFE if last.number in self.retired else last.number

    def copy(self) -> State:
        """The rows, losses, units and looks of this moment, to decide on; not for folding on."""
        other = copy.copy(self)
        other.rows = Columns({name: each.copy() for name, each in self.rows.dump().items()})
        other.units, other.acts, other.looks = [*self.units], [*self.acts], [*self.looks]
        return other

    def check_act(self, header: dict[str, Any]) -> None:
        """Refuse what cannot be done now: before an act is stored, and again when it is folded."""
        act, subject = header["act"], header.get("subject")
        if act == "resume" and self.standing is None:
            raise ValueError("no alarm stands: there is nothing to resume from")
        if act == "tighten" and self.given.tightened(**header["changes"]) == self.given:
            raise ValueError(f"changes must make something tighter, got {header['changes']}")
        if act == "retire" and subject not in {str(u.number) for u in self.units if u.policy}:
            raise ValueError(f"number must be that of a round with a policy, got {subject}")

    def kept(self, rows: slice, arm: int | None = None) -> Integers:
        """The rows of a slice that were not withdrawn, of one arm."""
        mine: Booleans = self.rows["answers"][rows] > 0
        if arm is not None:
            mine = mine & (self.rows["arm"][rows] == arm)
        return np.asarray(np.flatnonzero(mine) + rows.start)

    # ---- the fold -----------------------------------------------------------------------------

    def fold(self, event: Event) -> None:
        """Take in one event."""
        self._tick(event)
        if event.transaction != SETTLED:
            self.latest[event.mark[:8].hex()] = event.transaction
        if (fold := getattr(self, f"_fold_{event.kind}", None)) is not None:
            if self.settings is None and event.kind != "settings":
                raise ValueError("the first event has to be the settings")
            fold(event, *unpack(event.body))
        elif event.kind == CACHED:
            self.cached = event.seq
        elif event.kind not in ("scores", "draws"):
            raise ValueError(f"{event.kind!r} is not a kind of event")
        self.seq, self.head = event.seq, event.head

    def time_at(self, clock: int) -> int:
        """The time of the run when the clock of a process says this; it never runs backwards."""
        return max(clock + self.offset, self.now)

    def _tick(self, event: Event) -> None:
        """Take in the time of an event.

        A clock that is far behind the last event's means that one of the two was wrong. Time goes
        on from where it was, so that no step stands still, and an alarm says so.
        """
        behind = self.now - (event.at + self.offset)
        if behind > CLOCK_TOLERANCE:
            self.offset += behind
            if self.standing is None and self.raises is None and event.kind != "alarm":
                self.raises = (
                    "clock",
                    f"the clock was set back by {behind / MICROSECONDS:.0f} s, or the clocks of "
                    f"two machines differ: steps may have begun too early",
                )
        self.now = self.time_at(event.at)

    def _fold_settings(self, event: Event, header: dict[str, Any], _: Any) -> None:
        if self.settings is not None:
            raise ValueError("the settings are fixed by the first event")
        self.settings = self.original = decode(Settings, header, "settings")
        scores = {"context_score": "f8"} if self.settings.watches_contexts else {}
        kinds = {**ROWS, **{LOSS + name: "f8" for name in self.settings.limits}, **scores}
        self.rows = Columns({name: np.empty(0, kind) for name, kind in kinds.items()})
        self._end_silence()
        self.stop.restart(self)

    def _fold_policy(self, event: Event, header: dict[str, Any], _: Any) -> None:
        self.policies[header["name"]] = header | {"event": event.seq}

    def _fold_round(self, event: Event, header: dict[str, Any], _: Any) -> None:
        header.pop("calibration", None)  # it is read where it is needed
        times = {"begun": event.at, "since": self.now, "event": event.seq}
        counts = {"number": len(self.units) + 1, "before": self.rows.size, "cleared": self.cleared}
        unit = Unit(**{"seen": event.seq - 1} | header | counts | times)
        self.units.append(unit)
        self._end_silence()
        if "looked" in unit.decision:
            self.looks.append((unit.decision["looked"], unit.decision["rows"]))
        self.stop.begin_unit(self, unit)
        self._look()

    def _fold_rows(self, event: Event, header: dict[str, Any], columns: dict[str, Any]) -> None:
        known = {name: columns[name] for name in GIVEN & columns.keys()}
        known |= {"unit": len(self.units), "at": self.now}
        known |= {"answers": 1, "transaction": event.transaction}
        new = self.rows.extend(len(columns["arm"]), **known)
        self.formats = header.get("formats")
        if "waited" in header:
            self.waited.setdefault(header["waited"], new.start)
        self._look()

    def _fold_losses(self, event: Event, _: Any, columns: dict[str, Any]) -> None:
        rows = columns.pop("row")
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.rows.size):
            raise ValueError("losses of rows that do not exist")
        if len(np.unique(rows)) < len(rows):
            raise ValueError("two losses of one row")
        for column, values in columns.items():
            known, stored = ~np.isnan(values), self.rows[column]
            mine = rows[known]
            if not np.isnan(stored[mine]).all():
                raise ValueError(f"a value of {column!r} is final, and was stored before")
            stored[mine] = values[known]
            if column == REWARD:
                continue
            self.stop.add_losses(self, name := column.removeprefix(LOSS), mine)
            if len(mine):
                self.quiet[name] = [self.rows.size, self.now]
        self._look()

    def _fold_repeated(self, event: Event, _: Any, columns: dict[str, Any]) -> None:
        rows = columns["row"]
        if (rows < 0).any() or (self.rows["answers"][rows] == 0).any():
            raise ValueError("rows are repeated that do not exist, or were withdrawn")
        self.rows["answers"][rows] += 1
        self.rows["transaction"][rows] = event.transaction

    def _fold_withdrawn(self, _: Event, header: dict[str, Any], columns: dict[str, Any]) -> None:
        rows = np.unique(columns["row"])
        if (rows < 0).any():
            raise ValueError("rows that do not exist are withdrawn")
        answers = self.rows["answers"][rows]
        left = np.maximum(answers - header["calls"], 0)
        self.stop.withdraw(self, rows[left < np.minimum(answers, 1)])
        self.rows["answers"][rows], self.rows["transaction"][rows] = left, NOBODY

    def _fold_alarm(self, event: Event, header: dict[str, Any], _: Any) -> None:
        number, words = len(self.alarms) + 1, (header["monitor"], header["message"])
        self.alarms.append(Alarm(number, len(self.units), *words, event.at))
        self.standing = self.standing or number
        self.raises = None

    def _fold_act(self, event: Event, header: dict[str, Any], _: Any) -> None:
        self.check_act(header)
        words = header["act"], header["reason"], header["actor"]
        act = Act(len(self.acts) + 1, *words, event.at, header.get("subject"))
        self.acts.append(act)
        if act.act == "resume":
            for place in range(self.cleared, len(self.alarms)):
                self.alarms[place] = replace(
                    self.alarms[place], cleared=event.at, reason=act.reason, actor=act.actor
                )
            self.standing, self.cleared, self.raises = None, len(self.alarms), None
            self._end_silence()
            self.shift = Shift(self.rows.size)
            self.stop.restart(self)
        elif act.act == "halt":
            self.raises = ("halt", act.reason)
        elif act.act == "export_log":
            self.looks.append((header["looked"], header["rows"]))
        elif act.act == "tighten":
            self.settings = self.given.tightened(**header["changes"])
            self.tightened = event.seq
            self.stop.restart(self)

    def _look(self) -> None:
        """Raise the alarm that the rows and losses show, unless one stands already."""
        if self.standing is None and self.raises is None:
            self.raises = self.stop.shown(self, self.now)
            if self.given.watches_contexts and self.raises is None:
                self.raises = self.shift.shown(self.given, self.rows["context_score"])
            self.raises = self.raises or self._silence()

    def _end_silence(self) -> None:
        self.quiet = {name: [self.rows.size, self.now] for name in self.given.limits}

    def _silence(self) -> tuple[str, str] | None:
        """Whether the new policy or system has served for too long without one of the losses."""
        limit, seconds, now = self.given.max_silence, self.given.max_silent_seconds, self.now
        nobody = 0.0 if self.given.decides_shares else -math.inf
        if self.is_stopped or self.last is None or self.last.level == nobody:
            return None
        for name, (rows, at) in self.quiet.items():
            if limit is not None and self.rows.size - rows >= limit:
                return "silence", f"no {name!r} in {self.rows.size - rows:,} rows"
            if seconds is not None and now - at >= seconds * MICROSECONDS:
                return "silence", f"no {name!r} for {(now - at) / MICROSECONDS:,.0f} s"
        return None

    # ---- the cache ----------------------------------------------------------------------------

    def dump(self) -> bytes:
        """Everything as bytes; the same state gives the same bytes."""
        columns = {f"rows/{name}": column for name, column in self.rows.dump().items()}
        head = np.frombuffer(self.head, np.uint8)
        return pack({"state": to_plain(self)}, head=head, sums=self.stop.sums, **columns)

    @classmethod
    def load(cls, content: bytes) -> State:
        """Undo `dump`."""
        header, columns = unpack(content)
        state: State = decode(cls, header["state"], "state")
        state.head, state.stop.bets = columns.pop("head").tobytes(), bets_of(state.given)
        state.stop.sums = np.array(columns.pop("sums"))
        held = {name.removeprefix("rows/"): np.array(each) for name, each in columns.items()}
        state.rows = Columns(held)
        return state
