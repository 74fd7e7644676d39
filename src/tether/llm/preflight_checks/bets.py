"""Bets against scores: what they win says how surely draws are not what their scores say.

A bet chooses its odds before it sees the draw, and is paid by the scores: an outcome to which it
gives q and the scores p multiplies its stake by q/p. If draws have the probabilities that they are
scored with, a stake grows to G times itself with a chance of at most 1/G, whatever the policy and
however few the draws. Several bets share one stake, so the gain of all is the mean of theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.llm.completions import Tokens

SOME, MUCH = float(np.log(1e2)), float(np.log(1e4))
"""Log gains from which a check warns, and from which it fails."""
TAILS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""The least likely tokens, down to so much of the probability, ..."""
FACTORS = (0.02, 0.3, 0.7, 0.9, 1.1, 1.5)
"""... are drawn so many times as often: cut off, or too often."""
POWERS = (0.7, 0.9, 1.1, 1.25, 1.5, 2.0)
"""Or all are drawn with their probability to this power: hotter or cooler."""
SHARES = (0.001, 0.01, 0.1, 0.5, 0.999)
"""So many of the draws are not drawn, but repeated."""
STAKES = (0.01, 0.03, 0.1, 0.3, 0.9)
"""So much of the stake is put on the other policy's probabilities."""


def verdict(log_gain: float) -> str:
    """Pass, warn or fail; a gain that is no number fails."""
    return "pass" if log_gain < SOME else "warn" if log_gain < MUCH else "fail"


def shared(log_gains: Floats) -> float:
    """The log gain of a stake that was shared out among several bets alike."""
    with np.errstate(invalid="ignore"):
        return float(np.logaddexp.reduce(log_gains) - np.log(len(log_gains)))


def on_tokens(tokens: Tokens, scores: Floats, table: Floats | None = None) -> Floats:
    """Log gains of bets on tails and powers, over the first tokens drawn at one prompt.

    `table` has the log-probabilities of all tokens. Without it a bet knows the tokens drawn so far,
    and that what is not known has the rest of the probability.
    """
    if np.isneginf(scores).any():  # impossible, and yet drawn
        return np.full(len(TAILS) * len(FACTORS) + len(POWERS), np.inf)
    if table is not None:
        return np.asarray(_odds(table, 0.0)[:, tokens].sum(axis=1))
    place: dict[int, int] = {}
    known: list[float] = []
    odds = _odds(np.array(known), 1.0)
    gains = np.zeros(len(odds))
    for token, score in zip(tokens.tolist(), scores.tolist(), strict=True):
        gains += odds[:, place.get(token, -1)]
        if token not in place:
            place[token] = len(known)
            known.append(score)
            log_known = np.array(known)
            odds = _odds(log_known, max(1.0 - float(np.exp(log_known).sum()), 0.0))
    return gains


def on_repeats(numbers: NDArray[np.int64], scores: Floats) -> Floats:
    """Log gains of bets that a row repeats one of its completions, a number for each of them."""
    chances, again = [], []
    for row, likely in zip(numbers.tolist(), scores.tolist(), strict=True):
        known, log_chance = {row[0]}, likely[0]
        for number, score in zip(row[1:], likely[1:], strict=True):
            chances.append(log_chance)
            again.append(number in known)
            if number not in known:
                known.add(number)
                log_chance = np.logaddexp(log_chance, score)
    return _repeated(np.array(again), np.array(chances))


def on_calls(equal: NDArray[np.bool_], scores: Floats) -> Floats:
    """Log gains of bets that a call returns, row by row, what the call before it returned."""
    return _repeated(equal.ravel(), scores.ravel())


def on_ratios(log_ratio: Floats) -> Floats:
    """Log gains of bets at another policy's probabilities, the last one with the whole stake."""
    stakes = np.array(STAKES)[:, None]
    with np.errstate(invalid="ignore"):
        parts = np.logaddexp(np.log1p(-stakes), np.log(stakes) + log_ratio)
    return np.append(parts.sum(axis=1), log_ratio.sum())


def _odds(log_known: Floats, unknown: float) -> Floats:
    """Log odds of every bet (rows) on every known token, and on all others together (last)."""
    order = np.argsort(-log_known, kind="stable")
    below = np.empty(len(order))
    below[order] = np.exp(log_known[order])[::-1].cumsum()[::-1] + unknown
    inside = np.append(below, 0.0) <= np.maximum(TAILS, unknown)[:, None]
    tails = np.where(inside[:, None], np.log(FACTORS)[:, None], 0.0).reshape(-1, len(below) + 1)
    possible = log_known[log_known > -np.inf]
    level = np.append(log_known, possible.min() if len(possible) else 0.0)
    level[np.isneginf(level)] = 0.0  # never drawn, so any odds will do
    log_odds = np.concatenate([tails, (np.array(POWERS) - 1)[:, None] * level])
    with np.errstate(divide="ignore"):
        paid = log_odds + np.append(log_known, np.log(unknown))
    top = paid.max(axis=1, keepdims=True)
    return np.asarray(log_odds - top - np.log(np.exp(paid - top).sum(axis=1, keepdims=True)))


def _repeated(again: NDArray[np.bool_], log_chance: Floats) -> Floats:
    shares = np.array(SHARES)[:, None]
    missed = np.broadcast_to(np.log1p(-shares), (len(shares), len(again)))
    # Past one, where scores sum to more than they can, a chance is one.
    won = np.logaddexp(missed, np.log(shares) - np.minimum(log_chance, 0.0))
    return np.asarray(np.where(again, won, missed).sum(axis=1))
