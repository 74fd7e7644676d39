"""A release as plain dictionaries, from docs/explanation/release.md: `Release` must agree with it.

Nothing of the package is used but `ramp_share`, `replaces_window` and the hash of a key.
"""

from __future__ import annotations

from hashlib import blake2b

from tether.release import ArmCounts, Guardrail, ramp_share, replaces_window


class DictionaryModel:
    """Rows by key and system; `advance` computes the share from those of the last step."""

    def __init__(self, guardrails, salt, *, log=None, confidence=None, wait=0, keys_per_step=None):
        self.guardrails: dict[str, Guardrail] = guardrails
        self.salt, self.log, self.confidence, self.wait = salt, log, confidence, wait
        self.keys_per_step = keys_per_step
        self.rows: dict[tuple[str, str], dict] = {}
        self.steps: list[dict] = []
        self.alarm = self.stale = False
        self.advance()

    @property
    def share(self) -> float:
        return 0.0 if self.alarm or self.stale else self.steps[-1]["share"]

    def assign(self, key: str) -> str:
        collects = len(self.steps) == 1 and self.log is None and self.confidence is None
        if self.stale and not self.alarm and not collects:
            self.advance()
        of_step = [row for row in self.rows.values() if row["step"] == len(self.steps)]
        is_full = len(of_step) >= (self.keys_per_step or float("inf"))
        if is_full and (collects or not self.alarm):
            self.advance()
        digest = blake2b(key.encode(), digest_size=8, key=self.salt).digest()
        below = int.from_bytes(digest, "big") < int(self.share * 2.0**64)
        system = "new" if below else "old"
        if (key, system) not in self.rows:
            self.rows[key, system] = {"step": len(self.steps), "losses": {}}
        return system

    def observe(self, key: str, losses: dict[str, float], system=None) -> None:
        if system is None:
            mine = [each for each in ("old", "new") if (key, each) in self.rows]
            system = max(mine, key=lambda each: self.rows[key, each]["step"])
        self.rows[key, system]["losses"] |= losses

    def halt(self) -> None:
        self.alarm = True

    def resume(self) -> None:
        self.alarm, self.stale = False, True

    def advance(self) -> None:
        number = len(self.steps) + 1
        first = not self.steps or self.stale
        ramp = number if first else self.steps[-1]["ramp"]
        window = range(1) if first else self.steps[-1]["window"]
        share = None
        self.stale = False
        if self.confidence is None:
            latest = number - 1 - self.wait
            if latest >= ramp:
                since = range(max(ramp, window[-1] + 1), latest + 1)
                if replaces_window(self._count(window), self._count(since)):
                    window = since
                else:
                    share = self.steps[-1]["share"]
        if share is None:
            share = ramp_share(
                self.guardrails,
                old={name: self._old(name) for name in self.guardrails},
                new={name: self._new(name, window) for name in self.guardrails},
                confidence=self.confidence,
            ).share
        if self.alarm:
            share = 0.0
        self.steps.append({"share": share, "window": window, "ramp": ramp})

    def _count(self, steps: range) -> int:
        return self._sum("new", "", lambda row: row["step"] in steps).rows

    def _old(self, name: str) -> ArmCounts:
        if self.confidence is not None:
            rows = self._sum("old", name, lambda row: True)
            log = self.log[name] if self.log else ArmCounts(0, 0.0)
            return ArmCounts(
                rows.rows + log.rows, rows.total + log.total, rows.pending + log.pending
            )
        return self.log[name] if self.log else self._sum("old", name, lambda row: row["step"] == 1)

    def _new(self, name: str, window: range) -> ArmCounts:
        return self._sum(
            "new", name, lambda row: self.confidence is not None or row["step"] in window
        )

    def _sum(self, system: str, name: str, counts) -> ArmCounts:
        mine = [row for (_, arm), row in self.rows.items() if arm == system and counts(row)]
        known = [row["losses"][name] for row in mine if name in row["losses"]]
        return ArmCounts(len(mine), float(sum(known)), len(mine) - len(known))
