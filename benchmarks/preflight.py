"""The power of a preflight: altered samplers that it detects, and its false alarms.

python -m benchmarks.preflight

Next-token distributions are power laws over 20,000 tokens. `known` is a model whose scores of all
tokens are available, `drawn` a server that scores only the tokens that were drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from tether.llm.preflight_checks.policy_checks import (
    FIRST_TOKENS_WITH_TABLE,
    FIRST_TOKENS_WITHOUT_TABLE,
    MAX_FIRST_TOKEN_PROMPTS,
    check_first_tokens,
)
from transformers import LlamaConfig, LlamaForCausalLM

from tether.llm import CausalPolicy, preflight

Shares = NDArray[np.float64]

VOCABULARY_SIZE = 20_000
CHECKS_PER_SAMPLER = 30
PREFLIGHTS_OF_CORRECT_POLICIES = 100
"""Preflights of correct policies, for each number of prompts and draws."""


def normalized(shares: Shares) -> Shares:
    return shares / shares.sum()


def top_k(shares: Shares, count: int) -> Shares:
    """The likeliest tokens; tokens are sorted by probability."""
    return normalized(np.where(np.arange(len(shares)) < count, shares, 0))


def top_p(shares: Shares, mass: float) -> Shares:
    return top_k(shares, int(np.searchsorted(shares.cumsum(), mass)) + 1)


def min_p(shares: Shares, minimum: float) -> Shares:
    return normalized(np.where(shares >= minimum * shares.max(), shares, 0))


def temperature(shares: Shares, level: float) -> Shares:
    return normalized(shares ** (1 / level))


SAMPLERS: dict[str, Callable[[Shares], Shares]] = {
    "as scored": lambda p: p,
    "top_p 0.99": lambda p: top_p(p, 0.99),
    "top_p 0.95": lambda p: top_p(p, 0.95),
    "top_p 0.9": lambda p: top_p(p, 0.9),
    "top_k 1000": lambda p: top_k(p, 1000),
    "top_k 50": lambda p: top_k(p, 50),
    "min_p 0.05": lambda p: min_p(p, 0.05),
    "temperature 0.95": lambda p: temperature(p, 0.95),
    "temperature 0.9": lambda p: temperature(p, 0.9),
    "temperature 0.7": lambda p: temperature(p, 0.7),
    "temperature 1.1": lambda p: temperature(p, 1.1),
}


def next_token_probabilities(rng: np.random.Generator, decay: tuple[float, float]) -> Shares:
    """The distribution of the next token after one prompt."""
    return normalized(
        (np.arange(1, VOCABULARY_SIZE + 1) + rng.uniform(0, 3)) ** -rng.uniform(*decay)
    )


def check_status(
    sampler: Callable[[Shares], Shares],
    known: bool,
    decay: tuple[float, float],
    rng: np.random.Generator,
) -> str:
    """The status of the check for first tokens of this sampler at a few prompts."""
    draws = FIRST_TOKENS_WITH_TABLE if known else FIRST_TOKENS_WITHOUT_TABLE
    tokens, scores, tables = [], [], []
    for _ in range(MAX_FIRST_TOKEN_PROMPTS):
        shares = next_token_probabilities(rng, decay)
        running = sampler(shares).cumsum()
        drawn = np.searchsorted(running, rng.random(draws) * running[-1], side="right")
        tables.append(np.log(shares))
        tokens.append(drawn)
        scores.append(tables[-1][drawn])
    flat = np.concatenate(tokens), np.concatenate(scores)
    return check_first_tokens(*flat, draws, tables if known else None).status


def power(rng: np.random.Generator) -> None:
    """How often each sampler passes, causes a warning and fails."""
    print(
        f"pass / warn / fail of {CHECKS_PER_SAMPLER} checks of sampling settings, "
        f"{MAX_FIRST_TOKEN_PROMPTS} prompts each"
    )
    kinds = [(known, decay) for decay in ((0.9, 1.8), (2.0, 3.0)) for known in (True, False)]
    heads = [f"{'known' if known else 'drawn'}, {a:g} to {b:g}" for known, (a, b) in kinds]
    print(f"{'decay of probabilities':<24}" + "".join(f"{head:>20}" for head in heads))
    for name, sampler in SAMPLERS.items():
        cells = []
        for known, decay in kinds:
            found = [check_status(sampler, known, decay, rng) for _ in range(CHECKS_PER_SAMPLER)]
            counts = (str(found.count(status)) for status in ("pass", "warn", "fail"))
            cells.append(" / ".join(counts))
        print(f"{name:<24}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


def model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.3,
        eos_token_id=0,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def false_alarms(rng: np.random.Generator) -> None:
    """How many preflights of policies that draw what they score have a check that fails."""
    count = PREFLIGHTS_OF_CORRECT_POLICIES
    print(f"\ncorrect policies, {count} preflights each: how many fail")
    models = model(0), model(1)
    with_tables, without_tables = (
        [CausalPolicy(weights, None, max_new_tokens=6) for weights in models] for _ in range(2)
    )
    for policy in without_tables:
        policy.vocabulary_size = None  # as on a server
    for name, pair in (("known", with_tables), ("drawn", without_tables)):
        for prompts, draws in ((1, 3), (2, 16)):
            tokens = rng.integers(1, 64, size=(prompts, 4))
            results = [preflight(*pair, tokens, rng, draws=draws) for _ in range(count)]
            failed = sum(not result.passed for result in results)
            print(f"{name}, {prompts} prompt(s), {draws:>2} draws {failed:>8}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    power(np.random.default_rng(0))
    false_alarms(np.random.default_rng(1))


if __name__ == "__main__":
    main()
