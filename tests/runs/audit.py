"""An auditor of exported runs who knows the format alone: nothing of tether is imported."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np


def read_body(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """A JSON header and raw columns."""
    size = int.from_bytes(body[:4], "little")
    header, at = json.loads(body[4 : 4 + size]), 4 + size
    columns = {}
    for name, kind, shape in header.pop("columns"):
        values = np.frombuffer(body, "<i8" if kind == "bytes" else kind, math.prod(shape), at)
        at += values.nbytes
        if kind == "bytes":
            ends = at + np.append(0, values)
            values = [body[start:end] for start, end in pairwise(ends.tolist())]
            at = int(ends[-1])
        columns[name] = values
    assert at == len(body)
    return header, columns


@dataclass
class Audit:
    """What an export says, and what is wrong with it."""

    settings: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    losses: dict[str, dict[int, float]] = field(default_factory=dict)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    acts: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def answers(self) -> set[tuple[bytes, str]]:
        """Every key with the system that answered it."""
        return {(row["key"], ("old", "new")[row["arm"]]) for row in self.rows}

    def reported(self, name: str) -> set[tuple[bytes, float]]:
        """Every key with a loss that was reported of it."""
        return {(self.rows[row]["key"], loss) for row, loss in self.losses[name].items()}


def audit(file: Path) -> Audit:
    """Read an export, check its chain, and compute simple decisions again."""
    found, head = Audit(), bytes(32)
    query = "SELECT seq, kind, at, mark, body, head FROM tether_events ORDER BY seq"
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute(query).fetchall()
    for number, (seq, kind, at, mark, body, stored) in enumerate(rows, 1):
        hashed = blake2b(head, digest_size=32)
        hashed.update(b"%d %d %s %s\n" % (seq, at, kind.encode(), mark))
        hashed.update(body)
        head = hashed.digest()
        if seq != number or head != stored:
            found.wrong.append(f"event {number} breaks the chain")
            return found
        if kind != "cached":
            _take(found, kind, *read_body(body))
    return found


def _take(found: Audit, kind: str, header: dict[str, Any], columns: dict[str, Any]) -> None:
    if kind == "settings":
        found.settings = header
        found.losses = {name: {} for name in header["limits"]}
    elif kind == "round":
        _check_step(found, header)
        found.steps.append(header | {"before": len(found.rows)})
    elif kind == "rows":
        for k, key in enumerate(columns["key"]):
            row = {name: columns[name][k].item() for name in ("arm", "position", "calibration")}
            salt = bytes.fromhex(found.settings["salt"])
            place = int.from_bytes(blake2b(key, digest_size=8, key=salt).digest(), "big")
            if found.settings["sticky"] and place != row["position"]:
                found.wrong.append(f"row {len(found.rows)} has another hash")
            found.rows.append(row | {"key": key, "step": len(found.steps), "answers": 1})
    elif kind == "losses":
        for name in found.losses.keys() & {column.removeprefix("loss/") for column in columns}:
            for row, loss in zip(
                columns["row"].tolist(), columns[f"loss/{name}"].tolist(), strict=True
            ):
                if not math.isnan(loss):
                    if row in found.losses[name]:
                        found.wrong.append(f"row {row} has two losses")
                    found.losses[name][row] = loss
    elif kind in ("repeated", "withdrawn"):
        for row in columns["row"].tolist():
            found.rows[row]["answers"] += -header["calls"] if kind == "withdrawn" else 1
    elif kind == "alarm":
        found.alarms.append(header)
    elif kind == "act":
        found.acts.append(header)


def _check_step(found: Audit, header: dict[str, Any]) -> None:
    """Compute the share of a sticky release with one absolute guardrail and a declared old risk."""
    limits, settings = found.settings["limits"], found.settings
    (name, limit), old = next(iter(limits.items())), settings["old"]
    simple = len(limits) == 1 and limit["tolerated"] is not None and settings["sticky"]
    if not simple or not old or old[name]["declared"] is None or found.alarms or found.acts:
        return
    rho, alpha = Fraction(old[name]["declared"]), Fraction(limit["tolerated"])
    shares = [Fraction(step["level"]) for step in found.steps]
    low = min(shares[-2:]) if len(shares) > 1 else Fraction(0)
    groups: dict[bool, list[float]] = {True: [], False: []}
    begin = found.steps[-1]["before"] if shares else 0
    length = settings["units_per_step"] or len(found.rows)
    for place in range(begin, min(len(found.rows), begin + length)):
        row = found.rows[place]
        if row["arm"] == 1 and row["answers"]:
            inside = row["position"] < math.floor(low * 2**64)
            groups[inside].append(found.losses[name].get(place, 1.0))
    within = Fraction(int(sum(groups[True])) + 1, len(groups[True]) + 1)
    slack = alpha - low * within - (1 - low) * rho
    if slack < 0:
        share = min(low, (alpha - rho) * _gap(groups[True], rho))
    else:
        share = min(Fraction(1), low + slack * _gap(groups[False], rho))
    if shares:
        share = min(share, Fraction(settings["growth"]) * shares[-1] + Fraction(2, 100))
    if abs(float(share) - header["level"]) > 1e-9:
        number = len(found.steps) + 1
        found.wrong.append(f"step {number} has {header['level']}, not {float(share)}")


def _gap(losses: list[float], rho: Fraction) -> Fraction:
    """Σ_k rho^k·Π_{j ≤ k+1} (n + j)/(L + j) for losses of 0 and 1."""
    n, total = len(losses), int(sum(losses))
    term = result = Fraction(n + 1, total + 1)
    for k in range(1, 400):
        term *= rho * Fraction(n + k + 1, total + k + 1)
        result += term
        if term < Fraction(1, 10**13) or result > 10**9:
            break
    return result
