"""The fold: what follows from the events of a run so far. Nothing else is ever decided on.

Every process folds the same events into the same state, verification does it again, and a dump of
it is the cache. `raises` names an alarm that the events have raised and that has to be appended in
the same transaction; until it is, nothing else may follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Booleans, Floats, Integers
from tether._core.records import decode, encode
from tether.runs.body import pack, unpack
from tether.runs.event_log import CACHED, Event
from tether.runs.settings import Settings
from tether.runs.watch import Stop

OLD, NEW = 0, 1
"""The arms: the safe policy or old system, and the optimized policy or new system."""
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Unit:
    """One round of a controller, or one step of a release or ramp.

    `level` is its share, or its log beta. `begun` and `seen` say when it began, and after which
    event; `before` how many rows there were. `cleared` counts the alarms that had been cleared, and
    `ramp` is the number of the unit with which the present ramp began.
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
    """What a person did: halt, resume, retire, withdraw, tighten, sign."""

    number: int
    act: str
    reason: str
    actor: str
    done: int
    subject: str | None = None


class Columns:
    """Columns of equal length that grow at the end."""

    def __init__(self, **types: str) -> None:
        self._types = types
        self._stored = {name: np.empty(0, kind) for name, kind in types.items()}
        self.size = 0

    def extend(self, count: int, **values: Any) -> slice:
        """Add rows; columns that are not given are 0, or NaN."""
        end = self.size + count
        for name, kind in self._types.items():
            stored = self._stored[name]
            if end > len(stored):
                grown = np.empty(max(1024, 2 * end), stored.dtype)
                grown[: self.size] = stored[: self.size]
                self._stored[name] = stored = grown
            empty = math.nan if np.dtype(kind).kind == "f" else 0
            stored[self.size : end] = values.get(name, empty)
        new, self.size = slice(self.size, end), end
        return new

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._stored[name][: self.size]

    def dump(self) -> dict[str, NDArray[Any]]:
        """All columns."""
        return {name: self[name] for name in self._types}

    def load(self, columns: dict[str, NDArray[Any]]) -> None:
        """Undo `dump`."""
        self.size = len(next(iter(columns.values()))) if columns else 0
        self._stored = {name: np.array(columns[name]) for name in self._types}


class State:
    """The state of a run; only `fold` changes it."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.units: list[Unit] = []
        self.policies: dict[str, dict[str, Any]] = {}
        self.alarms: list[Alarm] = []
        self.acts: list[Act] = []
        self.standing: int | None = None
        self.cleared = 0
        self.now = 0
        self.raises: tuple[str, str] | None = None
        self.rows = Columns(
            unit="i4", arm="i4", position="u8", at="i8", calibration="?", withdrawn="?", reward="f8"
        )
        self.losses: dict[str, Columns] = {}
        self.stop = Stop()
        self.quiet_since = 0

    # ---- what is asked of it ------------------------------------------------------------------

    @property
    def given(self) -> Settings:
        """The settings of a run that has begun."""
        assert self.settings is not None
        return self.settings

    @property
    def last(self) -> Unit | None:
        """The present unit."""
        return self.units[-1] if self.units else None

    @property
    def is_stopped(self) -> bool:
        """Whether only the safe policy or old system serves, until the next unit or `resume`."""
        last = self.last
        return last is None or self.standing is not None or self.cleared != last.cleared

    @property
    def share(self) -> float:
        """The share of the new system or policy at this moment."""
        return 0.0 if self.is_stopped or self.last is None else self.last.level

    def loss(self, name: str) -> Floats:
        """The losses of all rows; NaN where one is not known."""
        return np.asarray(self.losses[name]["loss"])

    def of_unit(self, number: int) -> slice:
        """The rows that were taken in a unit."""
        begin = self.units[number - 1].before
        end = self.units[number].before if number < len(self.units) else self.rows.size
        return slice(begin, end)

    def kept(self, rows: slice, arm: int | None = None) -> Integers:
        """The rows of a slice that were not withdrawn, of one arm."""
        mine: Booleans = ~self.rows["withdrawn"][rows]
        if arm is not None:
            mine = mine & (self.rows["arm"][rows] == arm)
        return np.flatnonzero(mine) + rows.start

    # ---- the fold -----------------------------------------------------------------------------

    def fold(self, event: Event) -> None:
        """Take in one event."""
        self.now = event.at
        if event.kind == CACHED:
            return
        header, columns = unpack(event.body)
        folds: dict[str, Callable[[Event, dict[str, Any], dict[str, NDArray[Any]]], None]] = {
            "settings": self._fold_settings,
            "policy": self._fold_policy,
            "round": self._fold_round,
            "rows": self._fold_rows,
            "losses": self._fold_losses,
            "withdrawn": self._fold_withdrawn,
            "alarm": self._fold_alarm,
            "act": self._fold_act,
        }
        if event.kind in ("scores", "draws"):
            return
        if event.kind not in folds:
            raise ValueError(f"there is no kind of event {event.kind!r}")
        if self.settings is None and event.kind != "settings":
            raise ValueError("the first event has to be the settings")
        folds[event.kind](event, header, columns)

    def _fold_settings(self, event: Event, header: dict[str, Any], _: Any) -> None:
        if self.settings is not None:
            raise ValueError("the settings are fixed by the first event")
        self.settings = Settings.from_dict(header)
        self.losses = {name: Columns(loss="f8") for name in self.settings.limits}
        self.stop.begin(self.settings)

    def _fold_policy(self, event: Event, header: dict[str, Any], _: Any) -> None:
        self.policies[header["name"]] = header

    def _fold_round(self, event: Event, header: dict[str, Any], _: Any) -> None:
        unit = Unit(**header, begun=event.at, seen=event.seq - 1)
        if unit.number != len(self.units) + 1 or unit.before != self.rows.size:
            raise ValueError(f"unit {unit.number} does not follow on {len(self.units)} units")
        if unit.cleared != self.cleared:
            raise ValueError(f"unit {unit.number} counts {unit.cleared} cleared alarms")
        self.units.append(unit)
        self.quiet_since = max(self.quiet_since, unit.before)
        self.stop.begin_unit(self, unit)

    def _fold_rows(self, event: Event, header: dict[str, Any], columns: dict[str, Any]) -> None:
        if header["unit"] != len(self.units):
            raise ValueError(f"rows of unit {header['unit']} in unit {len(self.units)}")
        count = len(columns["arm"])
        known = {
            name: columns[name] for name in ("arm", "position", "calibration") if name in columns
        }
        new = self.rows.extend(count, unit=header["unit"], at=event.at, reward=math.nan, **known)
        for each in self.losses.values():
            each.extend(count, loss=math.nan)
        self.stop.add_rows(self, new)
        self._look(event)

    def _fold_losses(self, event: Event, header: dict[str, Any], columns: dict[str, Any]) -> None:
        rows = columns["row"]
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.rows.size):
            raise ValueError("losses of rows that do not exist")
        if "reward" in columns:
            self.rows["reward"][rows] = columns["reward"]
        for name in header["losses"]:
            values, stored = columns[f"loss/{name}"], self.loss(name)
            known = ~np.isnan(values)
            mine = rows[known]
            if not np.isnan(stored[mine]).all():
                raise ValueError(f"a loss {name!r} is final, and there was one already")
            self.stop.add_losses(self, name, mine, values[known])
            stored[mine] = values[known]
            if len(mine):
                self.quiet_since = self.rows.size
        self._look(event)

    def _fold_withdrawn(
        self, event: Event, header: dict[str, Any], columns: dict[str, Any]
    ) -> None:
        rows = columns["row"][~self.rows["withdrawn"][columns["row"]]]
        self.stop.withdraw(self, rows)
        self.rows["withdrawn"][rows] = True

    def _fold_alarm(self, event: Event, header: dict[str, Any], _: Any) -> None:
        number = len(self.alarms) + 1
        self.alarms.append(
            Alarm(number, len(self.units), header["monitor"], header["message"], event.at)
        )
        self.standing = self.standing or number
        self.raises = None

    def _fold_act(self, event: Event, header: dict[str, Any], _: Any) -> None:
        act = Act(
            len(self.acts) + 1,
            *(header["act"], header["reason"], header["actor"], event.at),
            subject=header.get("subject"),
        )
        self.acts.append(act)
        if act.act == "resume":
            for place in range(self.cleared, len(self.alarms)):
                self.alarms[place] = replace(
                    self.alarms[place], cleared=event.at, reason=act.reason, actor=act.actor
                )
            self.standing, self.cleared, self.raises = None, len(self.alarms), None
            self.quiet_since = self.rows.size
            self.stop.restart()
        elif act.act == "tighten":
            self.settings = self.given.tightened(**header["changes"])
            self.stop.tighten(self)

    def _look(self, event: Event) -> None:
        """Raise the alarm that the rows and losses show, unless one stands already."""
        if self.standing is None and self.raises is None:
            self.raises = self.stop.shown(self, event.at) or self._silence()

    def _silence(self) -> tuple[str, str] | None:
        limit = self.given.max_silence
        if limit is None or self.rows.size - self.quiet_since < limit:
            return None
        count = self.rows.size - self.quiet_since
        return "silence", f"{count} rows in a row without a single loss"

    # ---- the cache ----------------------------------------------------------------------------

    def dump(self) -> bytes:
        """Everything as bytes; the same state gives the same bytes."""
        header = {
            "settings": None if self.settings is None else self.settings.to_dict(),
            "units": encode(self.units),
            "policies": self.policies,
            "alarms": encode(self.alarms),
            "acts": encode(self.acts),
            "numbers": [self.standing, self.cleared, self.now, self.quiet_since],
            "raises": self.raises,
            "stop": self.stop.numbers(),
        }
        columns = {f"rows/{name}": column for name, column in self.rows.dump().items()}
        columns |= {f"loss/{name}": each["loss"] for name, each in self.losses.items()}
        columns |= {f"stop/{name}": each for name, each in self.stop.dump().items()}
        return pack(header, **columns)

    def load(self, content: bytes) -> None:
        """Undo `dump`."""
        header, columns = unpack(content)
        if header["settings"] is not None:
            self.settings = Settings.from_dict(header["settings"])
            self.stop.begin(self.settings)
        self.units = decode(list[Unit], header["units"])
        self.policies = header["policies"]
        self.alarms = decode(list[Alarm], header["alarms"])
        self.acts = decode(list[Act], header["acts"])
        self.standing, self.cleared, self.now, self.quiet_since = header["numbers"]
        self.raises = None if header["raises"] is None else tuple(header["raises"])
        parts: dict[str, dict[str, NDArray[Any]]] = {"rows": {}, "loss": {}, "stop": {}}
        for name, column in columns.items():
            kind, _, rest = name.partition("/")
            parts[kind][rest] = column
        self.rows.load(parts["rows"])
        self.losses = {name: Columns(loss="f8") for name in parts["loss"]}
        for name, column in parts["loss"].items():
            self.losses[name].load({"loss": column})
        self.stop.load(header["stop"], parts["stop"])
