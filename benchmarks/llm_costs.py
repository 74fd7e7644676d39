"""What one answer costs under each family, by how far the policies are apart.

    python -m benchmarks.llm_costs

A small Llama with random weights and a LoRA of such a size that the Kullback–Leibler divergence of
the safe policy from the optimized one is about 1, 5 or 20 nats per answer of 64 tokens. Draws per
answer are expected values; latencies are ratios of processor seconds, one prompt at a time, to one
plain answer of the safe policy in the same run. Beta is 1 for clip, budgeted clip and mix, where
clip takes the most draws, and at every token, and N for best of N, the largest that changes
anything. A tether at every token takes one draw of each token from both models. A clip that would
take too many draws is not run.
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

LENGTH, SIZE, BUDGET = 64, 8, 8
SCALES = (0.04, 0.083, 0.2)
"""Sizes of the adapter: about 1, 5 and 20 nats."""
VOCABULARY_SIZE, PROMPT_TOKENS = 1024, 32
PROMPTS, DRAWS = 4, 32
"""Draws of each policy at each prompt, for divergences and acceptance rates."""
ANSWERS = 4
"""Answers of each family whose time is measured."""
MAX_RUN_DRAWS = 150
"""A clip that is expected to take more draws is not run."""

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


def families(
    safe: CausalPolicy, optimized: CausalPolicy, log_safe: np.ndarray, log_optimized: np.ndarray
) -> dict[str, tuple[float, Any]]:
    """Draws per answer, averaged over prompts, of every family, and its policy."""
    # Draws are of the even mixture of both policies, in which ψ at beta 1 is a mean of min/mean.
    log_mixture = np.logaddexp(log_safe, log_optimized) - np.log(2)
    rates = np.exp(np.minimum(log_safe, log_optimized) - log_mixture).mean(axis=1)
    missed = (1 - rates) ** BUDGET
    budgeted = ((1 - missed) / rates + missed).mean()
    pair, budget = (safe, optimized), f"budgeted_clip({BUDGET})"
    found: dict[str, tuple[float, Any]] = {
        "clip": ((1 / rates).mean(), tether.Tethered(*pair, 1.0)),
        f"budgeted clip, {BUDGET}": (budgeted, tether.Tethered(*pair, 1.0, family=budget)),
        "mix": (1.0, tether.Tethered(*pair, 1.0, family="mix")),
    }
    for family in ("clip", "mix"):
        found[f"token {family}"] = 1.0, TokenTether(*pair, family=family).tethered(1.0)
    chosen = tether.Shortlist(*pair, size=SIZE)
    return found | {f"best of {SIZE}": (SIZE, chosen.tethered(float(SIZE)))}


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


def measure(model: Any, scale: float) -> dict[str, str]:
    """One line of the table."""
    rng = np.random.default_rng([LENGTH, round(1000 * scale)])
    prompts = rng.integers(1, VOCABULARY_SIZE, size=(PROMPTS, PROMPT_TOKENS))
    safe, optimized = policies(model, scale)
    log_safe, log_optimized = log_scores(safe, optimized, prompts, rng)
    ratio = log_safe - log_optimized
    found = families(safe, optimized, log_safe, log_optimized)
    tasks = {name: each.sample for name, (draws, each) in found.items() if draws <= MAX_RUN_DRAWS}
    spent = seconds({"plain": safe.sample, **tasks}, prompts, rng)
    times = {name: f" ({spent[name] / spent['plain']:.1f})" for name in tasks}
    apart = f"{ratio[:, :DRAWS].mean():.3g} / {-ratio[:, DRAWS:].mean():.3g}"
    shown = {name: f"{draws:,.3g}{times.get(name, '')}" for name, (draws, _) in found.items()}
    return {"nats": apart} | shown


def main() -> None:
    torch.set_num_threads(1)
    model = adapted()
    for scale in SCALES:
        line = measure(model, scale)
        if scale == SCALES[0]:
            print("| " + " | ".join(line) + " |")
            print("| --- " * len(line) + "|")
        print("| " + " | ".join(line.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
