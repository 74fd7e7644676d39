"""The long Monte Carlo for policies without probabilities: deployed risk with an estimated ratio.

`python -m benchmarks.ratio_validity` prints one row per world, classifier, number of rows and
number of draws: the median measured factor, and the mean deployed risk with its standard error,
first ignoring the factor and then carrying it as `ratio_error`. Deployed risks are those of the
policy that is really served: its actions come from the samplers, the estimate only weighs them.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tether

SIZES = ((500, 500), (500, 20_000), (10_000, 2_000), (10_000, 20_000))
"""Rows of the log, and draws of each policy."""
TRUTH_DRAWS = 100_000
"""Draws of each policy for the deployed risk."""


@dataclass(frozen=True)
class OpaqueWorld:
    """Two samplers, a loss, and what a classifier may see."""

    name: str
    family: str
    alpha: float
    contexts: Callable[[int, np.random.Generator], Any]
    safe: Callable[[Any, np.random.Generator], Any]
    optimized: Callable[[Any, np.random.Generator], Any]
    loss: Callable[[Any, Any], Any]
    features: Callable[[Any, Any], Any] | None = None


def gaussian(family: str, contexts: bool, shift: float, scale: float) -> OpaqueWorld:
    """Numbers near the context; those far above it are harmful."""

    def near(contexts):
        return np.zeros(contexts) if isinstance(contexts, int) else contexts

    def draw(contexts, rng, shift=0.0, scale=1.0):
        center = near(contexts)
        return center + shift + scale * rng.normal(size=len(center))

    return OpaqueWorld(
        f"gaussian, {'contexts' if contexts else 'no contexts'}, N({shift:g}, {scale:g})",
        family,
        0.15,
        (lambda n, rng: rng.normal(size=n)) if contexts else (lambda n, rng: n),
        draw,
        lambda contexts, rng: draw(contexts, rng, shift, scale),
        lambda contexts, actions: (actions - near(contexts) > 1.5).astype(float),
    )


LETTERS = np.array(list("abcdefgh"))


def text(pairs: bool) -> OpaqueWorld:
    """Words of six letters; those with "gh" are harmful. Seen are the counts of letters only.

    The optimized policy prefers the letters g and h, which the counts show; or, with `pairs`, it
    only moves them next to each other, which the counts cannot show.
    """
    likely = np.r_[np.ones(6), 2.0, 2.0] / 10 if not pairs else np.full(8, 1 / 8)

    def draw(n, rng, probabilities=None):
        letters = LETTERS[rng.choice(8, size=(n, 6), p=probabilities)]
        return np.array(["".join(row) for row in letters])

    def optimized(n, rng):
        words = draw(n, rng, likely)
        if not pairs:
            return words
        sorts = rng.random(n) < 0.5
        return np.where(sorts, ["".join(sorted(word)) for word in words], words)

    return OpaqueWorld(
        f"text, {'pairs' if pairs else 'letters'}",
        "mix",
        0.15,
        lambda n, rng: n,
        draw,
        optimized,
        lambda n, words: np.array(["gh" in word for word in words], dtype=float),
        lambda n, words: np.array([[word.count(letter) for letter in LETTERS] for word in words]),
    )


def worlds() -> tuple[OpaqueWorld, ...]:
    """Every world."""
    return (
        gaussian("mix", True, 1.0, 1.0),
        gaussian("mix", True, 1.0, 0.8),
        gaussian("clip", False, 1.0, 0.8),
        text(pairs=False),
        text(pairs=True),
    )


def classifiers() -> dict[str, Any]:
    """From well specified to useless."""
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    return {
        "default": None,
        "linear": LogisticRegression(max_iter=1_000),
        "boosting": HistGradientBoostingClassifier(max_iter=50),
        "naive Bayes": GaussianNB(),
        "constant": DummyClassifier(),
    }


def simulate(world: OpaqueWorld, classifier: Any, rows: int, draws: int, repeats: int, seed: int):
    """The measured factors, and deployed risks without and with them, of independent repeats."""
    rng = np.random.default_rng(seed)
    places = [world.contexts(TRUTH_DRAWS, rng) for _ in range(2)]
    drawn = [world.safe(places[0], rng), world.optimized(places[1], rng)]
    truth = [(*pair, world.loss(*pair)) for pair in zip(places, drawn, strict=True)]
    factors, plain, carried = [], [], []
    for _ in range(repeats):
        ratio = tether.estimate_ratio(
            world.safe,
            world.optimized,
            world.contexts(draws, rng),
            rng,
            features=world.features,
            classifier=classifier,
        )
        contexts = world.contexts(rows, rng)
        actions = world.safe(contexts, rng)
        loss = world.loss(contexts, actions)
        log = tether.make_log(ratio.safe, ratio.optimized, contexts, actions, loss)
        proposals = tether.make_proposals(
            ratio.safe, ratio.optimized, rows if isinstance(contexts, int) else contexts, 1, rng
        )
        factors.append(ratio.error)
        for error, risks in ((1.0, plain), (ratio.error, carried)):
            log_beta = calibrated(log, proposals, world, error)
            risks.append(deployed_risk(world, ratio, log_beta, truth))
    return np.array(factors), np.array(plain), np.array(carried)


def calibrated(log: tether.Log, proposals: Any, world: OpaqueWorld, error: float) -> float:
    """Log beta with the factor carried; −inf where nothing passes."""
    if not np.isfinite(error):
        return -np.inf
    if "ratio_error" in inspect.signature(tether.calibrate).parameters:
        found = tether.calibrate(
            log, proposals, alpha=world.alpha, family=world.family, ratio_error=error
        )
        return found.log_beta
    # The condition with a factor is that of losses and a bound moved away from alpha by it.
    move = {name: moved(loss, world.alpha, error) for name, loss in log.loss.items()}
    moved_log = tether.Log(move, log.log_safe, log.log_optimized, context=log.context)
    bound = world.alpha + error * (1 - world.alpha)
    found = tether.calibrate(
        moved_log, proposals, alpha=world.alpha, bound=bound, family=world.family
    )
    return found.log_beta


def moved(loss: np.ndarray, alpha: float, error: float) -> np.ndarray:
    """Losses whose distance to alpha is multiplied by the factor above it, and divided below."""
    return alpha + np.where(loss > alpha, error, 1 / error) * (loss - alpha)


def deployed_risk(world: OpaqueWorld, ratio: Any, log_beta: float, truth: Any) -> float:
    """The mean loss of what is served: draws of the samplers, accepted by the estimated ratio."""
    losses = [loss for _, _, loss in truth]
    if log_beta == -np.inf or log_beta == np.inf:
        return float(losses[int(log_beta > 0)].mean())
    if world.family == "mix":
        share = np.exp(log_beta - np.logaddexp(0, log_beta))
        return float((1 - share) * losses[0].mean() + share * losses[1].mean())
    proposing = int(log_beta >= 0)  # clip proposes from the safe policy below 1
    sign = -1 if proposing else 1
    beyond = sign * (ratio.log_ratio(*truth[proposing][:2]) - log_beta)
    accepted = np.exp(np.minimum(beyond, 0.0))
    return float((losses[proposing] * accepted).sum() / accepted.sum())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    print("| world | classifier | rows | draws | factor | ignored | carried | alpha |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for world in worlds():
        for name, classifier in classifiers().items():
            for rows, draws in SIZES:
                factors, plain, carried = simulate(
                    world, classifier, rows, draws, options.repeats, seed=0
                )
                shown = " | ".join(
                    f"{risk.mean():.4f} ± {risk.std() / np.sqrt(len(risk)):.4f}"
                    for risk in (plain, carried)
                )
                print(
                    f"| {world.name}, {world.family} | {name} | {rows:,} | {draws:,} | "
                    f"{np.median(factors):.2f} | {shown} | {world.alpha:g} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
