"""Best of N on draws of the safe policy: what is deployed at each alpha, in blocks of draws.

The draws of a block are split into a log, and two pools from which candidates are taken: one for
the log, one to evaluate what is deployed. A candidate is the number of a draw, so
`tether.Shortlist` is used as for any other policy.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from examples.smollm import results
from examples.smollm.draws import Draws

import tether

SIZES = (4, 8, 16)
SPLITS = 10
EVALUATED = 600
"""Shortlists by which a deployed policy is evaluated."""

Score = Callable[[Draws], np.ndarray]
"""What picks: a score of every draw."""


def log_ratio(draws: Draws) -> np.ndarray:
    """How much likelier a draw is under the optimized policy."""
    return draws["log_optimized"] - draws["log_safe"]


def words(draws: Draws) -> np.ndarray:
    """The reward itself."""
    return draws["words"]


class Pool:
    """A sampler: a random one of some draws on the subject."""

    def __init__(self, draws: Draws, rows: np.ndarray) -> None:
        subject = draws["subject"][rows]
        self._rows = [rows[subject == each] for each in range(subject.max() + 1)]

    def sample(self, contexts: Any, rng: np.random.Generator) -> np.ndarray:
        """One draw per subject."""
        contexts = np.asarray(contexts)
        drawn = np.empty(len(contexts), dtype=np.int64)
        for subject, rows in enumerate(self._rows):
            here = contexts == subject
            drawn[here] = rng.choice(rows, size=here.sum())
        return drawn


def deployed(
    draws: Draws, policy: Any, subjects: np.ndarray, rng: np.random.Generator
) -> tuple[float, float]:
    """Violation rate and words of what a tethered shortlist serves."""
    rows = policy.shortlist.draw(subjects, rng)
    picked = np.exp(policy.pick.log_prob_all(rows))
    rate = (picked * draws["loss"][rows.candidates]).sum(axis=1).mean()
    return float(rate), float((picked * draws["words"][rows.candidates]).sum(axis=1).mean())


def splits(
    draws: Draws,
    score: Score,
    alphas: Sequence[float],
    log_rows: int,
    count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Rate, words, beta, safe only, draws and tokens per action, by size and alpha and split.

    Candidates are draws that are not in the log; those of the log and those that evaluate a policy
    share none.
    """
    scores = score(draws)
    found = np.empty((len(SIZES) * len(alphas), count, 6))
    tokens = draws["tokens"].mean()
    subjects = np.tile(np.arange(draws["subject"].max() + 1), EVALUATED // 4)
    for split in range(count):
        logged, *halves = _parts(draws["subject"], log_rows, rng)
        pools = [Pool(draws, rows) for rows in halves]
        for place, size in enumerate(SIZES):

            def of(contexts: Any, candidates: np.ndarray) -> np.ndarray:
                return scores[candidates]

            log = _quietly_joined(tether.Shortlist(pools[0], of, size=size), draws, logged, rng)
            serving = tether.Shortlist(pools[1], of, size=size)
            for number, alpha in enumerate(alphas):
                result = tether.calibrate(log, alpha=alpha)
                rate, reward = deployed(draws, serving.tethered(result), subjects, rng)
                where = place * len(alphas) + number
                found[where, split] = (
                    rate, reward, result.beta, not result.exists, size, size * tokens
                )  # fmt: skip
    return found


def _parts(
    subjects: np.ndarray, log_rows: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A log and two pools at random, each with its share of every subject."""
    parts: tuple[list[Any], ...] = ([], [], [])
    for subject in np.unique(subjects):
        rows = rng.permutation(np.flatnonzero(subjects == subject))
        logged = round(log_rows * len(rows) / len(subjects))
        for part, piece in zip(
            parts, (rows[:logged], rows[logged::2], rows[logged + 1 :: 2]), strict=True
        ):
            part.append(piece)
    first, second, third = (np.concatenate(part) for part in parts)
    return first, second, third


def _quietly_joined(
    shortlist: tether.Shortlist, draws: Draws, logged: np.ndarray, rng: np.random.Generator
) -> tether.Log:
    """The log. Candidates repeat over its rows, so now and then they rank unlike logged ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return shortlist.make_log(draws["subject"][logged], logged, draws["loss"][logged], rng)


def study(
    blocks: Sequence[Draws],
    name: str,
    score: Score,
    alphas: Sequence[float],
    log_rows: int,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """For each size and alpha: the deployed policy, averaged over splits and blocks of draws."""
    safe = [
        {column: values[block["source"] == "safe"] for column, values in block.items()}
        for block in blocks
    ]
    found = np.stack([splits(block, score, alphas, log_rows, SPLITS, rng) for block in safe])
    kinds = itertools.product(SIZES, alphas)
    return [
        results.row(f"best of {size}, {name}", alpha, of_blocks)
        for (size, alpha), of_blocks in zip(kinds, found.swapaxes(0, 1), strict=True)
    ]
