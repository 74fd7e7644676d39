"""The data before any model: a genetic algorithm, improving pairs, and diverse seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.ehrlich.function import Ehrlich, Sequences

CANDIDATES = 512
"""How many better sequences are looked at to find one close by."""


@dataclass(frozen=True)
class History:
    """Distinct sequences with their objectives, best first; infeasible ones are −inf."""

    sequences: Sequences
    values: NDArray[np.float64]

    @classmethod
    def of(cls, sequences: Sequences, function: Ehrlich) -> History:
        """Scored, without repeats, and sorted."""
        distinct = np.unique(sequences, axis=0)
        values = function(distinct)
        order = np.argsort(-values, kind="stable")
        return cls(distinct[order], values[order])

    def feasible(self) -> History:
        """Those that are feasible."""
        keep = np.isfinite(self.values)
        return History(self.sequences[keep], self.values[keep])


def evolve(
    function: Ehrlich,
    rng: np.random.Generator,
    *,
    rounds: int,
    particles: int,
    mutation: float,
    recombination: float,
    survival: float,
) -> History:
    """Every particle of every round of a genetic algorithm that begins with one sequence.

    Each round mutates all particles, keeps those above the quantile, and fills up with children of
    two survivors, each position from either.
    """
    alive = np.tile(function.start, (particles, 1))
    seen = [alive[:1]]
    for _ in range(rounds):
        mutated = rng.random(alive.shape) < mutation
        alive = np.where(mutated, rng.integers(function.states, size=alive.shape), alive)
        seen.append(alive)
        order = np.argsort(-function(alive), kind="stable")
        kept = alive[order[: max(2, int(survival * particles))]]
        first, second = rng.integers(len(kept), size=(2, particles - len(kept)))
        from_first = rng.random((len(first), function.length)) >= recombination
        children = np.where(from_first, kept[first], kept[second])
        alive = np.concatenate([kept, children])
    return History.of(np.concatenate(seen), function)


def improving_pairs(
    history: History, count: int, distance: int, rng: np.random.Generator
) -> tuple[Sequences, Sequences]:
    """Feasible sequences, each with a better one at most `distance` positions away.

    Sequences have one length, so that the Hamming distance bounds the edit distance.
    """
    pool = history.feasible()
    before, after = [], []
    for index in rng.permutation(len(pool.values)):
        better = int(np.searchsorted(-pool.values, -pool.values[index]))  # best first
        if better == 0:
            continue
        looked = rng.integers(better, size=CANDIDATES)
        apart = (pool.sequences[looked] != pool.sequences[index]).sum(axis=1)
        place = int(np.argmax(apart <= distance))
        if apart[place] <= distance:
            before.append(pool.sequences[index])
            after.append(pool.sequences[looked[place]])
        if len(before) == count:
            break
    return np.array(before), np.array(after)


def diverse(history: History, count: int, share: float) -> Sequences:
    """Farthest-first traversal of the best `share` of the feasible ones, from the best on."""
    pool = history.feasible()
    best = pool.sequences[: max(count, int(np.ceil(share * len(pool.values))))]
    if len(best) < count:
        raise ValueError(f"{count} seeds are wanted but only {len(best)} sequences are feasible")
    chosen = [0]
    nearest = (best != best[0]).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(nearest)))  # the first of equals, which ranks highest
        nearest = np.minimum(nearest, (best != best[chosen[-1]]).sum(axis=1))
    return best[chosen]
