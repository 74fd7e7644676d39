"""A ramp of policies as plain dictionaries, written from docs/explanation/release.md.

Nothing of the package is used but `ramp_share` and `replaces_window`. Policy k takes the action k,
and the safe policy takes 0, so that an action says who took it.
"""

from __future__ import annotations

import numpy as np

from tether.release import ArmCounts, ramp_share, replaces_window


class AlwaysTakes:
    """A policy that only draws: it always takes the same action."""

    def __init__(self, action: int) -> None:
        self.fingerprint = f"always {action}"
        self.action = action

    def sample(self, contexts, rng):
        count = contexts if isinstance(contexts, int) else len(contexts)
        return np.full(count, self.action)


class RampModel:
    """Rows by id, and rounds in order; `begin` and `advance` compute the share."""

    def __init__(self, guardrails, *, against="safe", confidence=None, actions_per_step=None):
        self.guardrails, self.against, self.confidence = guardrails, against, confidence
        self.actions_per_step = actions_per_step
        self.rows: dict[int, dict] = {}
        self.rounds: list[dict] = []
        self.alarm, self.resumed = False, 0

    @property
    def last(self):
        return self.rounds[-1] if self.rounds else None

    def begin(self, policy=None) -> None:
        if policy is None:
            self.rounds.append({"policy": None, "share": 0.0})
        else:
            self._step(policy, None)

    def advance(self) -> None:
        previous = self.last
        same_ramp = previous["resumed"] == self.resumed
        self._step(previous["policy"], previous if same_ramp else None)

    def before_act(self) -> None:
        """Begin the step that is due."""
        if self.alarm or self.last["policy"] is None:
            return
        taken = [row for row in self.rows.values() if row["round"] == len(self.rounds)]
        is_long = self.actions_per_step is not None and len(taken) >= self.actions_per_step
        if is_long or self.last["resumed"] != self.resumed:
            self.advance()

    def may_answer(self) -> set[int]:
        if self.alarm or not self.last["share"]:
            return {0}
        by_new, by_old = self.last["policy"], self.last["reference"]
        return {by_new} if self.last["share"] == 1 else {by_old, by_new}

    def _step(self, policy, previous) -> None:
        number = len(self.rounds) + 1
        if previous is None:
            made = {"ramp": number, "window": range(1), "resumed": self.resumed}
            made["reference"], made["fixed"] = self._find_reference()
        else:
            made = {name: previous[name] for name in ("ramp", "window", "resumed")}
            made |= {name: previous[name] for name in ("reference", "fixed")}
        share = None
        if self.confidence is None and previous is not None:
            since = range(max(made["ramp"], made["window"][-1] + 1), number)
            if replaces_window(len(self._of_own(made["window"])), len(self._of_own(since))):
                made["window"] = since
            else:
                share = previous["kept"]
        if share is None:
            new = self._of_own(made["window"])
            old = [self.rows[each] for each in self.rows if each in made["fixed"]]
            if self.confidence is not None:
                new = self._by(policy)
                old = self._by(made["reference"])
            share = ramp_share(
                self.guardrails,
                old={name: counts(old, name) for name in self.guardrails},
                new={name: counts(new, name) for name in self.guardrails},
                confidence=self.confidence,
            ).share
        made["kept"] = made["share"] = 0.0 if self.alarm else share
        self.rounds.append(made | {"policy": policy})

    def _of_own(self, numbers: range) -> list[dict]:
        """The rows of some rounds that their own policies answered."""
        return [row for number in numbers for row in self._own(number)]

    def _own(self, number: int) -> list[dict]:
        """The rows of a round that its own policy answered."""
        if not number or self.rounds[number - 1]["policy"] is None:
            return []
        by = self.rounds[number - 1]["policy"]
        return [row for row in self._used() if row["round"] == number and row["by"] == by]

    def _by(self, policy: int) -> list[dict]:
        return [row for row in self._used() if row["by"] == policy]

    def _used(self) -> list[dict]:
        return [row for row in self.rows.values() if not row["withdrawn"]]

    def _find_reference(self) -> tuple[int, set[int]]:
        """Who answers beside the new policy, and the ids of the rows that say how good it is."""
        whole: list[int] = []  # first rounds at a share of 1, since the last safe round or alarm
        ramps: set[int] = set()
        for number, each in enumerate(self.rounds, start=1):
            if each["policy"] is None:
                whole, ramps = [], set()
            elif each["share"] == 1 and each["ramp"] not in ramps:
                ramps.add(each["ramp"])
                whole.append(number)
        for number in reversed(whole if self.against == "last" else []):
            each = self.rounds[number - 1]
            if each["resumed"] != self.resumed:
                break
            mine = {
                key
                for key, row in self.rows.items()
                if row["round"] == number and row["by"] == each["policy"] and row["calibration"]
            }
            old = [self.rows[key] for key in mine]
            if self.confidence is not None:
                old = self._by(each["policy"])
            first = ramp_share(
                self.guardrails,
                old={name: counts(old, name) for name in self.guardrails},
                new=dict.fromkeys(self.guardrails, ArmCounts(0, 0.0)),
                confidence=self.confidence,
            )
            if first.share > 0:
                return each["policy"], mine
        safe = [number for number, each in enumerate(self.rounds, 1) if each["policy"] is None]
        block = set(safe[-1:])
        while block and min(block) - 1 in safe:
            block.add(min(block) - 1)
        return 0, {
            key
            for key, row in self.rows.items()
            if row["round"] in block and row["by"] == 0 and row["calibration"]
        }


def counts(rows: list[dict], name: str) -> ArmCounts:
    used = [row for row in rows if not row["withdrawn"]]
    known = [row["losses"][name] for row in used if name in row["losses"]]
    return ArmCounts(len(used), float(sum(known)), len(used) - len(known))
