"""The releases that benchmarks simulate many at once have the shares that a release serves."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.release_worlds import Batch, State, World, windowed

from tether.release import ArmCounts, Guardrail
from tether.rounds.releases.next_step import follow_ramp

RUNS = 12
KEYS = (300, 300, 20, 20, 20, 200, 5, 5, 300, 40, 300, 300)
"""So that windows of one step, of several steps and without rows follow each other."""


class Rows:
    """The rows of one simulated release, as the real rule asks for them."""

    def __init__(self, state, run, wait):
        self._state, self._run, self._wait = state, run, wait

    def new_count(self, first, last):
        return sum(
            int(self._state.batches[each - 1].rows[self._run]) for each in steps(first, last)
        )

    def old(self):
        rows, losses = (int(each[self._run]) for each in self._state.start)
        return {"loss": ArmCounts(rows, float(losses))}

    def new(self, first, last):
        counted = [
            self._state.batches[each - 1].pending_as_bound(
                late=each == len(self._state.batches) and not self._wait
            )
            for each in steps(first, last)
        ]
        rows, losses = (int(sum(each[k][self._run] for each in counted)) for k in (0, 1))
        return {"loss": ArmCounts(rows, float(losses))}


def steps(first, last):
    return range(max(first, 1), last + 1)


@pytest.mark.parametrize("wait", [0, 1])
@pytest.mark.parametrize("risk", [0.01, 0.2])
@pytest.mark.parametrize("promise", [None, 0.1])
def test_simulated_shares_are_those_that_are_served(wait, risk, promise):
    rng = np.random.default_rng(4)
    world = World("", risk, old_risk=0.02, alpha=0.1, late=(0.5, 0.1), missing=(0.2, 0.0))
    start = np.full(RUNS, 400), rng.binomial(400, 0.02, RUNS)
    state = State(world, 1, *start, start)
    procedure = windowed("calibrated" if promise is None else "exact", wait, promise=promise)
    guardrails = {"loss": Guardrail(alpha=0.1) if promise is None else Guardrail(promise=promise)}
    served, pooled = [None] * RUNS, 0
    for number, keys in enumerate(KEYS, start=1):
        state.shares.append(procedure(state))
        for run in range(RUNS):
            served[run] = follow_ramp(
                guardrails,
                None,
                Rows(state, run, wait),
                served[run],
                number=number,
                wait=wait,
                stops=None,
                cleared=0,
                seen={},
                begun="",
            )
            assert state.shares[-1][run] == pytest.approx(served[run].share, rel=1e-9)
            pooled += served[run].window > served[run].window_from
        state.batches.append(Batch.draw(world, rng.binomial(keys, state.shares[-1]), risk, rng))
    assert pooled
