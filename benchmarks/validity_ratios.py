"""Policies without probabilities: what is served with an estimated ratio, in known worlds.

Deployed risks are those of the policy that is really served: its actions come from the samplers,
the estimate only weighs them. The measured factor is carried as `ratio_error`; ignoring it, with a
classifier that is no good, has to break.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import tether
from benchmarks.cases import Case

Array = np.ndarray
ALPHA, ROWS, DRAWS, TRUTH_DRAWS = 0.15, 10_000, 20_000, 100_000
LETTERS = np.array(list("abcdefgh"))


class Numbers:
    """Numbers near the context; those far above it are harmful."""

    features = None

    def __init__(self, family: str, scale: float, *, contexts: bool) -> None:
        self.family, self.scale, self.contextual = family, scale, contexts
        self.name = f"numbers{', contexts' if contexts else ''}, N(1, {scale:g}), {family}"

    def contexts(self, count: int, rng: np.random.Generator) -> Any:
        return rng.normal(size=count) if self.contextual else count

    def safe(self, contexts: Any, rng: np.random.Generator) -> Array:
        centre = self._centre(contexts)
        return centre + rng.normal(size=len(centre))

    def optimized(self, contexts: Any, rng: np.random.Generator) -> Array:
        centre = self._centre(contexts)
        return centre + 1.0 + self.scale * rng.normal(size=len(centre))

    def loss(self, contexts: Any, actions: Array) -> Array:
        return (actions - self._centre(contexts) > 1.5).astype(float)

    def _centre(self, contexts: Any) -> Array:
        return np.zeros(contexts) if isinstance(contexts, int) else contexts


class Words:
    """Words of six letters, of which only counts of letters are seen; those with "gh" harm.

    The optimized policy prefers g and h, which counts show; or, with `pairs`, it moves them next to
    each other, which counts cannot show.
    """

    family = "mix"

    def __init__(self, *, pairs: bool) -> None:
        self.pairs, self.name = pairs, f"words, {'pairs' if pairs else 'letters'}"

    def contexts(self, count: int, rng: np.random.Generator) -> int:
        return count

    def safe(self, count: int, rng: np.random.Generator, likely: Array | None = None) -> Array:
        return np.array(["".join(row) for row in LETTERS[rng.choice(8, (count, 6), p=likely)]])

    def optimized(self, count: int, rng: np.random.Generator) -> Array:
        if not self.pairs:
            return self.safe(count, rng, np.r_[np.ones(6), 2.0, 2.0] / 10)
        words = self.safe(count, rng)
        return np.where(rng.random(count) < 0.9, ["".join(sorted(word)) for word in words], words)

    def loss(self, count: int, words: Array) -> Array:
        return np.array(["gh" in word for word in words], dtype=float)

    def features(self, count: int, words: Array) -> Array:
        return np.array([[word.count(letter) for letter in LETTERS] for word in words])


def served(world: Any, constant: bool, carried: bool, rng: np.random.Generator) -> float:
    """The mean loss of what is served after one calibration with an estimated ratio."""
    from sklearn.dummy import DummyClassifier

    ratio = tether.estimate_ratio(
        *(world.safe, world.optimized, world.contexts(DRAWS, rng), rng),
        features=world.features,
        classifier=DummyClassifier() if constant else None,
    )
    contexts = world.contexts(ROWS, rng)
    actions = world.safe(contexts, rng)
    log = tether.make_log(
        ratio.safe, ratio.optimized, contexts, actions, world.loss(contexts, actions)
    )
    proposals = tether.make_proposals(ratio.safe, ratio.optimized, contexts, 1, rng)
    error, log_beta = ratio.error if carried else 1.0, -np.inf
    if np.isfinite(error):
        asked = {"alpha": ALPHA, "family": world.family, "ratio_error": error}
        log_beta = tether.calibrate(log, proposals, **asked).log_beta
    drawn = []
    for sample in (world.safe, world.optimized):
        where = world.contexts(TRUTH_DRAWS, rng)
        actions = sample(where, rng)
        drawn.append((where, actions, world.loss(where, actions)))
    if np.isinf(log_beta):
        return float(drawn[int(log_beta > 0)][2].mean())
    if world.family == "mix":
        share = 1 / (1 + np.exp(-log_beta))
        return float((1 - share) * drawn[0][2].mean() + share * drawn[1][2].mean())
    where, actions, losses = drawn[int(log_beta >= 0)]  # clip proposes the safe policy below 1
    beyond = (-1 if log_beta >= 0 else 1) * (ratio.log_ratio(where, actions) - log_beta)
    accepted = np.exp(np.minimum(beyond, 0.0))
    return float((losses * accepted).sum() / accepted.sum())


def cases() -> Iterator[Case]:
    """The factor carried; and ignored where the estimate is bad, which has to break."""
    for world in (
        Numbers("mix", 1.0, contexts=True),
        Numbers("clip", 0.8, contexts=False),
        Words(pairs=False),
    ):
        each = partial(served, world)
        name = f"estimated ratio, {world.name}"
        yield Case(f"{name}, factor carried", partial(each, False, True), ALPHA, runs=10)
        yield Case(f"{name}, constant, carried", partial(each, True, True), ALPHA, runs=10)
        yield Case(f"{name}, constant, ignored", partial(each, True, False), ALPHA, True, runs=10)
    hidden = partial(served, Words(pairs=True), False, True)
    yield Case("estimated ratio, words, features that hide the harm", hidden, ALPHA, True, runs=10)
