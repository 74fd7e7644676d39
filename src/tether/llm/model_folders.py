"""Policies from models and adapters that are saved in folders, for the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.llm.causal_policy import CausalPolicy


def load_policies(
    safe: str, optimized: str, tokenizer: str | None, options: dict[str, Any]
) -> tuple[CausalPolicy, CausalPolicy]:
    """Both policies from their folders; an adapter shares the safe model's weights."""
    from transformers import AutoModelForCausalLM

    from tether.llm.causal_policy import CausalPolicy

    for name, folder in (("--safe", safe), ("--optimized", optimized)):
        check_folder(name, folder, " without --base-url")
    words = load_tokenizer(tokenizer or safe)
    model: Any = AutoModelForCausalLM.from_pretrained(safe, dtype="auto")
    if (Path(optimized) / "adapter_config.json").is_file():
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, optimized, adapter_name="optimized")
        tuned = CausalPolicy(model, words, adapter="optimized", **options)
        return CausalPolicy(model, words, **options), tuned
    other = AutoModelForCausalLM.from_pretrained(optimized, dtype="auto")
    own_words = words if tokenizer else load_tokenizer(optimized)
    return CausalPolicy(model, words, **options), CausalPolicy(other, own_words, **options)


def load_tokenizer(folder: str) -> Any:
    """The tokenizer that is saved in a folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def check_folder(name: str, folder: str, when: str = "") -> None:
    """Refuse what is not a local folder: transformers would look its name up on a hub."""
    if not Path(folder).is_dir():
        raise ValueError(f"{name} must be a folder{when}, but {folder!r} does not exist")
