"""The checks of a preflight, from draws and scores.

Many are bets: e-values against the hypothesis that draws have the scored probabilities. A bet
chooses its odds before it sees the draw, and is paid by the scores: an outcome to which the bet
gives q and the scores give p multiplies the wealth by q/p. If draws have the probabilities that
they are scored with, the expected wealth is 1, so the average wealth of several bets
reaches G with probability at most 1/G, whatever the policy and however few the draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.arrays import Booleans, Floats, Integers
from tether._core.contexts import length, take
from tether.llm.completions import CompletionPolicy, Tokens, difference, encode_text
from tether.llm.openai_policy import TABLE_TOKENS, LikelyTokens, OpenAIPolicy

STATUSES = ("pass", "warn", "fail")
NOISE_FLOOR = "noise floor"
"""Part of the names of the checks that measure how far rounding moves scores."""
DIVERGENCE = "KL"
"""How the names of the checks of divergences start."""
MAX_DIVERGENCE = 10.0
"""Nats above which clip accepts hardly any draws."""

LOG_WEALTH = float(np.log(1e2)), float(np.log(1e4))
"""Log wealth from which a bet warns and fails."""
TAIL_PROBABILITIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Tails: the least likely tokens that together have at most this probability."""
TAIL_FACTORS = (0.02, 0.3, 0.7, 0.9, 1.1, 1.5)
"""Each bets that a tail is drawn this many times as often as scored: truncated, or too often."""
POWERS = (0.7, 0.9, 1.1, 1.25, 1.5, 2.0)
"""Each bets that tokens are drawn with their probability to this power: another temperature."""
REPEATED_SHARES = (0.001, 0.01, 0.1, 0.5, 0.999)
"""Each bets that this share of the draws are repetitions and not fresh draws."""
RATIO_STAKES = (0.01, 0.03, 0.1, 0.3, 0.9)
"""Shares of the wealth that are staked on the other policy's probabilities."""
GAPS = 0.05, 1.0
"""Nats per sequence from which differences between two scores of one sequence warn, and fail."""
NEGLIGIBLE_GAP = 1e-3
"""Nats below which a difference between two scores is negligible."""
TRAFFIC_ROUNDS, MAX_TRAFFIC_ROWS = 3, 16
"""The rounds under traffic, and the most completions that each round scores and draws."""
MIN_TRUSTED_DRAWS = 10
"""Effective draws below which a mean is not trusted."""


@dataclass(frozen=True)
class Check:
    """One check of a preflight: "pass", "warn" or "fail", what was measured, and what to do."""

    name: str
    status: str
    value: float
    measured: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f"\n      → {self.advice}" if self.advice and self.status != "pass" else ""
        return f"{self.status:<4}  {self.name}: {self.measured}{advice}"


def judge(value: float, warns: float, fails: float) -> str:
    """Pass below one limit, warn below the other, fail from there; NaN fails."""
    return "pass" if value < warns else "warn" if value < fails else "fail"


def _bet(name: str, log_wealth: Floats, what: str, told: str, advice: str) -> Check:
    """The check that the average wealth of several bets makes."""
    average = float(np.logaddexp.reduce(log_wealth) - np.log(len(log_wealth)))
    decades = average / np.log(10)
    wealth = f"{10**decades:.2g}" if abs(decades) < 4 else f"10^{decades:.0f}"
    measured = f"a bet on {what} turned a stake of 1 into {wealth} ({told})"
    return Check(name, judge(average, *LOG_WEALTH), average, measured, advice)


# One policy.


def compare_scores(name: str, first: Floats, second: Floats, advice: str) -> Check:
    """The largest difference between two scores of one sequence, judged in nats."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(first - second)
    gap[first == second] = 0.0  # both −inf
    largest = float(np.nan_to_num(gap, nan=np.inf).max())
    told = f"at most {largest:.2g} nats per sequence"
    return Check(name, judge(largest, *GAPS), largest, told, advice)


def sampler_against_scorer(stated: Floats, scored: Floats) -> Check:
    """What the sampler states about its draws, against what the scorer says of them."""
    name, known = "sampler against scorer", ~np.isnan(stated)
    if not known.any():
        return _unknown(name, "the sampler states no log-probabilities", "let it state them")
    advice = "do sampler and scorer use the same weights, template, adapter and dtype?"
    return compare_scores(name, stated[known], scored[known], advice)


def _unknown(name: str, why: str, advice: str) -> Check:
    return Check(name, "warn", np.nan, f"{why}, so nothing was compared", advice)


def noise_floor(in_batch: Floats, one_by_one: Floats) -> Check:
    """The same sequences scored in a batch and one by one: the effect of rounding alone."""
    advice = "log ratios below this are noise: score in float32, or use fewer tokens"
    return compare_scores(f"{NOISE_FLOOR} of the dtype", in_batch, one_by_one, advice)


def sampling_settings(policy: OpenAIPolicy, prompts: Any, actions: Tokens) -> Check:
    """Whether a server draws all tokens of completions with the probabilities of their scores."""
    name = "sampling settings"
    try:
        found = policy.likely_tokens(prompts, actions)
    except ValueError as error:
        advice = f"let it state {TABLE_TOKENS} of them (for vLLM --max-logprobs {TABLE_TOKENS})"
        return _unknown(name, f"the server states no likely tokens ({error})", advice)
    what, told = "truncated or rescaled tokens", f"{len(found)} tokens"
    advice = "switch off all sampling settings (top_k, top_p, temperature, generation_config)"
    return _bet(name, bet_on_tokens(found), what, told, advice)


def distinct_draws(actions: Tokens, scores: Floats, draws: int) -> Check:
    """Whether completions repeat more often than their probabilities say: a reused seed."""
    _, labels = np.unique(actions, axis=0, return_inverse=True)
    rows, row_scores = labels.reshape(-1, draws), scores.reshape(-1, draws)
    log_chances, repeated = [], []
    for row_labels, each_score in zip(rows.tolist(), row_scores.tolist(), strict=True):
        known, log_chance = {row_labels[0]}, each_score[0]
        for label, score in zip(row_labels[1:], each_score[1:], strict=True):
            log_chances.append(log_chance)
            repeated.append(label in known)
            if label not in known:
                known.add(label)
                log_chance = np.logaddexp(log_chance, score)
    log_wealth = _bet_on_events(np.array(repeated), np.array(log_chances))
    told = f"{rows.size - sum(repeated)} of {rows.size} completions are distinct"
    advice = "a seed is reused, or completions come from a cache: use one generator for all calls"
    return _bet("distinct seeds", log_wealth, "repeats", told, advice)


def ends(policy: CompletionPolicy, actions: Tokens) -> Check:
    """Whether completions end."""
    cut_off = np.asarray(policy.cut_off(actions))
    measured = f"{int(cut_off.sum())} of {len(cut_off)} completions were cut off"
    status, advice = "warn" if cut_off.all() else "pass", "raise max_new_tokens or fix eos_token_id"
    return Check("end of sequence", status, float(cut_off.mean()), measured, advice)


def round_trip(policy: CompletionPolicy, actions: Tokens) -> Check:
    """Whether the text of a completion has the same tokens when it is encoded again."""
    name, same = "token round trip", 0
    if policy.tokenizer is None:
        return _unknown(name, "there is no tokenizer", "store token ids, not only text")
    for row, text in zip(actions, policy.texts(actions), strict=True):
        with suppress(ValueError):
            same += encode_text(policy.tokenizer, text, "a completion") == policy.content(row)
    measured = f"{same} of {len(actions)} completions have the same tokens after decoding"
    advice = "log token ids: encoded from their text, the others would be different actions"
    status = "pass" if same == len(actions) else "warn"
    return Check(name, status, same / len(actions), measured, advice)


def under_traffic(drawn: Any, other: CompletionPolicy, rng: np.random.Generator) -> Check:
    """Scores and draws of a served policy while another one is sampled, against those without it.

    A server that mixes requests for several models or adapters in a batch can mix up their weights,
    as a build of vLLM 0.32 does; then scores that are right on an idle server are wrong in use.
    """
    policy, chosen = drawn.policy, spread(len(drawn.actions), MAX_TRAFFIC_ROWS)
    rows, actions = take(drawn.rows, chosen), drawn.actions[chosen]
    quiet, busy, made = [drawn.scored[chosen]] * TRAFFIC_ROUNDS, [], []
    own_rng = np.random.default_rng(rng.integers(2**63, size=4))
    with ThreadPoolExecutor(1) as thread:
        for _ in range(TRAFFIC_ROUNDS):
            traffic = [thread.submit(other.sample, rows, own_rng) for _ in range(2)]
            busy.append(policy.log_prob(rows, actions))
            made.append(policy.sample_scored(rows, rng))
            for each in traffic:
                each.result()
    for drawn_again, stated in made:
        known = ~np.isnan(stated)
        quiet.append(policy.log_prob(rows, drawn_again)[known])
        busy.append(stated[known])
    advice = "it answers with the weights of the other model: serve the two from separate servers"
    return compare_scores("under traffic", np.concatenate(quiet), np.concatenate(busy), advice)


def spread(count: int, most: int) -> Integers:
    """The indices of at most `most` of `count` rows, evenly spread."""
    return np.linspace(0, count - 1, min(most, count)).astype(np.int64)


# Two policies.


def same_actions(safe: CompletionPolicy, optimized: CompletionPolicy, prompts: Any) -> Check:
    """Whether both policies have the same tokens, ends and lengths, and read prompts alike."""
    problem = difference(safe, optimized)
    if not problem:
        pairs = zip(safe.prompts(prompts), optimized.prompts(prompts), strict=True)
        apart = sum(own != other for own, other in pairs)
        problem = f"{apart} of {length(prompts)} prompts have different token ids" if apart else ""
    status = "fail" if problem else "pass"
    measured = problem or "both policies have the same tokens and ends, and read prompts alike"
    advice = "use models of one tokenizer, with the same settings, or best of N"
    return Check("same tokens and ends", status, float(not problem), measured, advice)


def chat_format(
    safe: CompletionPolicy, optimized: CompletionPolicy, prompts: Any
) -> Iterator[Check]:
    """Whether two chat models have the same template, and whether prompts were made by it."""
    own, other = (getattr(each.tokenizer, "chat_template", None) for each in (safe, optimized))
    if own is None and other is None:
        return
    same = own == other
    measured = f"the two tokenizers have {'the same chat template' if same else 'different ones'}"
    advice = "prompts made by one template are unusual for the other: use one template for both"
    yield Check("chat template", "pass" if same else "warn", float(same), measured, advice)
    tokenizer: Any = safe.tokenizer if own is not None else optimized.tokenizer
    hello = [{"role": "user", "content": "hello"}]
    with suppress(Exception):  # a template is a program that may raise anything
        made = tokenizer.apply_chat_template(hello, tokenize=True, add_generation_prompt=True)
        ids = made["input_ids"] if hasattr(made, "keys") else made
        marks = set(ids) & set(tokenizer.all_special_ids)
        plain = sum(not marks & set(prompt) for prompt in safe.prompts(prompts)) if marks else 0
        measured = f"{plain} of {length(prompts)} prompts have no special token of the template"
        advice = "make prompts by tokenizer.apply_chat_template, as when the log was made"
        yield Check("chat format", "warn" if plain else "pass", float(plain), measured, advice)


def of_both(at_safe: Floats, at_optimized: Floats, noise: float) -> list[Check]:
    """Checks of the log ratios of the other policy to each policy, at the draws of the latter."""
    return [
        _different(np.concatenate([at_safe, at_optimized]), noise),
        _shared_support(at_optimized, at_safe),
        _mean_ratio("safe", at_safe),
        _mean_ratio("optimized", at_optimized),
        _divergence(f"{DIVERGENCE}(optimized ‖ safe)", -at_optimized),
        _divergence(f"{DIVERGENCE}(safe ‖ optimized)", -at_safe),
    ]


def _different(log_ratio: Floats, noise: float) -> Check:
    """Whether the scores of the two policies differ by more than rounding."""
    with np.errstate(invalid="ignore"):
        different = np.abs(log_ratio) > min(max(noise, NEGLIGIBLE_GAP), GAPS[0])
    measured = f"{int(different.sum())} of {len(different)} completions have different scores"
    advice = "one model object in both, an adapter without effect, or two names of one served model"
    status = "pass" if different.any() else "warn"
    return Check("different policies", status, float(different.mean()), measured, advice)


def _shared_support(at_optimized: Floats, at_safe: Floats) -> Check:
    """Whether one policy draws completions that the other cannot."""
    outside, unused = int(np.isneginf(at_optimized).sum()), int(np.isneginf(at_safe).sum())
    measured = (
        f"the safe policy cannot produce {outside} of {len(at_optimized)} optimized completions, "
        f"the optimized policy {unused} of {len(at_safe)} safe ones"
    )
    advice = "a log of the safe policy has no losses for these: sample without top_k or top_p"
    status = "fail" if outside else "warn" if unused else "pass"
    return Check("absolute continuity", status, float(outside), measured, advice)


def _mean_ratio(policy_name: str, log_ratio: Floats) -> Check:
    """Whether the mean of the other policy's probability over this one's is 1, as it must be."""
    count = len(log_ratio)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(log_ratio)
        mean, error = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(count))
    top = log_ratio.max()
    share = np.exp(log_ratio - top) if np.isfinite(top) else np.zeros(count)
    effective = float(share.sum() ** 2 / max((share**2).sum(), 1e-300))
    measured = f"{mean:.3g} ± {error:.2g}, on {effective:.0f} effective draws of {count}"
    status, advice = "pass", ""
    # Rare draws dominate the mean: without them it is too low and its error too small.
    bets = _bet_on_ratios(log_ratio)
    if not np.logaddexp.reduce(bets) - np.log(len(bets)) < LOG_WEALTH[1]:
        status, advice = "fail", "it is clearly above 1: what is scored is not what is sampled"
    elif effective < MIN_TRUSTED_DRAWS or mean < 1 - 3 * error:
        status, advice = "warn", "few draws dominate the mean: the policies are far apart"
    return Check(f"mean ratio under the {policy_name} policy", status, mean, measured, advice)


def _divergence(name: str, log_ratio: Floats) -> Check:
    """A Kullback–Leibler divergence, in nats per sequence."""
    mean = float(log_ratio.mean())
    with np.errstate(invalid="ignore"):
        error = float(log_ratio.std(ddof=1) / np.sqrt(len(log_ratio)))
    advice = "clip accepts hardly any draws: use best of N, shorter completions or less tuning"
    status = "warn" if mean > MAX_DIVERGENCE else "pass"
    return Check(name, status, mean, f"{mean:.3g} ± {error:.2g} nats per sequence", advice)


# Bets.


def bet_on_tokens(found: Sequence[LikelyTokens]) -> Floats:
    """Log wealth of bets on tails and powers at every token."""
    log_wealth = np.zeros(1)
    for token, likely, log_probs in found:
        unknown = max(1.0 - float(np.exp(log_probs).sum()), 0.0)
        column = likely.index(token) if token in likely else -1
        if (unknown if column < 0 else log_probs[column] > -np.inf) == 0:
            return np.array([np.inf])  # an impossible token was drawn
        log_wealth = log_wealth + _log_odds(log_probs, unknown)[:, column]
    return log_wealth


def _log_odds(log_known: Floats, unknown: float) -> Floats:
    """Log odds of bets (rows) on every known token, and on all others together (last)."""
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
    return np.asarray(log_factors - np.logaddexp.reduce(weighted, axis=1, keepdims=True))


def _bet_on_events(happened: Booleans, log_chance: Floats) -> Floats:
    shares = np.array(REPEATED_SHARES)[:, None]
    lost = np.broadcast_to(np.log1p(-shares), (len(shares), len(happened)))
    # Scores that sum to more than one give a chance above one, which counts as one.
    won = np.logaddexp(lost, np.log(shares) - np.minimum(log_chance, 0.0))
    return np.asarray(np.where(happened, won, lost).sum(axis=1))


def _bet_on_ratios(log_ratio: Floats) -> Floats:
    """Log wealth of bets at another policy's probabilities, the last one staking everything."""
    stakes = np.array(RATIO_STAKES)[:, None]
    with np.errstate(invalid="ignore"):
        factors = np.logaddexp(np.log1p(-stakes), np.log(stakes) + log_ratio)
    return np.append(factors.sum(axis=1), log_ratio.sum())
