"""Following the losses of a run: the sums of each round, and the risk monitors, as they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether.monitor import RiskMonitor
from tether.rounds.errors import TamperedError, as_tampering
from tether.rounds.history import INTERVAL_ERROR_PROBABILITY
from tether.rounds.kept import Kept
from tether.rounds.kept_sums import Sums
from tether.rounds.limits import ONLY_LOSS
from tether.rounds.policy_registry import SAFE
from tether.rounds.run_settings import RELEASE_KIND, RunSettings
from tether.rounds.silence import SILENCE
from tether.rounds.store import schema
from tether.rounds.store.lanes import first_id, read_lanes

SEEN, SAFE_SUMS, OLD_SUMS, POLICY_SUMS = "seen", "safe", "old", "policy"
"""Names of what is kept: how far the losses of each lane were read, the safe policy's sums, those
of the old system in each step of a release, and those of a round's own policy in a ramp."""


RISK = "risk"
"""The name of the monitors of losses."""


@dataclass(frozen=True)
class Raised:
    """An alarm that a monitor raises."""

    round: int
    monitor: str
    message: str


class LossesSeen:
    """The sums that are kept, brought up to date with the losses that are stored.

    Nothing is written before `save`, so a reader can use it too. With `anew` what is kept is
    ignored, and everything is computed from the rows.
    """

    def __init__(
        self, connection: sql.Connection, settings: RunSettings, *, anew: bool = False
    ) -> None:
        self._connection, self._settings, self._anew = connection, settings, anew
        self._is_release, self._is_ramp = settings.kind == RELEASE_KIND, settings.is_ramp
        self.kept = Kept(connection, SEEN, SAFE_SUMS, SILENCE)
        seen = None if anew else self.kept[SEEN]
        with as_tampering("the state of the monitors"):
            self.seen = {
                str(int(lane)): int(last) for lane, last in json.loads(seen or "{}").items()
            }
        self.lanes = read_lanes(connection)
        self.names = list(settings.limits)
        self.new_losses: set[str] = set()
        self._sums: dict[str, Sums] = {}
        self._changed: set[str] = set()

    def sums(self, number: int | None, part: str = "round") -> Sums:
        """The sums of a round, or of the safe policy in all rounds.

        In a release those of the new system in a step, or with the part `OLD_SUMS` of the old one.
        In a ramp those of all rows of a round, or with `POLICY_SUMS` of its own policy.
        """
        return self._named_sums(self._name(number, part))

    @property
    def parts(self) -> dict[str, str]:
        """Which parts of a round have sums of their own, and what they are called."""
        if self._is_release:
            return {OLD_SUMS: "the old system in step"}
        return {POLICY_SUMS: "the policy of round"} if self._is_ramp else {}

    def load_sums(self, numbers: Iterable[int]) -> None:
        """Read the sums of rounds that will be asked for, in one query."""
        parts = ("round", *self.parts)
        self.kept.load(f"{part} {number}" for number in numbers for part in parts)

    def unchanged(self, number: int | None, part: str = "round") -> str | None:
        """The text of sums as they are kept; None if losses are new, or nothing is kept."""
        name = self._name(number, part)
        return None if name in self._changed else self.kept[name]

    def _name(self, number: int | None, part: str) -> str:
        return SAFE_SUMS if number is None else f"{part} {number}"

    def _named_sums(self, name: str) -> Sums:
        if name not in self._sums:
            text = None if self._anew else self.kept[name]
            with as_tampering(f"the state of the monitors of {name}"):
                self._sums[name] = Sums() if text is None else Sums.from_json(text)
        return self._sums[name]

    def update(self, *, watch: bool, to: Mapping[int, int] | None = None) -> Raised | None:
        """Read the losses that are new; with `watch`, the alarm that they raise, if any.

        `to` limits what is read to a number in each lane.
        """
        raised = None
        for lane, columns in self.new_observations(to):
            numbers = np.unique(columns["round"]).tolist()
            self.load_sums(numbers)
            for number in numbers:
                of_round = columns["round"] == number
                part = {name: values[of_round] for name, values in columns.items()}
                self._add(number, part)
            self._add_safe(columns)
            if watch and raised is None:
                raised = self._monitor(columns)
            last = int(columns["number"][-1]) - first_id(lane)
            self.seen[str(lane)] = last
        return raised

    def restart(self) -> None:
        """Begin the risk monitors anew, after an alarm was cleared."""
        numbers = self._connection.scalars(sql.select(schema.rounds.c.number)).all()
        self.kept.load(f"round {number}" for number in numbers)
        for number in numbers:
            for sums in self.sums(number).losses.values():
                if sums.risk is not None:
                    sums.risk = None
                    self._changed.add(f"round {number}")

    def save(self) -> None:
        """Keep everything that changed, also in `kept`."""
        for name in self._changed:
            self.kept[name] = self._sums[name].to_json()
        self._changed.clear()
        self.kept[SEEN] = json.dumps(self.seen)
        self.kept.save()

    def new_observations(
        self, to: Mapping[int, int] | None = None
    ) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """The observations of each lane that were not seen yet, as columns."""
        action, observation, round_ = schema.actions, schema.observations, schema.rounds
        names = ("number", "round", "served", "which", "loss", "reward", "log_beta")
        for lane, reached in self.lanes.items():
            seen, start = self.seen.get(str(lane), 0), first_id(lane)
            if seen > reached.last_observation:
                raise TamperedError(
                    f"the monitors have seen {seen} observations of lane {lane}, but there are "
                    f"{reached.last_observation}"
                )
            last = reached.last_observation if to is None else to.get(lane, 0)
            if lane < 0 or last <= seen:
                continue
            table = {"round": action, "served": action, "log_beta": round_}
            query = (
                sql.select(*(table.get(name, observation).c[name] for name in names))
                .join_from(observation, action, observation.c.action == action.c.id)
                .outerjoin(round_, action.c.round == round_.c.number)
                .where(observation.c.number > start + seen)
                .where(observation.c.number <= start + last)
                .order_by(observation.c.number)
            )
            found = self._connection.execute(query).fetchall()
            if len(found) != last - seen:
                raise TamperedError(
                    f"{last - seen - len(found)} observations of lane {lane} were removed, or are "
                    f"of actions that do not exist"
                )
            rows = zip(*found, strict=True)
            types = (np.int64, *(np.int32,) * 3, *(np.float64,) * 3)
            typed = (np.array(column, kind) for column, kind in zip(rows, types, strict=True))
            columns = dict(zip(names, typed, strict=True))
            if not 0 <= columns["which"].min() <= columns["which"].max() < len(self.names):
                raise TamperedError(f"observations of lane {lane} are of losses that do not exist")
            bounds = np.array([limit.bound for limit in self._settings.limits.values()])
            if ((columns["loss"] < 0) | (columns["loss"] > bounds[columns["which"]])).any():
                raise TamperedError(f"observations of lane {lane} have losses outside [0, bound]")
            yield lane, columns

    def by_loss(
        self, columns: dict[str, NDArray[Any]]
    ) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        """Observations that are no withdrawals, by the name of the loss."""
        arrived = ~np.isnan(columns["loss"])
        for k, name in enumerate(self.names):
            mine = arrived & (columns["which"] == k)
            if mine.any():
                yield name, {key: values[mine] for key, values in columns.items()}

    def _add(self, number: int, columns: dict[str, NDArray[Any]]) -> None:
        sums = self.sums(number)
        sums.withdrawn += int(np.isnan(columns["loss"]).sum())
        sums.reward.add(columns["reward"][self._is_counted(columns)])
        self._changed.add(f"round {number}")
        for name, part in self.by_loss(columns):
            self.new_losses.add(name)
            loss, of_loss = part["loss"], sums.losses[name]
            of_loss.observed += len(loss)
            self._add_mean(sums, name, loss[self._is_counted(part)])
            for which in self.parts:
                mine = is_own(part) if which == POLICY_SUMS else ~is_own(part)
                if mine.any():
                    self._add_mean(self.sums(number, which), name, loss[mine])
                    self._changed.add(f"{which} {number}")

    def _monitor(self, columns: dict[str, NDArray[Any]]) -> Raised | None:
        """Let the risk monitor of each policy see its losses in the order of their arrival.

        It goes on where the policy is the reference of a later round.
        """
        for name, part in self.by_loss(columns):
            for by, log_share in monitored_policies(part):
                sums, mine = self.sums(by).losses[name], part["served"] == by
                if sums.risk is None:
                    sums.risk = self.risk_monitor(name, log_share)
                if sums.risk is None:
                    continue
                self._changed.add(f"round {by}")
                status = sums.risk.update(part["loss"][mine])
                if status.alarm:
                    told = status.told(self._level(name, status.alpha))
                    return Raised(int(part["round"][mine][-1]), RISK, of_loss(name, told))
        return None

    def _level(self, name: str, watched: float) -> str:
        """What a monitor compares the risk with; in a ramp that of the new one alone."""
        level = self._settings.limits[name].alarm_risk
        if watched == level:
            return f"alarm level {level:g}"
        return f"alarm level {level:g}, which is {watched:.4g} for a share of {level / watched:.3g}"

    def _is_counted(self, columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Which rows are of what their round began with: its own policy, or the safe one.

        In a ramp that is both policies together.
        """
        own = is_own(columns)
        if self._is_release:
            return own
        return np.ones(len(own), np.bool_) if self._is_ramp else own | _is_of_safe_round(columns)

    def risk_monitor(self, name: str, log_beta: float) -> RiskMonitor | None:
        """A monitor of a loss that has not seen anything; None if there is nothing to monitor.

        In a ramp what is served is both systems together, and the new one has a share s, the
        logarithm of which is `log_beta`. If the new one's risk is above alarm_risk/s, so is that of
        both above alarm_risk, whatever the old one's is. So the monitor sees the new one's losses,
        in whatever order those of the two systems arrive.
        """
        limit, settings = self._settings.limits[name], self._settings
        risk = limit.alarm_risk
        if self._is_ramp:
            risk = risk * float(np.exp(-log_beta))
        if risk >= limit.bound:
            return None
        return RiskMonitor(risk, limit.bound, settings.false_alarm_probability)

    def _add_safe(self, columns: dict[str, NDArray[Any]]) -> None:
        """The safe policy's losses in the order of their arrival, whatever their rounds."""
        by_safe = columns["served"] == SAFE
        if by_safe.any():
            sums, own = self.sums(None), {key: each[by_safe] for key, each in columns.items()}
            sums.reward.add(own["reward"])
            for name, part in self.by_loss(own):
                self._add_mean(sums, name, part["loss"])
            self._changed.add(SAFE_SUMS)

    def _add_mean(self, sums: Sums, name: str, losses: NDArray[Any]) -> None:
        if len(losses):
            limit, of_loss = self._settings.limits[name], sums.losses[name]
            if of_loss.mean is None:
                of_loss.mean = RiskMonitor(limit.alpha, limit.bound, INTERVAL_ERROR_PROBABILITY)
            of_loss.mean.update(losses)


def of_loss(name: str, told: str) -> str:
    """What is told of a loss, with its name where there are several."""
    return told if name == ONLY_LOSS else f"{name}: {told}"


def is_own(columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Which rows were answered by the policy of their own round."""
    return np.asarray(columns["served"] == columns["round"])


def monitored_policies(columns: dict[str, NDArray[Any]]) -> Iterator[tuple[int, float]]:
    """The policies other than the safe one that answered, with the logarithms of their shares.

    Where rounds do not ramp, that of beta. A reference has reached a share of 1.
    """
    for by in np.unique(columns["served"]).tolist():
        if by != SAFE:
            first = int(np.argmax(columns["served"] == by))
            is_reference = columns["round"][first] != by
            yield by, 0.0 if is_reference else float(columns["log_beta"][first])


def _is_of_safe_round(columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    return np.isneginf(columns["log_beta"])
