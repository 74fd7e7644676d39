"""One of several threads that share a controller, and call whatever it offers, in any order."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.rounds.worker_process import CONTEXTS, named
from tether.rounds import Controller, RoundOverError, read_history

SHARES = {
    "act_once": 0.24,
    "act_in_batch": 0.08,
    "act_with_key": 0.04,
    "observe": 0.33,
    "observe_again": 0.09,
    "observe_otherwise": 0.02,
    "withdraw": 0.01,
    "pending": 0.05,
    "training_rows": 0.05,
    "history": 0.04,
    "status": 0.01,
    "round": 0.03,
    "halt": 0.002,
    "resume": 0.008,
}
"""How often each call is made."""
BAD_LOSSES = 2
"""So many losses of 1 in every fourth round, by each thread: mostly enough for an alarm."""


@dataclass
class Caller:
    """Makes calls, and keeps what was returned: the ids are its own, whatever others do."""

    run: Controller
    url: str
    seed: int
    taken: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)
    withdrawn: set[int] = field(default_factory=set)
    betas: dict[int, float] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self._waiting: list[int] = []
        self._bad: dict[int, int] = {}

    def make_calls(self, count: int, begin_every: int | None = None) -> Caller:
        """So many calls, each of a kind that is drawn; one thread also begins rounds."""
        kinds = self.rng.choice(list(SHARES), size=count, p=list(SHARES.values()))
        for place, kind in enumerate(kinds.tolist()):
            if begin_every and place % begin_every == begin_every - 1:
                kind = "begin"
            getattr(self, kind)()
            self.made[kind] = self.made.get(kind, 0) + 1
        return self

    def begin(self) -> None:
        name = f"tilt {len(self.betas) + 2}"
        self.resume()
        begun = self.run.begin(named(name), name=name)
        self.betas[begun.number] = begun.beta

    def act(self, rows: int, key: str | None = None) -> Any:
        """Act, and keep what was returned; None if the round was over."""
        contexts = self.rng.integers(CONTEXTS, size=rows)
        current = self.run.round
        try:
            taken = current.act(contexts, self.rng, key=key)
        except RoundOverError:
            return None
        assert taken.contexts.tolist() == contexts.tolist()
        columns = (each.tolist() for each in (taken.ids, taken.contexts, taken.actions))
        for each, context, action in zip(*columns, strict=True):
            assert each not in self.taken
            self.taken[each] = (current.number, context, action)
            self._waiting.append(each)
        return taken

    def act_once(self) -> None:
        self.act(1)

    def act_in_batch(self) -> None:
        self.act(int(self.rng.integers(2, 9)))

    def act_with_key(self) -> None:
        key = f"{self.seed}-{len(self.taken)}-{self.made.get('act_with_key', 0)}"
        current, taken = self.run.round, self.act(int(self.rng.integers(1, 4)), key)
        with suppress(RoundOverError):
            again = taken and current.act(taken.contexts, self.rng, key=key)
            if again:
                assert again.ids.tolist() == taken.ids.tolist()
                assert again.actions.tolist() == taken.actions.tolist()

    def _loss(self, each: int) -> float:
        number, _, action = self.taken[each]
        if number % 4 == 3 and self._bad.get(number, 0) < BAD_LOSSES:
            self._bad[number] = self._bad.get(number, 0) + 1
            return 1.0
        return float(self.rng.random() < 0.02 + 0.08 * action)

    def _pick(self) -> list[int]:
        """Some of those that wait, in no order; some wait for long."""
        size = min(len(self._waiting), int(self.rng.integers(1, 12)))
        places = self.rng.choice(len(self._waiting), size=size, replace=False) if size else []
        return [self._waiting.pop(place) for place in sorted(places, reverse=True)]

    def observe(self) -> None:
        ids = self._pick()
        losses = {each: self._loss(each) for each in ids}
        if not ids:
            return
        self.run.observe(ids, list(losses.values()), [each % 7 for each in ids])
        self.losses |= losses

    def _known(self) -> list[int]:
        size = min(len(self.losses), 5)
        ids = np.fromiter(self.losses, dtype=np.int64, count=len(self.losses))
        return self.rng.choice(ids, size=size, replace=False).tolist() if size else []

    def observe_again(self) -> None:
        ids = self._known()
        if not ids:
            return
        self.run.observe(ids, [self.losses[each] for each in ids], [each % 7 for each in ids])

    def observe_otherwise(self) -> None:
        for each in self._known()[:1]:
            try:
                self.run.observe([each], [0.5])
            except ValueError:
                continue
            raise AssertionError(f"a second loss of action {each} was accepted")

    def withdraw(self) -> None:
        ids = self._pick()[:2]
        if ids:
            self.run.withdraw(ids, "the machine stood still", actor=f"thread {self.seed}")
        self.withdrawn |= set(ids)

    def pending(self) -> None:
        ids = self.run.pending().ids
        assert len(np.unique(ids)) == len(ids)
        assert not self.losses.keys() & set(ids.tolist())

    def training_rows(self) -> None:
        rows = self.run.training_rows()
        assert len(np.unique(rows.ids)) == len(rows)
        for each, loss in zip(rows.ids.tolist(), rows.loss.tolist(), strict=True):
            assert self.losses.get(each, loss) == loss

    def history(self) -> None:
        self._check(self.run.history())

    def status(self) -> None:
        """As a process beside this one would read it, where there can be one."""
        if self.url != "sqlite://":
            self._check(read_history(self.url))

    def _check(self, found: Any) -> None:
        assert sum(each.rows for each in found.rounds) >= len(self.taken)
        assert sum(each.observed for each in found.rounds) >= len(self.losses)
        assert all(each.pending >= 0 for each in found.rounds)

    def round(self) -> None:
        assert self.run.round.number >= max(
            (number for number, *_ in self.taken.values()), default=0
        )

    def halt(self) -> None:
        self.run.halt("to look at it", actor=f"thread {self.seed}")

    def resume(self) -> None:
        with suppress(ValueError):  # no alarm stands
            self.run.resume("all is well", actor=f"thread {self.seed}")
