"""What must hold of a store whatever happened to the processes that wrote it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tether
from tests.rounds.worker_process import ACTIONS, SETTINGS, named, open_run, read_journal, table
from tether.monitor import RiskMonitor
from tether.rounds.store import schema
from tether.rounds.store.lanes import LANE_BITS, split_ids
from tether.rounds.store.verify_run import find_tampering

MUTABLE = ("tether_lanes", "tether_kept")
"""Tables whose rows change: they follow from the others."""


class StoreAudit:
    """Compares a store with the journal of those who wrote it, and with itself at the last look."""

    def __init__(
        self, url: str, journal: str | Path, before: dict[str, list] | None = None
    ) -> None:
        self._url, self._journal = url, journal
        self._before = before or {each.name: [] for each in schema.tables.sorted_tables}
        self._wanted: dict[int, set] = {}
        self._lines = 0

    def look(self) -> dict[str, list[dict[str, Any]]]:
        """Check everything; the tables."""
        lines = read_journal(self._journal)
        with open_run(self._url) as run:  # what a crash left behind must open as ever
            tables = read_tables(run)
            self._check_unchanged(tables)
            self._check_journal(lines[self._lines :], tables)  # older ones are with the unchanged
            check_whole(tables, first=len(self._before["tether_actions"]))
            check_alarms(tables)
            self._check_resumed(run, tables)
        self._before, self._lines = tables, len(lines)
        return tables

    def _check_journal(self, lines: list[dict], tables: dict[str, list]) -> None:
        """Nothing that was returned is lost, and nothing is there that nobody asked for."""
        actions = {row["id"]: row for row in tables["tether_actions"]}
        rounds = tables["tether_rounds"]
        observations = {row["action"]: row for row in tables["tether_observations"]}
        for line in lines:
            if line["what"] == "begin":
                assert np.exp(rounds[line["round"] - 1]["log_beta"]) == line["beta"]
            if line["what"] == "act":
                for number, context, action in zip(
                    line["ids"], line["contexts"], line["actions"], strict=True
                ):
                    row = actions[number]
                    assert (row["id"], row["round"]) == (number, line["round"])
                    assert _whole(row["context"]) == context
                    assert _whole(row["action"]) == action
            for number, loss in zip(line.get("ids", ()), _losses(line), strict=True):
                if line["what"].startswith("will"):
                    self._wanted.setdefault(number, set()).add(loss)
                elif line["what"] in ("observe", "withdraw"):
                    assert observations[number]["loss"] == loss
        known = {row["action"] for row in self._before["tether_observations"]}
        for action, row in observations.items():
            assert action in known or row["loss"] in self._wanted[action]

    def _check_unchanged(self, tables: dict[str, list]) -> None:
        """Rows are added, and no row is ever changed: none is split twice or numbered twice."""
        for name, old in self._before.items():
            if name in MUTABLE:
                continue
            keys = [column.name for column in schema.tables.tables[name].primary_key]
            found = {tuple(row[key] for key in keys): row for row in tables[name]}
            assert all(found[tuple(row[key] for key in keys)] == row for row in old)

    def _check_resumed(self, run: tether.Controller, tables: dict[str, list]) -> None:
        """The run is where it was, and the training rows are those of the training share."""
        rounds = tables["tether_rounds"]
        current = run.round
        assert (current.number if current else 0) == len(rounds)
        if current is not None:
            assert current.beta == np.exp(rounds[-1]["log_beta"])
        observed = {r["action"] for r in tables["tether_observations"] if r["loss"] is not None}
        training = [
            row["id"]
            for row in tables["tether_actions"]
            if row["id"] in observed and not row["calibration"]
        ]
        assert sorted(run.training_rows().ids.tolist()) == training
        with run._store.reading() as connection:
            assert list(find_tampering(connection)) == []


def read_tables(run: tether.Controller) -> dict[str, list[dict[str, Any]]]:
    """Every table, as plain rows in the order of their numbers."""
    with run._store.reading() as connection:
        found = {}
        for each in schema.tables.sorted_tables:
            key = (
                "number"
                if each is schema.observations
                else ", ".join(each.primary_key.columns.keys())
            )
            query = f"SELECT * FROM {each.name} ORDER BY {key}"
            found[each.name] = [dict(row) for row in connection.exec_driver_sql(query).mappings()]
    return found


def check_whole(tables: dict[str, list], first: int = 0) -> None:
    """Numbers without gaps, right scores (after the first), every round whole or not there."""
    actions, rounds = tables["tether_actions"], tables["tether_rounds"]
    check_numbers([row["id"] for row in actions])
    assert [row["number"] for row in rounds] == list(range(1, 1 + len(rounds)))
    check_numbers([row["number"] for row in tables["tether_observations"]])
    for lane in {row["id"] >> LANE_BITS for row in actions}:
        begun = [row["round"] for row in actions if row["id"] >> LANE_BITS == lane]
        assert begun == sorted(begun)
    _check_scores(actions[first:], rounds)
    _check_columns(tables)


def check_numbers(ids: list[int]) -> None:
    """Ids without gaps in each lane."""
    lanes, numbers = split_ids(np.array(ids, dtype=np.int64))
    for lane in np.unique(lanes):
        of_lane = np.sort(numbers[lanes == lane]).tolist()
        assert of_lane == list(range(1, 1 + len(of_lane)))


def _check_scores(actions: list, rounds: list) -> None:
    if not actions:
        return
    contexts = np.array([_whole(row["context"]) for row in actions])
    taken = np.array([_whole(row["action"]) for row in actions])
    served = np.array([row["served"] for row in actions])
    safe = table(0.0)
    for name in ("log_safe", "log_prob"):
        column = np.array([row[name] for row in actions], dtype=float)
        for number in np.unique(served):
            where = (served == number) if name == "log_prob" else slice(None)
            policy = safe
            if name == "log_prob" and number:
                row = rounds[number - 1]
                beta = float(np.exp(row["log_beta"]))
                policy = tether.Tethered(safe, named(row["policy"]), beta)
            expected = policy.log_prob(contexts[where], taken[where])
            np.testing.assert_allclose(column[where], expected, rtol=1e-9)


def _check_columns(tables: dict[str, list]) -> None:
    """Parts follow on one another, cover what the last round that used them saw, and no more."""
    rounds = {row["number"]: row for row in tables["tether_rounds"]}
    calibration = [row["id"] for row in tables["tether_actions"] if row["calibration"]]
    lanes, numbers = split_ids(np.array(calibration, dtype=np.int64))
    columns: dict[tuple[int, str], list] = {}
    for part in sorted(tables["tether_columns"], key=lambda part: part["start"]):
        assert part["round"] in rounds, "scores that were stored with a round that never began"
        for number in json.loads(part["numbers"]):
            columns.setdefault((number, part["name"]), []).append(part)
    seen = []
    for row in rounds.values():
        last = {int(lane): reached[0] for lane, reached in json.loads(row["seen"]).items()}
        seen.append(sum((numbers[lanes == lane] <= last[lane]).sum() for lane in last))
    for (number, name), parts in columns.items():
        assert number == 0 or number in rounds, "scores of a round that never began"
        assert parts[0]["start"] == 0
        assert all(b["start"] == a["start"] + a["count"] for a, b in pairwise(parts))
        for part in parts:
            policies = len(json.loads(part["numbers"]))
            assert len(part["values"]) % (8 * part["count"] * policies) == 0
        if not name.startswith("draws"):
            end = parts[-1]["start"] + parts[-1]["count"]
            assert end in seen, "scores of rows that no round saw"
            width = 8 * ACTIONS * len(json.loads(parts[0]["numbers"]))
            assert len(parts[0]["values"]) == width * parts[0]["count"]
    for number, row in rounds.items():
        calibrated = row["calibration"] is not None
        assert ((number, "log_optimized_all") in columns) == calibrated
        assert (row["log_beta"] == -np.inf) or calibrated


def check_alarms(tables: dict[str, list]) -> None:
    """The alarms are those that monitors raise who read all observations in order.

    Only where there is one lane: the order of the observations of several is not stored.
    """
    actions = {row["id"]: row for row in tables["tether_actions"]}
    observations, start = tables["tether_observations"], 0
    if any(row["number"] >> LANE_BITS for row in observations):
        return
    resumed = [row for row in tables["tether_audit"] if row["act"] == "resume"]
    for alarm in [*tables["tether_alarms"], None]:
        number = None if alarm is None else alarm["number"]
        by = next((row for row in resumed if number is not None and row["subject"] >= number), None)
        end = len(observations) if by is None else _observed_before(tables, by["number"])
        monitors: dict[int, RiskMonitor] = {}
        raised = None
        for observation in observations[start:end]:
            action = actions[observation["action"]]
            if observation["loss"] is None or not action["served"] or raised is not None:
                continue
            monitor = monitors.setdefault(
                action["round"],
                RiskMonitor(SETTINGS["alarm_risk"], 1.0, SETTINGS["false_alarm_probability"]),
            )
            if monitor.update([observation["loss"]]).alarm:
                raised = action["round"]
        assert raised == (None if alarm is None else alarm["round"])
        if by is None:
            break
        start = end


def _observed_before(tables: dict[str, list], number: int) -> int:
    """How many observations there were when something was added to the audit trail."""
    entries = tables["tether_entries"]
    of_audit = next(e for e in entries if e["kind"] == "audit" and e["first"] == number)
    last = json.loads(of_audit["heads"])["0"][0]
    before = (e for e in entries if e["kind"] == "observations" and e["number"] <= last)
    return max(entry["last"] for entry in before)


def _losses(line: dict) -> list:
    return line.get("losses", [None] * len(line.get("ids", ())))


def _whole(raw: bytes) -> int:
    return int(np.frombuffer(raw, dtype="<i8")[0])
