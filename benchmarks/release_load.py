"""Load figures of a release: a million keys and losses, as ratios to `Round.act` and `observe`.

    python -m benchmarks.release_load [--rows 1000000] [--sqlite-only]

Both kinds of store are filled in turn, a batch of one and a batch of the other, so that other work
on the machine slows down both. Keys come in random order. At the end the release is audited, and
answers are compared with the hash: with the same share a key has the same system, and the keys of a
smaller share are among those of a larger one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.runs import postgres_server

import tether
from benchmarks.rounds import line, timed
from tether.release import ArmCounts, is_new, positions
from tether.rounds import verify_store

ROWS, BATCH, STEPS, RETURNING = 1_000_000, 1_000, 50, 1_000
MAX_RATIO = 2.0
"""How much more than an action of a round an assignment may cost, both in batches."""
LOG = {"complaint": ArmCounts(2000, 20.0)}


class Filled:
    """A run of rounds and a release, filled in turn, and how long each call took."""

    def __init__(self, rounds: str, release: str, rows: int) -> None:
        self.run = tether.Controller(tether.Gaussian(0.0), alpha=0.1, store=rounds, deadline=60)
        self.release = tether.Release(
            release, {"complaint": 0.02}, old=LOG, max_silence=None, deadline=60, salt=b"load"
        )
        self.rng = np.random.default_rng(0)
        self.keys = self.rng.permutation(rows)
        self.spent: dict[str, list[float]] = {
            name: [] for name in ("act", "assign", "again", "observe", "observe keys")
        }
        self.shares: list[float] = []

    def fill(self) -> None:
        """All rows, in so many steps of the release, of which the share grows and falls."""
        begun, rows = self.run.begin(), len(self.keys)
        parts = np.array_split(self.keys, STEPS)
        for step, keys in enumerate(parts, 1):
            if step > 1:
                self.release.advance()
            self.shares.append(self.release.share)
            for part in np.array_split(keys, max(1, len(keys) // BATCH)):
                names = [f"user {key}" for key in part.tolist()]
                taken = self._timed("act", len(names), lambda: begun.act(len(names), self.rng))  # noqa: B023
                systems = self._timed("assign", len(names), lambda: self.release.assign(names))  # noqa: B023
                self._check(names, systems)
                zeros = np.zeros(len(names))
                self._timed("observe", len(names), lambda: begun.observe(taken.ids, zeros))  # noqa: B023
                by_new = np.array(systems) == "new"
                loss = (self.rng.random(len(names)) < np.where(by_new, 0.04, 0.01)) * 1.0
                self._timed("observe keys", len(names), lambda: self.release.observe(names, loss))  # noqa: B023
            back = [f"user {key}" for key in self.keys[: min(RETURNING, rows // STEPS)].tolist()]
            self._check(back, self._timed("again", len(back), lambda: self.release.assign(back)))  # noqa: B023
            self.release.observe(back, np.zeros(len(back)), keep_first=True)

    def _timed(self, name: str, rows: int, work: Callable[[], Any]) -> Any:
        seconds, result = timed(work)
        self.spent[name].append(seconds / rows)
        return result

    def _check(self, names: list[str], systems: list[str]) -> None:
        expected = is_new(positions(names, b"load"), self.shares[-1])
        if ((np.array(systems) == "new") != expected).any():
            raise SystemExit("a key has another system than its hash and the share say")

    def show(self, kind: str) -> None:
        """Ratios of medians per row, over all calls and over the last tenth of them."""
        rows = len(self.keys)
        for name, other in (("assign", "act"), ("observe keys", "observe")):
            last = slice(-max(1, rows // BATCH // 10), None)
            for which, part in (("", slice(None)), (", last tenth", last)):
                mine = float(np.median(self.spent[name][part]))
                base = float(np.median(self.spent[other][part]))
                figure = f"{mine / base:.2f} × {other} ({1e6 * mine:.1f} and {1e6 * base:.1f} µs)"
                line(f"{kind}: {name}, {rows:,} rows{which}", figure, MAX_RATIO, mine / base)
        again = float(np.median(self.spent["again"]))
        line(f"{kind}: assign, keys that come back", f"{1e6 * again:.1f} µs")


def nested(keys: int, steps: int) -> None:
    """The systems of so many keys at so many shares: those of a smaller one within a larger one."""
    places = positions([f"user {key}" for key in range(keys)], b"load")
    before, shares = np.zeros(keys, bool), np.linspace(0, 1, steps + 1)[1:] ** 2
    for share in shares.tolist():
        new = is_new(places, share)
        if (before & ~new).any() or abs(new.mean() - share) > 5 * np.sqrt(share / keys):
            raise SystemExit(f"a key went back to the old system at share {share}")
        before = new
    print(f"{keys:,} keys at {steps} growing shares: no key ever goes back", flush=True)


def measure(kind: str, rounds: str, release: str, rows: int) -> None:
    """Fill both, show the ratios, and audit the release."""
    filled = Filled(rounds, release, rows)
    filled.fill()
    filled.show(kind)
    filled.run.close()
    filled.release.close()
    begun = time.perf_counter()
    report = verify_store(release)
    if not report.ok:
        raise SystemExit(f"{kind}: {report}")
    changes = int((np.diff(filled.shares) != 0).sum())
    spent = time.perf_counter() - begun
    line(f"{kind}: verify, {STEPS} steps, share changed {changes} times", f"{spent:.0f} s, ok")


def main(rows: int = ROWS, *, postgresql: bool = True) -> None:
    nested(rows, STEPS)
    with tempfile.TemporaryDirectory() as folder:
        measure("SQLite", f"{folder}/rounds.db", f"{folder}/release.db", rows)
    if not postgresql or postgres_server.missing():
        print(f"PostgreSQL: {postgres_server.missing() or 'left out'}")
        return
    server = postgres_server.Server(durable=True)
    try:
        measure("PostgreSQL", server.database(), server.database(), rows)
    finally:
        server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--sqlite-only", action="store_true")
    arguments = parser.parse_args()
    main(arguments.rows, postgresql=not arguments.sqlite_only)
