"""A small Llama with random weights and a LoRA adapter: what benchmarks of language models run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def small_llama(
    adapter: str,
    targets: Sequence[str],
    *,
    vocabulary_size: int,
    hidden_size: int,
    intermediate_size: int,
    layers: int,
    initializer_range: float = 0.02,
) -> Any:
    """The model, always with the same weights; its adapter changes nothing yet."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=initializer_range,
        eos_token_id=0,
        pad_token_id=None,
    )
    lora = LoraConfig(r=8, target_modules=list(targets))
    return get_peft_model(LlamaForCausalLM(config), lora, adapter_name=adapter).eval()
