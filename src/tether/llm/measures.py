"""The measures of a preflight: each takes numbers and returns a check."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tether._check import Floats
from tether._contexts import take
from tether.llm.completions import FILL, Tokens, encoded, lengths
from tether.llm.report import Check

CLOSE, FAR = 0.05, 1.0
"""Nats a sequence: differences up to the first pass, beyond the second they fail."""
SIGMAS, MANY_SIGMAS = 3.0, 4.5
NOTHING = 1e-3
"""Nats below which the end of a completion counts as certain."""
FAR_APART = 10.0
"""Nats of divergence beyond which clip keeps hardly any draw."""


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


def first_tokens(tokens: Tokens, log_likely: Floats, draws: int) -> Check:
    """Whether first tokens are drawn with the probabilities that they are scored with.

    Two draws are equal with probability Σq², if q is what is drawn from; a draw's score has the
    mean Σq·p. They are the same number if q = p. Cut to the best tokens, or cooled, q repeats
    itself more often than p says.
    """
    gap, error = _collisions(tokens.reshape(-1, draws), np.exp(log_likely).reshape(-1, draws))
    sigmas = gap / error
    told = f"first tokens repeat {gap:+.4f} ± {error:.4f} more often than their scores say"
    return Check(
        "sampling settings",
        _by_sigmas(abs(sigmas)),
        float(sigmas),
        told,
        "something cuts, cools or penalizes what is sampled (top_k, top_p, temperature, "
        "generation_config): switch it off, or score it too",
    )


def distinct_draws(actions: Tokens, scored: Floats, draws: int) -> Check:
    """Whether completions repeat more often than their probabilities say: a seed used again."""
    _, numbers = np.unique(actions, axis=0, return_inverse=True)
    rows = numbers.reshape(-1, draws)
    gap, error = _collisions(rows, np.exp(scored).reshape(-1, draws))
    distinct = sum(len(np.unique(row)) for row in rows)
    return Check(
        "distinct seeds",
        _by_sigmas(gap / error),
        float(gap / error),
        f"{distinct} of {rows.size} completions are different, pairs are equal {gap:+.4f} ± "
        f"{error:.4f} more often than their scores say",
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


def same_ends(safe: Any, optimized: Any) -> Check:
    """Whether both policies end at the same tokens and are cut off at the same length."""
    one, two = ((sorted(each.ends.tolist()), each.max_new_tokens) for each in (safe, optimized))
    told = f"ends {one[0]} after at most {one[1]} tokens, in both"
    if one != two:
        told = f"the safe policy ends at {one[0]} ({one[1]} tokens), the optimized at {two[0]} "
        told += f"({two[1]} tokens)"
    advice = "give both policies the same eos_token_id and max_new_tokens"
    return Check("same ends", "pass" if one == two else "fail", float(one == two), told, advice)


def reached(log_safe: Floats, log_optimized: Floats) -> Check:
    """Absolute continuity: completions of one policy that the other cannot produce."""
    outside, unused = int(np.isneginf(log_safe).sum()), int(np.isneginf(log_optimized).sum())
    told = (
        f"the safe policy cannot produce {outside} of {len(log_safe)} optimized completions, the "
        f"optimized one {unused} of {len(log_optimized)} safe ones"
    )
    advice = "no log of the safe policy says what these cost: sample without top_k or top_p"
    status = "fail" if outside else "warn" if unused else "pass"
    return Check("absolute continuity", status, float(outside), told, advice)


def mean_ratio(name: str, log_ratio: Floats) -> Check:
    """The mean of the other policy's probability over this one's, which is 1."""
    count = len(log_ratio)
    with np.errstate(over="ignore"):
        ratio = np.exp(log_ratio)
        mean, error = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(count))
    top = log_ratio.max()
    share = np.exp(log_ratio - top) if top > -np.inf else np.zeros(count)
    effective = float(share.sum() ** 2 / max((share**2).sum(), 1e-300))
    told = f"{mean:.3g} ± {error:.2g}, on {effective:.0f} effective draws of {count}"
    # Rare draws carry the mean: without them it is too low and its error too small.
    if not mean <= 1 + SIGMAS * max(error, 1 / np.sqrt(count)):
        status = "fail"
        advice = "a mean clearly above 1 is impossible: another distribution is scored than sampled"
    elif effective < 10 or mean < 1 - SIGMAS * error:
        status = "warn"
        advice = "few draws carry the mean: the policies are far apart, or more draws are needed"
    else:
        status, advice = "pass", ""
    return Check(f"mean ratio under the {name} policy", status, mean, told, advice)


def divergence(name: str, log_ratio: Floats) -> Check:
    """A Kullback–Leibler divergence in nats a sequence, which is never negative."""
    mean = float(log_ratio.mean())
    with np.errstate(invalid="ignore"):
        error = float(log_ratio.std(ddof=1) / np.sqrt(len(log_ratio)))
    told = f"{mean:.3g} ± {error:.2g} nats a sequence"
    if mean < -SIGMAS * error:
        advice = "a divergence is not negative: another distribution is scored than sampled"
        return Check(name, "fail", mean, told, advice)
    if not mean <= FAR_APART:
        advice = "clip keeps hardly any draw: use family 'mix', shorter answers or less tuning"
        return Check(name, "warn", mean, told, advice)
    return Check(name, "pass", mean, told)


def _apart(name: str, one: Floats, two: Floats, advice: str) -> Check:
    with np.errstate(invalid="ignore"):
        gap = np.abs(one - two)
    gap[(one == two)] = 0.0  # both −inf
    worst = float(np.nan_to_num(gap, nan=np.inf).max())
    status = "pass" if worst <= CLOSE else "warn" if worst <= FAR else "fail"
    return Check(name, status, worst, f"at most {worst:.2g} nats a sequence", advice)


def _by_sigmas(sigmas: float) -> str:
    return "pass" if sigmas <= SIGMAS else "warn" if sigmas <= MANY_SIGMAS else "fail"


def _collisions(numbers: Any, likely: Floats) -> tuple[float, float]:
    """How much oftener two draws of a row are equal than their probabilities say, on average.

    With its standard error, from leaving each draw out, and never taken as below half a pair.
    """
    rows, draws = numbers.shape
    equal = (numbers[:, :, None] == numbers[:, None, :]).sum(axis=2) - 1
    pairs = equal.sum(axis=1)
    whole = pairs / (draws * (draws - 1)) - likely.mean(axis=1)
    without = (pairs[:, None] - 2 * equal) / ((draws - 1) * (draws - 2)) - (
        likely.sum(axis=1, keepdims=True) - likely
    ) / (draws - 1)
    spread = (
        (draws - 1) / draws * ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    )
    least = (0.5 / (draws * (draws - 1) / 2)) ** 2
    error = np.sqrt(np.maximum(spread, least).sum()) / rows
    return float(whole.mean()), float(error)
