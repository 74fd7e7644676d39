"""Checks of a preflight on one policy, from its draws and scores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tether._core.averaged_bets import log_average
from tether._core.contexts import length, take
from tether._core.types import Floats
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import Tokens, completion_lengths, content_tokens, encode_text
from tether.llm.preflight_checks import bets
from tether.llm.preflight_checks.result import NOISE_FLOOR, Check
from tether.llm.token_tables import TABLE_TOKENS

MAX_PASSING_GAP = 0.05
"""Nats per sequence: differences between two scores of one sequence up to this pass."""
MAX_WARNING_GAP = 1.0
"""Nats per sequence: differences above this fail."""
NEGLIGIBLE_GAP = 1e-3
"""Nats below which a contribution to a score counts as none."""
MAX_FIRST_TOKEN_PROMPTS = 8
"""Prompts at which first tokens are drawn on their own."""
FIRST_TOKENS_WITH_TABLE = 128
"""First tokens drawn per prompt where the scores of all tokens are known."""
FIRST_TOKENS_WITHOUT_TABLE = 256
"""First tokens drawn per prompt where only the scores of drawn tokens are known."""
MAX_ENDS_COMPARED = 4
"""Finished completions that are scored with and without their end token."""


def check_sampler_against_scorer(stated: Floats, scored: Floats) -> Check:
    """What the sampler states about its draws, against what the scorer says of them."""
    name = "sampler against scorer"
    advice = (
        "sampler and scorer disagree: do they use the same weights, template, adapter and dtype?"
    )
    known = ~np.isnan(stated)
    if not known.any():
        measured = "the sampler states no log-probabilities, so nothing was compared"
        advice = "request log-probabilities of sampled tokens from the server"
        return Check(name, "warn", np.nan, measured, advice)
    return compare_scores(name, stated[known], scored[known], advice)


def check_noise_floor(in_batch: Floats, one_by_one: Floats) -> Check:
    """The same sequences scored in a batch and one by one: the effect of rounding alone."""
    advice = "log ratios below this are noise: score in float32, or use fewer tokens"
    return compare_scores(f"{NOISE_FLOOR} of the dtype", in_batch, one_by_one, advice)


def draw_and_check_first_tokens(
    first_token_policy: CompletionPolicy, prompts: Any, rng: np.random.Generator
) -> Check:
    """What a policy over single tokens draws at a few prompts, against what it scores there."""
    count = min(MAX_FIRST_TOKEN_PROMPTS, length(prompts))
    prompts = take(prompts, np.arange(count))
    vocabulary_size, tables = getattr(first_token_policy, "vocabulary_size", None), None
    if vocabulary_size is not None:
        every_token = np.arange(vocabulary_size)[:, None]
        tables = [
            first_token_policy.log_prob(_repeat_prompt(prompts, k, vocabulary_size), every_token)
            for k in range(count)
        ]
    draws = FIRST_TOKENS_WITH_TABLE if tables is not None else FIRST_TOKENS_WITHOUT_TABLE
    repeated = take(prompts, np.repeat(np.arange(count), draws))
    tokens = first_token_policy.sample(repeated, rng)
    scores = first_token_policy.log_prob(repeated, tokens)
    return check_first_tokens(tokens[:, 0], scores, draws, tables)


def check_first_tokens(
    tokens: Tokens, scores: Floats, draws: int, tables: Sequence[Floats] | None = None
) -> Check:
    """Whether first tokens, `draws` per prompt, are drawn with the probabilities of their scores.

    `tables` holds the scores of all tokens at each prompt, where they are known.
    """
    rows, row_scores = tokens.reshape(-1, draws), scores.reshape(-1, draws)
    log_wealths = np.sum(
        [
            bets.bet_on_tokens(row, row_score, None if tables is None else tables[index])
            for index, (row, row_score) in enumerate(zip(rows, row_scores, strict=True))
        ],
        axis=0,
    )
    log_wealth = log_average(log_wealths)
    known = "scores of all tokens known" if tables is not None else "scores of drawn tokens known"
    return Check(
        "sampling settings",
        bets.verdict(log_wealth),
        log_wealth,
        f"a bet on truncated or rescaled first tokens turned a stake of 1 into "
        f"{_format_wealth(log_wealth)} ({rows.size} draws, {known})",
        "a sampling setting truncates or rescales the distribution (top_k, top_p, min_p, "
        "temperature, generation_config): switch it off, or include it in the scores",
    )


def check_later_tokens(policy: CompletionPolicy, prompts: Any, actions: Tokens) -> Check:
    """Whether all tokens of completions are drawn with the probabilities of their scores."""
    name = "sampling settings of all tokens"
    try:
        tables = policy.token_tables(prompts, actions)
    except ValueError as error:
        measured = f"the server states no likely tokens ({error}), so nothing was measured"
        advice = f"let it state {TABLE_TOKENS} of them (for vLLM --max-logprobs {TABLE_TOKENS})"
        return Check(name, "warn", np.nan, measured, advice)
    rows = policy.prompts(prompts)
    log_wealth = log_average(bets.bet_on_positions(tables, rows, actions, policy.end_token_ids))
    return Check(
        name,
        bets.verdict(log_wealth),
        log_wealth,
        f"a bet on truncated, rescaled or penalized tokens turned a stake of 1 into "
        f"{_format_wealth(log_wealth)} ({len(tables.row)} tokens)",
        "a sampling setting changes the distribution (repetition_penalty, frequency_penalty, "
        "min_tokens, top_k, top_p, temperature, generation_config): switch it off",
    )


def check_distinct_draws(actions: Tokens, scores: Floats, draws: int, per_call: int) -> Check:
    """Whether completions repeat more often than their probabilities say: a reused seed.

    Of the `draws` at a prompt, the first `per_call` are of one call and as many of the next.
    """
    _, labels = np.unique(actions, axis=0, return_inverse=True)
    rows, row_scores = labels.reshape(-1, draws), scores.reshape(-1, draws)
    second = slice(per_call, 2 * per_call)
    equal = rows[:, :per_call] == rows[:, second]
    log_wealths = np.concatenate(
        [bets.bet_on_repeats(rows, row_scores), bets.bet_on_calls(equal, row_scores[:, second])]
    )
    log_wealth = log_average(log_wealths)
    distinct = sum(len(np.unique(row)) for row in rows)
    return Check(
        "distinct seeds",
        bets.verdict(log_wealth),
        log_wealth,
        f"{distinct} of {rows.size} completions are distinct, {equal.sum()} of {equal.size} recur "
        f"in a second call; a bet on repeats turned a stake of 1 into {_format_wealth(log_wealth)}",
        "a seed is reused, or completions come from a cache: use one generator for all calls",
    )


def check_ends(policy: CompletionPolicy, prompts: Any, actions: Tokens, scored: Floats) -> Check:
    """Whether completions end, and whether their end token is part of their score."""
    name, lengths = "end of sequence", completion_lengths(actions)
    cut_off = np.asarray(policy.cut_off(actions))
    measured = f"{int(cut_off.sum())} of {len(cut_off)} completions were cut off"
    if cut_off.all():
        return Check(name, "warn", 1.0, measured, "raise max_new_tokens, or check eos_token_id")
    contributions = []
    for row in np.flatnonzero(~cut_off & (lengths > 1))[:MAX_ENDS_COMPARED]:
        # The same tokens without their end are a completion of a shorter policy, cut off.
        before_end = int(lengths[row]) - 1
        without_end = policy.shortened(before_end).log_prob(
            take(prompts, np.array([row])), actions[row, None, :before_end]
        )
        contributions.append(scored[row] - without_end[0])
    if contributions and np.abs(contributions).max() < NEGLIGIBLE_GAP:
        measured += "; their end token adds nothing to their scores"
        advice = "either every end is certain, or the scorer omits the end token"
        return Check(name, "warn", float(cut_off.mean()), measured, advice)
    if contributions:
        measured += f"; the end token adds {np.mean(contributions):.2f} nats to a score"
    return Check(name, "pass", float(cut_off.mean()), measured)


def check_round_trip(policy: CompletionPolicy, actions: Tokens) -> Check:
    """Whether the text of a completion has the same tokens when it is encoded again."""
    name, tokenizer = "token round trip", getattr(policy, "tokenizer", None)
    if tokenizer is None:
        measured = "there is no tokenizer, so nothing was compared"
        return Check(name, "warn", np.nan, measured, "store token ids, not only text")
    same = 0
    for row, text in zip(actions, policy.texts(actions), strict=True):
        tokens = content_tokens(row, policy.end_token_ids)
        with suppress(ValueError):
            same += encode_text(tokenizer, text, "a completion") == tokens
    share = same / len(actions)
    return Check(
        name,
        "pass" if share == 1 else "warn",
        share,
        f"{same} of {len(actions)} completions have the same tokens after decoding and encoding",
        "log token ids: encoded from their text, the others would be other actions",
    )


def _repeat_prompt(prompts: Any, index: int, times: int) -> Any:
    """One prompt many times, without copies: a vocabulary is large."""
    prompt = np.asarray(take(prompts, np.array([index])))
    prompt = prompt.astype(object) if prompt.dtype.kind == "U" else prompt
    return np.broadcast_to(prompt, (times, *prompt.shape[1:]))


def compare_scores(name: str, first: Floats, second: Floats, advice: str) -> Check:
    """The largest difference between two scores of one sequence, judged in nats."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(first - second)
    gap[first == second] = 0.0  # both −inf
    largest = float(np.nan_to_num(gap, nan=np.inf).max())
    status = "pass" if largest <= MAX_PASSING_GAP else "fail"
    if MAX_PASSING_GAP < largest <= MAX_WARNING_GAP:
        status = "warn"
    return Check(name, status, largest, f"at most {largest:.2g} nats per sequence", advice)


def _format_wealth(log_wealth: float) -> str:
    """Wealth for reading: 0.31, or 10^12."""
    decades = log_wealth / np.log(10)
    return f"{10**decades:.2g}" if abs(decades) < 4 else f"10^{decades:.0f}"
