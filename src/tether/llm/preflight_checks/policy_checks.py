"""The measures of a preflight on one policy: each takes numbers and returns a check."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tether._core.contexts import take
from tether._core.types import Floats
from tether.llm.completions import FILL, Tokens, encoded, lengths
from tether.llm.preflight_checks import bets
from tether.llm.preflight_checks.result import Check

CLOSE, FAR = 0.05, 1.0
"""Nats a sequence: differences up to the first pass, beyond the second they fail."""
NOTHING = 1e-3
"""Nats below which the end of a completion counts as certain."""


def named(name: str, check: Check) -> Check:
    """The same check under another name."""
    return replace(check, name=name)


def sampler_against_scorer(stated: Floats, scored: Floats) -> Check:
    """What the sampler said of its draws, against what the scorer says of them."""
    name = "sampler against scorer"
    advice = "sampler and scorer disagree: same weights, template, adapter and dtype in both?"
    known = ~np.isnan(stated)
    if not known.any():
        told = "the sampler states no log-probabilities, so nothing was compared"
        return Check(name, "warn", np.nan, told, "ask the server for logprobs of what it samples")
    return _apart(name, stated[known], scored[known], advice)


def noise_floor(scored: Floats, again: Floats) -> Check:
    """The same sequences scored in a batch and one by one: what rounding alone does."""
    advice = "log ratios below this are noise: score in float32, or take fewer tokens"
    return _apart("noise floor of the dtype", scored, again, advice)


def first_tokens(
    tokens: Tokens, scores: Floats, draws: int, tables: Sequence[Floats] | None = None
) -> Check:
    """Whether first tokens, so many a prompt, are drawn with the probabilities of their scores.

    `tables` holds the scores of all tokens at each prompt, where they are to be had.
    """
    rows, likely = tokens.reshape(-1, draws), scores.reshape(-1, draws)
    gains = np.sum(
        [
            bets.on_tokens(row, score, None if tables is None else tables[place])
            for place, (row, score) in enumerate(zip(rows, likely, strict=True))
        ],
        axis=0,
    )
    gain = bets.shared(gains)
    known = "all scores" if tables is not None else "the scores of what was drawn"
    return Check(
        "sampling settings",
        bets.verdict(gain),
        gain,
        f"bets on cut or cooled first tokens make {_times(gain)} of 1 ({rows.size} draws, {known})",
        "something cuts, cools or heats what is sampled (top_k, top_p, min_p, temperature, "
        "generation_config): switch it off, or score it too",
    )


def distinct_draws(actions: Tokens, scores: Floats, draws: int, call: int) -> Check:
    """Whether completions repeat more often than their probabilities say: a seed used again.

    Of the `draws` of a prompt the first `call` are of one call and the next `call` of another.
    """
    _, numbers = np.unique(actions, axis=0, return_inverse=True)
    rows, likely = numbers.reshape(-1, draws), scores.reshape(-1, draws)
    equal = rows[:, :call] == rows[:, call : 2 * call]
    calls = bets.on_calls(equal, likely[:, call : 2 * call])
    gain = bets.shared(np.concatenate([bets.on_repeats(rows, likely), calls]))
    distinct = sum(len(np.unique(row)) for row in rows)
    return Check(
        "distinct seeds",
        bets.verdict(gain),
        gain,
        f"{distinct} of {rows.size} completions are different, {equal.sum()} of {equal.size} come "
        f"again in a second call; bets on repeats make {_times(gain)} of 1",
        "the same seed is used again, or completions come from a cache: one generator, passed on",
    )


def endings(policy: Any, asked: Any, actions: Tokens, scored: Floats) -> Check:
    """Whether completions end, and whether their end token is part of their score."""
    name, size = "end of sequence", lengths(actions)
    cut = np.asarray(policy.cut_off(actions))
    told = f"{int(cut.sum())} of {len(cut)} completions were cut off"
    if cut.all():
        return Check(name, "warn", 1.0, told, "raise max_new_tokens, or check eos_token_id")
    ended = np.flatnonzero(~cut & (size > 1))[:4]
    parts = []
    for row in ended:  # the same tokens without their end are a completion that was cut off
        shorter = policy.shortened(int(size[row]) - 1)
        before = shorter.log_prob(take(asked, np.array([row])), actions[row, None, : size[row] - 1])
        parts.append(scored[row] - before[0])
    if parts and np.abs(parts).max() < NOTHING:
        told += "; their end token adds nothing to their scores"
        advice = "either every end is certain, or the scorer leaves the end token out"
        return Check(name, "warn", float(cut.mean()), told, advice)
    if parts:
        told += f"; an end token adds {np.mean(parts):.2f} nats to a score"
    return Check(name, "pass", float(cut.mean()), told)


def round_trip(policy: Any, actions: Tokens) -> Check:
    """Whether the text of a completion has the same tokens again."""
    name, tokenizer = "token round trip", getattr(policy, "tokenizer", None)
    if tokenizer is None:
        told = "there is no tokenizer, so nothing was compared"
        return Check(name, "warn", np.nan, told, "keep token ids, never text alone")
    same = 0
    for row, text in zip(actions, policy.texts(actions), strict=True):
        kept = [int(token) for token in row if token != FILL and token not in policy.ends]
        with suppress(ValueError):
            same += encoded(tokenizer, text, "a completion") == kept
    share = same / len(actions)
    return Check(
        name,
        "pass" if share == 1 else "warn",
        share,
        f"{same} of {len(actions)} completions have the same tokens after text and back",
        "log token ids: scored from their text, the others would be other actions",
    )


def _apart(name: str, one: Floats, two: Floats, advice: str) -> Check:
    with np.errstate(invalid="ignore"):
        gap = np.abs(one - two)
    gap[(one == two)] = 0.0  # both −inf
    worst = float(np.nan_to_num(gap, nan=np.inf).max())
    status = "pass" if worst <= CLOSE else "warn" if worst <= FAR else "fail"
    return Check(name, status, worst, f"at most {worst:.2g} nats a sequence", advice)


def _times(log_gain: float) -> str:
    """A gain as people read it: 0.31, or 10^12."""
    decades = log_gain / np.log(10)
    return f"{10**decades:.2g}" if abs(decades) < 4 else f"10^{decades:.0f}"
