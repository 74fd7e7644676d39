"""Bets against scores: e-values against the hypothesis that draws have the scored probabilities.

A bet chooses its odds before it sees the draw, and is paid by the scores: an outcome to which the
bet gives probability q and the scores p multiplies the wealth by q/p. If draws have the
probabilities that they are scored with, the expected wealth is 1 (an e-value), so that the average
wealth of several bets reaches G with probability at most 1/G, whatever the policy and however few
the draws (`tether._core.averaged_bets`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tether._core.types import Booleans, Floats, Integers
from tether.llm.completions import Tokens
from tether.llm.token_tables import TokenTables

LOG_WEALTH_WARN = float(np.log(1e2))
"""Log wealth from which a check warns."""
LOG_WEALTH_FAIL = float(np.log(1e4))
"""Log wealth from which a check fails."""
TAIL_PROBABILITIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Tails: the least likely tokens that together have at most this probability."""
TAIL_FACTORS = (0.02, 0.3, 0.7, 0.9, 1.1, 1.5)
"""A tail is bet to be drawn this many times as often as scored: truncated, or too often."""
POWERS = (0.7, 0.9, 1.1, 1.25, 1.5, 2.0)
"""Tokens are bet to be drawn with their probability to this power: another temperature."""
GROUP_FACTORS = (0.02, 0.3, 0.7, 0.9, 1.1, 1.5, 3.0)
"""Tokens that came before, or the end, are bet to be drawn this many times as often as scored."""
REPEATED_SHARES = (0.001, 0.01, 0.1, 0.5, 0.999)
"""This share of draws is bet to be a repetition and not a fresh draw."""
RATIO_STAKES = (0.01, 0.03, 0.1, 0.3, 0.9)
"""Shares of the wealth that are staked on the other policy's probabilities."""


def verdict(log_wealth: float) -> str:
    """Pass, warn or fail; NaN fails."""
    if log_wealth < LOG_WEALTH_WARN:
        return "pass"
    return "warn" if log_wealth < LOG_WEALTH_FAIL else "fail"


def bet_on_tokens(tokens: Tokens, scores: Floats, table: Floats | None = None) -> Floats:
    """Log wealth of bets on tails and powers, over the first tokens drawn at one prompt.

    `table` has the log-probabilities of all tokens. Without it, a bet knows the tokens drawn so
    far, and that all other tokens share the remaining probability.
    """
    if np.isneginf(scores).any():  # an impossible token was drawn
        return np.full(len(TAIL_PROBABILITIES) * len(TAIL_FACTORS) + len(POWERS), np.inf)
    if table is not None:
        return np.asarray(_log_odds(table, 0.0)[:, tokens].sum(axis=1))
    position: dict[int, int] = {}
    known: list[float] = []
    log_odds = _log_odds(np.array(known), 1.0)
    log_wealth = np.zeros(len(log_odds))
    for token, score in zip(tokens.tolist(), scores.tolist(), strict=True):
        log_wealth += log_odds[:, position.get(token, -1)]
        if token not in position:
            position[token] = len(known)
            known.append(score)
            log_known = np.array(known)
            log_odds = _log_odds(log_known, max(1.0 - float(np.exp(log_known).sum()), 0.0))
    return log_wealth


def bet_on_positions(
    tables: TokenTables, prompts: Sequence[Sequence[int]], actions: Tokens, ends: Tokens
) -> Floats:
    """Log wealth of bets on every token of completions, whose likeliest tokens are known.

    Beside tails and powers they are on tokens that have come before, in the completion or also in
    the prompt, and on the end: drawn less often or more often than scored.
    """
    log_wealth = np.zeros(1)
    for row, position, tokens, log_probs in zip(
        tables.row, tables.position, tables.tokens, tables.log_probs, strict=True
    ):
        drawn = int(actions[row, position])
        before = actions[row, :position]
        possible = log_probs[np.isfinite(log_probs)]
        unknown = max(1.0 - float(np.exp(possible).sum()), 0.0)
        groups = np.array(
            [
                np.isin(tokens, before),
                np.isin(tokens, before) | np.isin(tokens, prompts[row]),
                np.isin(tokens, ends),
            ]
        )
        found = np.flatnonzero(tokens == drawn)
        place = int(found[0]) if len(found) else -1
        odds = np.concatenate(
            [_log_odds(log_probs, unknown), _group_odds(log_probs, unknown, groups)]
        )
        log_wealth = log_wealth + odds[:, place]
    return log_wealth


def bet_on_repeats(labels: Integers, scores: Floats) -> Floats:
    """Log wealth of bets that a row repeats its completions; equal labels are equal completions."""
    log_chances, repeated = [], []
    for row_labels, row_scores in zip(labels.tolist(), scores.tolist(), strict=True):
        known, log_chance = {row_labels[0]}, row_scores[0]
        for label, score in zip(row_labels[1:], row_scores[1:], strict=True):
            log_chances.append(log_chance)
            repeated.append(label in known)
            if label not in known:
                known.add(label)
                log_chance = np.logaddexp(log_chance, score)
    return _bet_on_events(np.array(repeated), np.array(log_chances))


def bet_on_calls(equal: Booleans, scores: Floats) -> Floats:
    """Log wealth of bets that a call returns, row by row, what the previous call returned."""
    return _bet_on_events(equal.ravel(), scores.ravel())


def bet_on_ratios(log_ratio: Floats) -> Floats:
    """Log wealth of bets at another policy's probabilities, the last one staking everything."""
    stakes = np.array(RATIO_STAKES)[:, None]
    with np.errstate(invalid="ignore"):
        factors = np.logaddexp(np.log1p(-stakes), np.log(stakes) + log_ratio)
    return np.append(factors.sum(axis=1), log_ratio.sum())


def _log_odds(log_known: Floats, unknown: float) -> Floats:
    """Log odds of every bet (rows) on every known token, and on all others together (last)."""
    order = np.argsort(-log_known, kind="stable")
    below = np.empty(len(order))
    below[order] = np.exp(log_known[order])[::-1].cumsum()[::-1] + unknown
    in_tail = np.append(below, 0.0) <= np.maximum(TAIL_PROBABILITIES, unknown)[:, None]
    tails = np.where(in_tail[:, None], np.log(TAIL_FACTORS)[:, None], 0.0)
    tails = tails.reshape(-1, len(below) + 1)
    possible = log_known[log_known > -np.inf]
    level = np.append(log_known, possible.min() if len(possible) else 0.0)
    level[np.isneginf(level)] = 0.0  # never drawn, so any odds will do
    log_factors = np.concatenate([tails, (np.array(POWERS) - 1)[:, None] * level])
    with np.errstate(divide="ignore"):
        weighted = log_factors + np.append(log_known, np.log(unknown))
    top = weighted.max(axis=1, keepdims=True)
    log_total = np.log(np.exp(weighted - top).sum(axis=1, keepdims=True))
    return np.asarray(log_factors - top - log_total)


def _group_odds(log_known: Floats, unknown: float, groups: Booleans) -> Floats:
    """Log odds of bets that a group of tokens is drawn by another factor than it is scored."""
    log_factors = np.log(GROUP_FACTORS)[None, :, None] * groups[:, None, :]
    log_factors = log_factors.reshape(-1, len(log_known))
    total = (np.exp(log_factors) * np.exp(log_known)).sum(axis=1, keepdims=True) + unknown
    padded = np.concatenate([log_factors, np.zeros((len(log_factors), 1))], axis=1)
    return np.asarray(padded - np.log(total))


def _bet_on_events(happened: Booleans, log_chance: Floats) -> Floats:
    shares = np.array(REPEATED_SHARES)[:, None]
    lost = np.broadcast_to(np.log1p(-shares), (len(shares), len(happened)))
    # Scores that sum to more than one give a chance above one, which counts as one.
    won = np.logaddexp(lost, np.log(shares) - np.minimum(log_chance, 0.0))
    return np.asarray(np.where(happened, won, lost).sum(axis=1))
