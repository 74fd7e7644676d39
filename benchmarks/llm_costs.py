"""What one answer costs under each family, by how far the policies are apart.

    python -m benchmarks.llm_costs

A small Llama with random weights and a LoRA whose size is set so that the Kullback–Leibler
divergence of the safe policy from the optimized one is 1, 5 or 20 nats per answer of 64 tokens.
Draws per answer are expected values; latencies are ratios of processor seconds, one prompt at a
time, to one plain answer of the safe policy in the same run. Beta is 1 for clip, budgeted clip and
mix, where clip takes the most draws, and at every token, and N for best of N, the largest that
changes anything. A tether at every token takes one draw of each token from both models. A clip that
would take too many draws is not run: its latency is a lower bound, its draws in one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

import tether
from tether.llm import CausalPolicy, TokenTether

TOKEN_FAMILIES = ("clip", "mix")
LENGTH, DIVERGENCES, SIZE = 64, (1.0, 5.0, 20.0), 8
VOCABULARY_SIZE, PROMPT_TOKENS = 1024, 32
PROMPTS, DRAWS = 4, 32
"""Draws of each policy at each prompt, for divergences and acceptance rates."""
ANSWERS = 4
"""Answers of each family whose time is measured."""
BUDGET = 8
MAX_RUN_DRAWS = 150
"""A clip that is expected to take more draws is not run."""
SCALE_STEPS = 8
"""How often the size of the adapter is corrected."""

Serve = Callable[[Any, np.random.Generator], Any]


def adapted() -> Any:
    """A small Llama, always with the same weights; its adapter changes nothing yet."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.1,
        eos_token_id=0,
        pad_token_id=None,
    )
    lora = LoraConfig(r=8, target_modules=["q_proj", "v_proj", "down_proj"])
    return get_peft_model(LlamaForCausalLM(config), lora, adapter_name="tuned").eval()


def policies(model: Any, scale: float) -> tuple[CausalPolicy, CausalPolicy]:
    """The safe policy, and the optimized one with an adapter of this size."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    options = {"max_new_tokens": LENGTH, "batch_tokens": 16_384}
    return CausalPolicy(model, None, **options), CausalPolicy(
        model, None, adapter="tuned", **options
    )


def log_scores(
    safe: CausalPolicy, optimized: CausalPolicy, prompts: Any, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of draws of the safe and then of the optimized policy, one row per prompt."""
    repeated = np.repeat(prompts, DRAWS, axis=0)
    found = []
    for policy in (safe, optimized):
        drawn = policy.sample(repeated, rng)
        scores = [each.log_prob(repeated, drawn) for each in (safe, optimized)]
        found.append([each.reshape(len(prompts), DRAWS) for each in scores])
    return tuple(np.concatenate(each, axis=1) for each in zip(*found, strict=True))


def at_divergence(
    model: Any, nats: float, prompts: Any, rng: np.random.Generator
) -> tuple[CausalPolicy, CausalPolicy, np.ndarray, np.ndarray]:
    """Policies that are this far apart, to 5 %, and scores of fresh draws of both."""
    scale = 0.1
    for _ in range(SCALE_STEPS):
        safe, optimized = policies(model, scale)
        log_safe, log_optimized = log_scores(safe, optimized, prompts, rng)
        measured = (log_safe - log_optimized)[:, :DRAWS].mean()
        if abs(measured / nats - 1) < 0.05:
            break
        scale *= np.sqrt(nats / max(measured, nats / 100))
    return safe, optimized, log_safe, log_optimized


def families(safe: CausalPolicy, optimized: CausalPolicy) -> dict[str, Serve]:
    """What serves one answer, by family."""
    served: dict[str, Any] = {
        "clip": tether.Tethered(safe, optimized, 1.0),
        f"budgeted clip, {BUDGET}": tether.Tethered(
            safe, optimized, 1.0, family=f"budgeted_clip({BUDGET})"
        ),
        "mix": tether.Tethered(safe, optimized, 1.0, family="mix"),
    }
    for family in TOKEN_FAMILIES:
        pair = TokenTether(safe, optimized, family=family)
        served[f"token {family}"] = pair.tethered(1.0)
    chosen = tether.Shortlist(safe, optimized, size=SIZE)
    served[f"best of {SIZE}"] = chosen.tethered(float(SIZE))
    return {name: policy.sample for name, policy in served.items()}


def expected_draws(log_safe: np.ndarray, log_optimized: np.ndarray) -> dict[str, float]:
    """Draws per answer, averaged over prompts, of every family."""
    # Draws are of the even mixture of both policies, in which ψ at beta 1 is a mean of min/mean.
    log_mixture = np.logaddexp(log_safe, log_optimized) - np.log(2)
    rates = np.exp(np.minimum(log_safe, log_optimized) - log_mixture).mean(axis=1)
    clip = float((1 / rates).mean())
    missed = [(1 - rate) ** BUDGET for rate in rates]
    budgeted = [(1 - left) / rate + left for rate, left in zip(rates, missed, strict=True)]
    found = {"clip": clip, f"budgeted clip, {BUDGET}": float(np.mean(budgeted)), "mix": 1.0}
    found |= {f"token {family}": 1.0 for family in TOKEN_FAMILIES}
    return found | {f"best of {SIZE}": float(SIZE)}


def seconds(tasks: dict[str, Serve], prompts: Any, rng: np.random.Generator) -> dict[str, float]:
    """Processor seconds per answer of each task, which take turns."""
    spent = dict.fromkeys(tasks, 0.0)
    for number in range(ANSWERS + 1):
        prompt = prompts[[number % len(prompts)]]
        for name, serve in tasks.items():
            begun = time.process_time()
            serve(prompt, rng)
            if number:  # the first one warms up
                spent[name] += (time.process_time() - begun) / ANSWERS
    return spent


def measure(model: Any, nats: float, rng: np.random.Generator) -> dict[str, str]:
    """One line of the table."""
    prompts = rng.integers(1, VOCABULARY_SIZE, size=(PROMPTS, PROMPT_TOKENS))
    safe, optimized, log_safe, log_optimized = at_divergence(model, nats, prompts, rng)
    ratio = log_safe - log_optimized
    draws, tasks = expected_draws(log_safe, log_optimized), families(safe, optimized)
    if is_long := draws["clip"] > MAX_RUN_DRAWS:
        del tasks["clip"]
    spent = seconds({"plain": safe.sample, **tasks}, prompts, rng)
    shown = {name: f"{spent[name] / spent['plain']:.1f}" for name in tasks}
    if is_long:
        begun = time.process_time()
        safe.sample(np.repeat(prompts[:1], MAX_RUN_DRAWS, axis=0), rng)
        least = (time.process_time() - begun) / spent["plain"]
        shown["clip"] = f"> {least * draws['clip'] / MAX_RUN_DRAWS:,.0f}"
    apart = f"{ratio[:, :DRAWS].mean():.3g} / {-ratio[:, DRAWS:].mean():.3g}"
    return {"nats": apart} | {name: f"{n:,.3g} ({shown[name]})" for name, n in draws.items()}


def main() -> None:
    torch.set_num_threads(1)
    model = adapted()
    for nats in DIVERGENCES:
        line = measure(model, nats, np.random.default_rng([LENGTH, round(10 * nats)]))
        if nats == DIVERGENCES[0]:
            print("| " + " | ".join(line) + " |")
            print("| --- " * len(line) + "|")
        print("| " + " | ".join(line.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
