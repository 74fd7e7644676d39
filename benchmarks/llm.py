"""The overhead of language policies over their model: scoring against a bare forward pass.

python -m benchmarks.llm

The model is a small Llama with random weights, on one thread. Each figure is a ratio of processor
seconds within one run, each the best of several measurements that alternate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tether
from benchmarks.small_llama import small_llama
from tether.llm import CausalPolicy, TokenTether
from tether.llm.causal_policy import DEFAULT_BATCH_TOKENS
from tether.llm.lanes import pack_rows

REPEATS = 3
MAX_NEW_TOKENS = 48
VOCABULARY_SIZE = 4096


def model() -> Any:
    tuned = small_llama(
        "default",
        ["q_proj", "v_proj"],
        vocabulary_size=VOCABULARY_SIZE,
        hidden_size=256,
        intermediate_size=768,
        layers=4,
    )
    for name, parameter in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    return tuned


def rows(prompts: int, completions: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Prompts of 24 to 64 tokens, and completions of 8 to 48 that end."""
    distinct = np.full((prompts, 64), -1)
    for row in distinct:
        size = rng.integers(24, 65)
        row[:size] = rng.integers(1, VOCABULARY_SIZE, size=size)
    actions = np.full((prompts * completions, MAX_NEW_TOKENS), -1)
    for row in actions:
        size = rng.integers(8, MAX_NEW_TOKENS + 1)
        row[:size] = rng.integers(1, VOCABULARY_SIZE, size=size)
        row[size - 1] = 0
    return np.repeat(distinct, completions, axis=0), actions


def bare(base: Any, prompts: Any, actions: Any, batch_tokens: int) -> Callable[[], None]:
    """A forward pass over the same tokens, in batches of similar length, and nothing else."""
    texts = [
        [*prompt[prompt >= 0], *action[action >= 0]]
        for prompt, action in zip(prompts, actions, strict=True)
    ]
    size = np.array([len(text) for text in texts])
    batches = []
    for batch in pack_rows(np.zeros_like(size), size, batch_tokens):
        tokens = np.zeros((len(batch), size[batch].max()), dtype=np.int64)
        for row, index in zip(tokens, batch, strict=True):
            row[: size[index]] = texts[index]
        mask = np.arange(tokens.shape[1]) < size[batch][:, None]
        batches.append((torch.as_tensor(tokens), torch.as_tensor(mask).long()))

    def run() -> None:
        with torch.inference_mode(), base.disable_adapter():
            for tokens, mask in batches:
                base(input_ids=tokens, attention_mask=mask, use_cache=False)

    return run


def in_turns(*tasks: Callable[[], Any]) -> list[float]:
    """Processor seconds of each task, the best of several measurements that alternate."""
    best = [np.inf] * len(tasks)
    for _ in range(REPEATS):
        for index, task in enumerate(tasks):
            begun = time.process_time()
            task()
            best[index] = min(best[index], time.process_time() - begun)
    return best


class Timed:
    """A policy that adds up the processor seconds spent in it."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.spent = policy, 0.0

    def sample(self, contexts: Any, rng: np.random.Generator) -> Any:
        """Draw, and add up the time."""
        return self._timed(self.policy.sample, contexts, rng)

    def log_prob(self, contexts: Any, actions: Any) -> Any:
        """Score, and add up the time."""
        return self._timed(self.policy.log_prob, contexts, actions)

    def _timed(self, method: Callable[..., Any], *arguments: Any) -> Any:
        begun = time.process_time()
        try:
            return method(*arguments)
        finally:
            self.spent += time.process_time() - begun


def row(name: str, value: float, unit: str, passes: bool | None, limit: str) -> None:
    verdict = "" if passes is None else f"({limit})  {'ok' if passes else 'OVER'}"
    print(f"{name:<58} {value:>7.3f} {unit:<28} {verdict}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    rng, shared = np.random.default_rng(0), model()
    safe, optimized = (
        CausalPolicy(shared, None, adapter=adapter, max_new_tokens=MAX_NEW_TOKENS)
        for adapter in (None, "default")
    )
    for name, prompts, completions in (("a prompt each", 32, 1), ("8 to a prompt", 4, 8)):
        repeated, actions = rows(prompts, completions, rng)
        spent, plain = in_turns(
            lambda repeated=repeated, actions=actions: safe.log_prob(repeated, actions),
            bare(shared, repeated, actions, DEFAULT_BATCH_TOKENS),
        )
        what = f"scoring 32 completions, {name}"
        row(what, plain / spent, "of a bare forward's speed", plain / spent >= 0.8, "at least 0.8")
        both, apart = in_turns(
            lambda repeated=repeated, actions=actions: safe.log_prob_both(
                optimized, repeated, actions
            ),
            lambda repeated=repeated, actions=actions: (
                safe.log_prob(repeated, actions),
                optimized.log_prob(repeated, actions),
            ),
        )
        row(f"both policies in one pass, {name}", both / apart, "of one after the other", None, "")
    prompts, _ = rows(16, 1, rng)
    timed_safe, timed_optimized = Timed(safe.shortened(12)), Timed(optimized.shortened(12))
    begun = time.process_time()
    _, info = tether.Tethered(timed_safe, timed_optimized, 1.0).sample_with_info(prompts, rng)
    inside = timed_safe.spent + timed_optimized.spent
    overhead = (time.process_time() - begun - inside) / inside
    what = f"accept-reject, {info.draws} draws, beyond the policies"
    row(what, overhead, "of the time in them", overhead < 0.05, "below 0.05")
    pair = TokenTether(safe.shortened(12), optimized.shortened(12))
    policy, actions = pair.tethered(0.5), safe.shortened(12).sample(prompts, rng)
    drawn, alone = in_turns(
        lambda: policy.sample(prompts, rng),
        lambda: [each.sample(prompts, rng) for each in (pair.safe, pair.optimized)],
    )
    row("16 draws tethered at every token", drawn / alone, "of a draw of each policy", None, "")
    scored, alone = in_turns(
        lambda: pair.make_log(prompts, actions, np.zeros(len(actions))),
        lambda: pair.safe.log_prob_both(pair.optimized, prompts, actions),
    )
    what = f"scoring at {len(pair.log_betas)} betas, tethered at every token"
    row(what, scored / alone, "of scoring both policies", None, "")


if __name__ == "__main__":
    main()
