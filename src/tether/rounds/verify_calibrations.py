"""Whether the betas of rounds follow from what is stored: each is computed again.

A round is calibrated on the rows, losses, scores and draws that the store had when it began, and
all of these are kept. Policies are not needed: their scores are there.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import sqlalchemy as sql

from tether._core.arrays import Floats
from tether._core.contexts import take
from tether.control.calibration import Calibration
from tether.control.columns import PolicyPath
from tether.control.families import Family, find_family
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.policies.normalizer import Normalizer
from tether.rounds.calibrate_round import count_served, find_beta, losses_in_use
from tether.rounds.calibration_rows import PATH_TABLE, CalibrationRows, Density
from tether.rounds.errors import StoreError, TamperedError, as_tampering
from tether.rounds.policy_registry import SAFE, DeployedPolicy, Mixing
from tether.rounds.round_log import RoundLog
from tether.rounds.score_columns import ScoreColumns
from tether.rounds.settings import Settings
from tether.rounds.store import schema
from tether.rounds.store.lanes import CONTROL_LANE, split_ids
from tether.rounds.store.queries import calibration_from_json, read_all
from tether.rounds.store.rows import Rows
from tether.rounds.store.serving import RETIRE
from tether.rounds.store.writer import record_kind

TOLERANCE = 0.01
"""How far a log beta may be from the one that is computed again: about a step of the grid."""


def find_wrong_calibrations(connection: sql.Connection, stored: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with calibrations, round after round."""
    run: _StoredRun | None = None
    for row in read_all(connection, schema.rounds):
        if row["calibration"] is None:
            continue
        number = row["number"]
        try:
            with as_tampering("it"):
                found = calibration_from_json(row["calibration"])
                assert found is not None
                run = run or _StoredRun(connection, stored)
                problem = "" if run.family is None else run.difference(number, found)
        except (TamperedError, StoreError) as error:
            problem = str(error)
        if problem:
            yield f"round {number}: {problem}"


def is_of_the_package(family: str) -> bool:
    """Whether there is a family of this name, so that betas can be computed again."""
    try:
        find_family(family)
    except ValueError:
        return False
    return True


class _StoredRun:
    """What the store has of a run; `family` is None where it is the user's own."""

    def __init__(self, connection: sql.Connection, stored: Mapping[str, Any]) -> None:
        self._connection, self._stored = connection, stored
        self.settings = Settings.from_dict(stored)
        name = self.settings.family
        self.family: Family | None = find_family(name) if is_of_the_package(name) else None
        self._rounds = {row["number"]: row for row in read_all(connection, schema.rounds)}
        self._rows = Rows(len(self.settings.limits))
        self._rows.refresh(connection)
        table = schema.observations
        named = (table.c.number, table.c.action, table.c.which, table.c.loss, table.c.reward)
        columns = zip(*connection.execute(sql.select(*named)), strict=True)
        kinds = (np.int64, np.int64, np.int64, np.float64, np.float64)
        self._observed = [np.array(c, k) for c, k in zip(columns, kinds, strict=False)]
        self._scores = ScoreColumns(cast(Any, _Snapshot(connection)))
        self._scores.refresh()

    def difference(self, number: int, found: Calibration) -> str:
        """What of a calibration does not follow from the store; empty where everything does."""
        log, proposals = self._log(number)
        assert self.family is not None
        for ratio_error in (log.ratio_error, _stated(found) / self.settings.ratio_error):
            log.ratio_error = max(log.ratio_error, ratio_error)  # what a policy stated of itself
            again = find_beta(self.settings, self.family, log, proposals, number)
            problem = _compare(found, again)
            if not problem:
                return ""
        return problem

    def _log(self, number: int) -> tuple[Log, Proposals | None]:
        row, settings = self._rounds[number], self.settings
        rows = self._seen_by(json.loads(row["seen"]))
        where = np.flatnonzero(rows.calibration)
        losses, used, _ = losses_in_use(settings, rows, where, self._retired_before(number))
        counts = count_served(rows.served[where][used])
        needed = {*counts, row["reference"]} - {SAFE}
        deployed: dict[int, DeployedPolicy] = {}
        while needed:
            each = needed.pop()
            deployed[each] = self._deployed(each)
            needed |= {deployed[each].reference} - {SAFE} - deployed.keys()
        draws = self._scores.draws(number)
        at_rows = _StoredRows(
            number, rows, where, deployed, self._scores, self._stored, draws.get("log_beta")
        )
        made = RoundLog(at_rows, counts, row["reference"], used, acting=settings.by_who_acted)
        return made.make(losses), _proposals(settings.family, draws)

    def _seen_by(self, seen: Mapping[str, list[int]]) -> Rows:
        """The rows and losses that a calibration saw; rows are in the order of calibrations."""

        def known(ids: Any, which: int) -> Any:
            lanes, numbers = split_ids(ids)
            reached = {lane: seen.get(str(lane), [0, 0])[which] for lane in set(lanes.tolist())}
            return numbers <= np.array([reached[lane] for lane in lanes.tolist()])

        rows = copy.copy(self._rows)
        rows._reorder(np.flatnonzero(known(rows.ids, 0)))
        rows.losses = np.full(rows.losses.shape, np.nan)
        rows.withdrawn = np.zeros(len(rows), np.bool_)
        if self._observed:
            visible = known(self._observed[0], 1)
            _, action, which, loss, reward = (each[visible] for each in self._observed)
            if len(action):
                columns = {"action": action, "which": which, "loss": loss, "reward": reward}
                rows._add_observations([columns])
        return rows

    def _deployed(self, number: int) -> DeployedPolicy:
        """What a round deployed, without its policies."""
        row = self._rounds[number]
        found = calibration_from_json(row["calibration"])
        if found is None or self.family is None:
            raise TamperedError(f"round {number} has rows but no calibration")
        family = self.family if self.family.name == found.family else find_family(found.family)
        normalizer = None
        if row["log_psi"] is not None:
            error = row["log_psi_error"] or 0.0
            normalizer = Normalizer(np.array([row["log_psi"]]), np.array([error]))
        nobody = cast(Any, None)
        mixing = Mixing(family, row["log_beta"], found.blend)
        return _Recorded(nobody, nobody, row["reference"], normalizer, recorded=mixing)

    def _retired_before(self, number: int) -> frozenset[int]:
        """The rounds that had been retired when a round began."""
        entry, audit = schema.entries, schema.audit
        query = sql.select(entry.c.kind, entry.c.first).where(
            entry.c.lane == CONTROL_LANE,
            entry.c.kind.in_([record_kind(schema.rounds), record_kind(audit)]),
        )
        acts: list[int] = []
        for kind, first in self._connection.execute(query.order_by(entry.c.number)):
            if kind == record_kind(schema.rounds) and first == number:
                break
            acts += [first] * (kind == record_kind(audit))
        retired = sql.select(audit.c.subject).where(audit.c.act == RETIRE)
        return frozenset(self._connection.scalars(retired.where(audit.c.number.in_(acts))))


class _Snapshot:
    """A connection where a store is expected."""

    def __init__(self, connection: sql.Connection) -> None:
        self._connection = connection

    @contextmanager
    def reading(self, *, patience: float = 1) -> Iterator[sql.Connection]:
        yield self._connection


@dataclass(frozen=True)
class _Recorded(DeployedPolicy):
    """What a round deployed, as it is recorded."""

    recorded: Mixing | None = None

    @property
    def mixing(self) -> Mixing:
        assert self.recorded is not None
        return self.recorded


class _StoredRows(CalibrationRows):
    """Calibration rows with the scores that the store has; no policy scores any."""

    def __init__(
        self,
        number: int,
        rows: Rows,
        where: Any,
        deployed: Mapping[int, DeployedPolicy],
        scores: ScoreColumns,
        stored: Mapping[str, Any],
        log_betas: Floats | None,
    ) -> None:
        self.number, self.deployed, self.scores = number, deployed, scores
        self.candidate = cast(Any, None)
        self.contexts, self.actions = take(rows.contexts, where), rows.actions[where]
        self.served, self._log_safe = rows.served[where], rows.log_safe[where]
        self.contextual = not isinstance(rows.contexts, int)
        has_tables = scores.length("log_optimized_all", number) > 0
        self.all_actions = np.array(stored["listed_actions"]) if has_tables else None
        self._width = None if self.all_actions is None else len(self.all_actions)
        self.name = "log_optimized_all" if has_tables else "log_optimized"
        self.policy_path = None
        if scores.length(PATH_TABLE, number) and log_betas is not None:
            self.name, width = "log_tethered", 2 + len(log_betas)
            table = scores.read(PATH_TABLE, [number], 0, len(self), width)[number]
            self.candidate_scores = table[:, 1]
            self.policy_path = PolicyPath(stored["family"], log_betas, table[:, 2:])
        else:
            self.candidate_scores = self._read(number, 0, len(self))
        self.safe_density = Density(self._read_safe())


def _proposals(family: str, draws: Mapping[str, Floats]) -> Proposals | None:
    """The stored draws of a round; None where it needed none."""
    if not draws:
        return None
    path = None
    if "log_path" in draws:
        log_beta = draws["log_beta"]
        table = draws["log_path"].reshape(-1, len(log_beta))
        path = PolicyPath(family, log_beta, table, drawn_at=draws["drawn_at"])
    context = draws.get("context")
    return Proposals(
        draws["log_safe"],
        draws["log_optimized"],
        context=None if context is None else context.view(np.int64),
        log_mix=draws.get("log_mix"),
        source=np.where(draws["from_safe"] > 0, "safe", "optimized"),
        policy_path=path,
    )


def _stated(found: Calibration) -> float:
    return max(each.ratio_error for each in found.losses.values())


def _compare(found: Calibration, again: Calibration) -> str:
    one, other = found.log_beta, again.log_beta
    if one != other and not math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return f"log_beta is {one!r}, but the rows give {other!r}"
    for name, loss in again.losses.items():
        stated = found.losses[name].promise if name in found.losses else math.nan
        if not math.isclose(stated, loss.promise, rel_tol=TOLERANCE):
            return f"the promise of {name!r} is {stated!r}, but the rows give {loss.promise!r}"
    return ""
