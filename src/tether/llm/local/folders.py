"""Models and adapters in folders, as the command line names them, as policies."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def policies(
    safe: str, optimized: str, tokenizer: str | None, gguf: str | None, options: dict[str, Any]
) -> tuple[Any, Any]:
    """Both models from their folders; an adapter shares the safe model's weights."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tether.llm.local.causal_policy import CausalPolicy

    for name, folder in (("--safe", safe), ("--optimized", optimized)):
        checked(name, folder, " without --base-url")
    extra = {"gguf_file": gguf} if gguf else {}
    words = AutoTokenizer.from_pretrained(tokenizer or safe, **(extra if not tokenizer else {}))
    model: Any = AutoModelForCausalLM.from_pretrained(safe, dtype="auto", **extra)
    if (Path(optimized) / "adapter_config.json").is_file():
        model = _adapted(model, optimized)
        return (
            CausalPolicy(model, words, **options),
            CausalPolicy(model, words, adapter="optimized", **options),
        )
    other = AutoModelForCausalLM.from_pretrained(optimized, dtype="auto")
    return CausalPolicy(model, words, **options), CausalPolicy(other, words, **options)


def checked(name: str, folder: str, when: str = "") -> None:
    """Refuse what is no folder here: its name would be looked up on a hub."""
    if not Path(folder).is_dir():
        raise ValueError(f"{name} must be a folder{when}, and there is none at {folder!r}")


def _adapted(model: Any, folder: str) -> Any:
    """The model with the adapter of a folder; one that was made for another model is refused."""
    from peft import PeftModel

    wrong = f"--optimized {folder!r} is no adapter of the safe model"
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*missing adapter keys", UserWarning)
        try:
            adapted = PeftModel.from_pretrained(model, folder, adapter_name="optimized")
        except UserWarning as error:
            raise ValueError(f"{wrong}: {error}") from error
    # Once more for its report: weights that find no place are left out, and nothing is said.
    extra = adapted.load_adapter(folder, adapter_name="optimized").unexpected_keys
    if extra:
        raise ValueError(
            f"{wrong}, which has no place for {len(extra)} of its weights, such as {extra[0]}"
        )
    return adapted
