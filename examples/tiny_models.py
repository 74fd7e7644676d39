"""Write two tiny language models with random weights, to try `tether preflight` on.

    python examples/tiny_models.py
    tether preflight prompts.txt --safe base --optimized tuned --max-new-tokens 40

The folders `base` and `tuned` and the file `prompts.txt` are written to the working directory. The
tuned model is the base model with a little noise on its weights. Needs `tether[llm]`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LETTERS = ["<end>", "<unknown>", *"abcdefghijklmnopqrstuvwxyz ?."]
PROMPTS = ("what is a fever?", "is aspirin safe?", "how are you?", "where is it?")
NOISE = 0.03
"""How far the weights of the tuned model are from those of the base model."""


def make_model(noise: float) -> LlamaForCausalLM:
    """A model of two layers; noise moves its weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(LETTERS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=0,
        initializer_range=0.2,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(noise * torch.randn_like(weights))
    return model


def main() -> None:
    """Write both models with one tokenizer, and the prompts."""
    vocabulary = {letter: number for number, letter in enumerate(LETTERS)}
    letters = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unknown>"))
    letters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=letters, eos_token="<end>", unk_token="<unknown>"
    )
    for name, noise in {"base": 0.0, "tuned": NOISE}.items():
        make_model(noise).save_pretrained(name)
        tokenizer.save_pretrained(name)
    Path("prompts.txt").write_text("\n".join(PROMPTS) + "\n", "utf-8")


if __name__ == "__main__":
    main()
