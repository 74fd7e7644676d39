"""What a preflight finds: samplers that cut or cool first tokens, and alarms at right policies.

python -m benchmarks.preflight

Next-token distributions are power laws over 20,000 tokens. `known` is a model whose scores of all
tokens are to be had, `drawn` a server that scores only what it is asked about.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

from tether.llm import CausalPolicy, preflight
from tether.llm.preflight_checks.first_tokens import FEW_PROMPTS, FIRST_TOKENS, MORE_FIRST_TOKENS
from tether.llm.preflight_checks.policy_checks import first_tokens

Shares = NDArray[np.float64]

VOCABULARY = 20_000
TIMES = 30
RIGHT = 100
"""Preflights of right policies, of each size."""


def normalized(shares: Shares) -> Shares:
    return shares / shares.sum()


def top_k(shares: Shares, few: int) -> Shares:
    """The likeliest tokens; they are in order."""
    return normalized(np.where(np.arange(len(shares)) < few, shares, 0))


def top_p(shares: Shares, mass: float) -> Shares:
    return top_k(shares, int(np.searchsorted(shares.cumsum(), mass)) + 1)


def min_p(shares: Shares, least: float) -> Shares:
    return normalized(np.where(shares >= least * shares.max(), shares, 0))


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


def world(rng: np.random.Generator, steepest: tuple[float, float]) -> Shares:
    """The next token after one prompt."""
    return normalized((np.arange(1, VOCABULARY + 1) + rng.uniform(0, 3)) ** -rng.uniform(*steepest))


def checked(
    sampler: Callable[[Shares], Shares],
    known: bool,
    steepest: tuple[float, float],
    rng: np.random.Generator,
) -> str:
    """What the check says of first tokens that are drawn so, at a few prompts."""
    draws = FIRST_TOKENS if known else MORE_FIRST_TOKENS
    tokens, scores, tables = [], [], []
    for _ in range(FEW_PROMPTS):
        shares = world(rng, steepest)
        running = sampler(shares).cumsum()
        drawn = np.searchsorted(running, rng.random(draws) * running[-1], side="right")
        tables.append(np.log(shares))
        tokens.append(drawn)
        scores.append(tables[-1][drawn])
    flat = np.concatenate(tokens), np.concatenate(scores)
    return first_tokens(*flat, draws, tables if known else None).status


def power(rng: np.random.Generator) -> None:
    """How often each sampler passes, is warned of and fails."""
    print(f"pass / warn / fail of {TIMES} checks of sampling settings, {FEW_PROMPTS} prompts each")
    kinds = [(known, world) for world in ((0.9, 1.8), (2.0, 3.0)) for known in (True, False)]
    heads = [f"{'known' if known else 'drawn'}, {a:g} to {b:g}" for known, (a, b) in kinds]
    print(f"{'decay of probabilities':<24}" + "".join(f"{head:>20}" for head in heads))
    for name, sampler in SAMPLERS.items():
        cells = []
        for known, steepest in kinds:
            told = [checked(sampler, known, steepest, rng) for _ in range(TIMES)]
            cells.append(" / ".join(str(told.count(each)) for each in ("pass", "warn", "fail")))
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


def alarms(rng: np.random.Generator) -> None:
    """Preflights of policies that draw what they score, and have nothing wrong with them."""
    print(f"\nright policies, {RIGHT} preflights each: how many show a fail")
    safe, other = model(0), model(1)
    policies = [CausalPolicy(each, None, max_new_tokens=6) for each in (safe, other)]
    unknown = [CausalPolicy(each, None, max_new_tokens=6) for each in (safe, other)]
    for policy in unknown:
        policy.vocabulary = None  # as on a server
    for name, pair in (("known", policies), ("drawn", unknown)):
        for prompts, draws in ((1, 3), (2, 16)):
            asked = rng.integers(1, 64, size=(prompts, 4))
            failed = sum(not preflight(*pair, asked, rng, draws=draws).passed for _ in range(RIGHT))
            print(f"{name}, {prompts} prompt(s), {draws:>2} draws {failed:>8}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    power(np.random.default_rng(0))
    alarms(np.random.default_rng(1))


if __name__ == "__main__":
    main()
