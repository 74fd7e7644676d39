"""Exports that were changed after they were written, in many ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from tether.rounds.store.chain import digest_bytes, link
from tether.rounds.store.export_format import digest_heads


@dataclass
class Opened:
    """An export as plain values: metadata, and rows by kind, all of which can be changed."""

    about: dict[str, Any]
    schema: pa.Schema
    rows: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, path: Path) -> Opened:
        file = parquet.ParquetFile(path)
        rows: dict[str, list[dict[str, Any]]] = {}
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            rows.setdefault(table["kind"][0].as_py(), []).extend(table.to_pylist())
        about = json.loads(file.schema_arrow.metadata[b"tether"])
        return cls(about, file.schema_arrow, rows)

    def write(self, path: Path, **options: Any) -> None:
        layout = self.schema.with_metadata({"tether": json.dumps(self.about)})
        settings = {"use_dictionary": False, "compression": "snappy"} | options
        with parquet.ParquetWriter(path, layout, **settings) as writer:
            for rows in self.rows.values():
                if rows:
                    writer.write_table(pa.Table.from_pylist(rows, schema=layout))

    def record(self, kind: str, place: int = -1) -> RecordChange:
        return RecordChange(self.rows[kind], place)

    def setting(self, name: str) -> RecordChange:
        names = [json.loads(row["record"])["name"] for row in self.rows["setting"]]
        return self.record("setting", names.index(name))

    def agree_on_lanes(self) -> None:
        """Make the metadata say what the lanes say."""
        lanes = [json.loads(row["record"]) for row in self.rows["lane"]]
        plain = [lane | {"head": bytes.fromhex(lane["head"])} for lane in lanes]
        self.about["heads"] = digest_heads(plain).hex()

    def link_again(self, lane: int) -> None:
        """Compute the heads of a lane anew, as a forger would."""
        head = bytes(32)
        for row in self.rows["entry"]:
            if row["entry"]["lane"] == lane:
                head = row["entry"]["head"] = link(head, row["entry"])
        lanes = [json.loads(row["record"]) for row in self.rows["lane"]]
        place = [each["lane"] for each in lanes].index(lane)
        count = sum(row["entry"]["lane"] == lane for row in self.rows["entry"])
        with self.record("lane", place) as record:
            record |= {"head": head.hex(), "last_entry": count}
        self.agree_on_lanes()


class RecordChange:
    """Changes a record in place: `with change as record: record[...] = ...`."""

    def __init__(self, rows: list[dict[str, Any]], place: int) -> None:
        self.row = rows[place]

    def __enter__(self) -> dict[str, Any]:
        self.record: dict[str, Any] = json.loads(self.row["record"])
        return self.record

    def __exit__(self, *_: object) -> None:
        self.row["record"] = json.dumps(self.record)


def in_record(kind: str, place: int = -1, /, **values: Any) -> Callable[[Opened], None]:
    def change(opened: Opened) -> None:
        with opened.record(kind, place) as record:
            record |= values

    return change


def in_setting(name: str, value: Any) -> Callable[[Opened], None]:
    def change(opened: Opened) -> None:
        with opened.setting(name) as record:
            record["value"] = json.dumps(value)

    return change


def in_limit(**values: float) -> Callable[[Opened], None]:
    def change(opened: Opened) -> None:
        with opened.setting("limits") as record:
            limits = json.loads(record["value"])
            limits["loss"] |= values
            record["value"] = json.dumps(limits)

    return change


def in_row(kind: str, place: int, /, **values: Any) -> Callable[[Opened], None]:
    return lambda opened: opened.rows[kind][place].update(values)


def in_struct(kind: str, place: int, /, **values: Any) -> Callable[[Opened], None]:
    return lambda opened: opened.rows[kind][place][kind].update(values)


def dropped(kind: str, place: int, /) -> Callable[[Opened], None]:
    return lambda opened: opened.rows[kind].pop(place) and None


def repeated(kind: str, place: int, /) -> Callable[[Opened], None]:
    return lambda opened: opened.rows[kind].append(opened.rows[kind][place])


def swapped(kind: str, one: int, other: int) -> Callable[[Opened], None]:
    def change(opened: Opened) -> None:
        rows = opened.rows[kind]
        rows[one], rows[other] = rows[other], rows[one]

    return change


def exchanged(kind: str, one: int, other: int, column: str) -> Callable[[Opened], None]:
    def change(opened: Opened) -> None:
        first, second = opened.rows[kind][one], opened.rows[kind][other]
        assert first[column] != second[column]
        first[column], second[column] = second[column], first[column]

    return change


def _one_score(opened: Opened) -> None:
    opened.rows["scores"][0]["scores"]["values"][0] += 1e-12


def _log_beta_and_calibration(opened: Opened) -> None:
    with opened.record("round") as record:
        calibration = json.loads(record["calibration"])
        record["log_beta"] = calibration["log_beta"] = 6.0
        record["calibration"] = json.dumps(calibration)


def _log_beta_and_its_entry(opened: Opened) -> None:
    """A forger who recomputes the chain, but not what the calibration says."""
    from tether.rounds.store.chain import digest_record

    with opened.record("round") as record:
        record["log_beta"] = 6.0
        digest = digest_record(record)
    entries = [row["entry"] for row in opened.rows["entry"]]
    last = [each for each in entries if each["kind"] == "rounds"][-1]
    last["digest"] = digest
    opened.link_again(-1)


def _beta_and_its_entry(opened: Opened) -> None:
    """A forger who recomputes the chain, and lets a calibration contradict itself."""
    from tether.rounds.store.chain import digest_record

    with opened.record("round") as record:
        calibration = json.loads(record["calibration"])
        calibration["beta"] = 7.0
        record["calibration"] = json.dumps(calibration)
        digest = digest_record(record)
    entries = [row["entry"] for row in opened.rows["entry"]]
    last = [each for each in entries if each["kind"] == "rounds"][-1]
    last["digest"] = digest
    opened.link_again(-1)


def _entry_head_of_other_lane(opened: Opened) -> None:
    opened.rows["entry"][-1]["entry"]["head"] = digest_bytes(b"")


def _heads_of_an_entry(opened: Opened) -> None:
    control = [row["entry"] for row in opened.rows["entry"] if row["entry"]["lane"] == -1]
    assert control[-1]["heads"] != "{}"
    control[-1]["heads"] = "{}"


def _lane_removed(opened: Opened) -> None:
    opened.rows["lane"].pop(0)
    opened.agree_on_lanes()


def _lane_added(opened: Opened) -> None:
    row = dict(opened.rows["lane"][-1])
    opened.rows["lane"].append(row)
    with opened.record("lane") as record:
        record |= {"lane": 5, "last_action": 0, "last_observation": 0, "last_entry": 1}
    opened.agree_on_lanes()


def _kinds_out_of_order(opened: Opened) -> None:
    opened.rows = dict(reversed(opened.rows.items()))


def _column_renamed(opened: Opened) -> None:
    names = ["cost" if name == "loss" else name for name in opened.schema.names]
    opened.schema = pa.schema(dict(zip(names, opened.schema.types, strict=True)))
    opened.rows = {
        kind: [{("cost" if name == "loss" else name): v for name, v in row.items()} for row in rows]
        for kind, rows in opened.rows.items()
    }


def _column_of_another_type(opened: Opened) -> None:
    place = opened.schema.names.index("loss")
    opened.schema = opened.schema.set(place, pa.field("loss", pa.float32()))


def _about(**values: Any) -> Callable[[Opened], None]:
    return lambda opened: opened.about.update(values)


NAN = float("nan")
FORGERIES: dict[str, Callable[[Opened], None]] = {
    "a loss": in_row("observation", 3, loss=0.125),
    "a loss removed": in_row("observation", 3, loss=None),
    "a loss of NaN": in_row("observation", 3, loss=NAN),
    "a loss of an action": in_row("action", 3, loss=0.125),
    "rewards exchanged": exchanged("observation", 1, 2, "reward"),
    "observations of exchanged actions": exchanged("observation", 1, 2, "id"),
    "another loss": in_row("observation", 3, which=1),
    "an observation dropped": dropped("observation", 3),
    "an observation repeated": repeated("observation", 3),
    "all observations dropped": lambda opened: opened.rows.pop("observation") and None,
    "an observation of no action": in_row("observation", 3, id=10**6),
    "a reward": in_row("observation", 3, reward=1e9),
    "a row moved to calibration": in_row("action", 0, calibration=True),
    "who served": in_row("action", 0, served=1),
    "the round of an action": in_row("action", 0, round=2),
    "an action": in_row("action", 4, action=0.5),
    "actions exchanged": exchanged("action", 4, 5, "action"),
    "a probability": in_row("action", 4, log_prob=-0.1),
    "a safe score": in_row("action", 4, log_safe=-9.0),
    "an optimized score": in_row("action", -35, log_optimized=-9.0),
    "a context score": in_row("action", 4, context_score=1.0),
    "an id": in_row("action", 4, id=2**40 + 4),
    "an action dropped": dropped("action", 7),
    "an action repeated": repeated("action", 7),
    "actions swapped": swapped("action", 7, 8),
    "all actions dropped": lambda opened: opened.rows.pop("action") and None,
    "a score": _one_score,
    "a score dropped": lambda opened: opened.rows["scores"][0]["scores"]["values"].pop() and None,
    "a score of NaN": lambda opened: opened.rows["scores"][0]["scores"].update(
        values=[NAN, *opened.rows["scores"][0]["scores"]["values"][1:]]
    ),
    "a missing score": lambda opened: opened.rows["scores"][0]["scores"].update(
        values=[None, *opened.rows["scores"][0]["scores"]["values"][1:]]
    ),
    "a piece dropped": dropped("scores", 0),
    "a piece of another round": in_struct("scores", 0, round=9),
    "all scores dropped": lambda opened: opened.rows.pop("scores") and None,
    "log_beta": in_record("round", log_beta=6.0),
    "log_beta and calibration": _log_beta_and_calibration,
    "log_beta and its entry": _log_beta_and_its_entry,
    "beta and its entry": _beta_and_its_entry,
    "the reference of a round": in_record("round", reference=1),
    "what a calibration saw": in_record("round", seen="{}"),
    "the note of a round": in_record("round", note=""),
    "a round's number": in_record("round", number=9),
    "a round without a calibration": in_record("round", calibration=None),
    "a round dropped": dropped("round", -1),
    "a round repeated": repeated("round", 0),
    "alpha": in_limit(alpha=0.9),
    "the bound": in_limit(bound=2.0),
    "the alarm level": in_limit(alarm_risk=0.99),
    "the format of actions": in_setting("actions", {"kind": "text"}),
    "a setting dropped": dropped("setting", 0),
    "a setting added": lambda opened: opened.rows["setting"].append(
        opened.rows["setting"][0] | {"record": json.dumps({"name": "x", "value": "1"})}
    ),
    "another version in the settings": lambda opened: opened.rows["setting"].append(
        opened.rows["setting"][0] | {"record": json.dumps({"name": "version", "value": "4"})}
    ),
    "the audit trail": in_record("audit", actor="nobody"),
    "an act dropped": dropped("audit", 0),
    "the alarm dropped": dropped("alarm", 0),
    "the alarm's message": in_record("alarm", message="all is well"),
    "an alarm that was cleared": in_record("audit", act="resume", subject=1),
    "an entry dropped": dropped("entry", 40),
    "an entry repeated": repeated("entry", 10),
    "entries swapped": swapped("entry", -1, -2),
    "the digest of an entry": in_struct("entry", -1, digest=bytes(32)),
    "the kind of an entry": in_struct("entry", -1, kind="nothing"),
    "the rows of an entry": in_struct("entry", -1, first=1),
    "the served of an entry": in_struct("entry", -2, served=1),
    "the calibration count of an entry": in_struct("entry", -4, calibration=0),
    "the heads of an entry": _heads_of_an_entry,
    "the head of an entry": _entry_head_of_other_lane,
    "the lane of an entry": in_struct("entry", -1, lane=9),
    "the head of a lane": in_record("lane", head="00" * 32),
    "the last action of a lane": in_record("lane", last_action=5),
    "a lane removed": _lane_removed,
    "a lane added": _lane_added,
    "another version": _about(version=4),
    "a later version": _about(version=99),
    "other heads": _about(heads="00" * 32),
    "kinds out of order": _kinds_out_of_order,
    "an unknown kind": in_row("action", 0, kind="gift"),
    "something in a column of another kind": in_row("entry", 0, loss=0.0),
    "a record that is no JSON": in_row("round", 0, record="{"),
    "a record that is deep": in_row("round", 0, record="[" * 100_000),
    "a record with NUL": in_record("alarm", message="a\0b"),
    "a column renamed": _column_renamed,
    "a column of another type": _column_of_another_type,
}
