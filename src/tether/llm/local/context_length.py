"""How many tokens a model can see, prompt and completion together."""

from __future__ import annotations

from typing import Any

NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length",
         "seq_length", "model_max_length")  # fmt: skip
"""What configurations call it."""
CHANGING = ("dynamic", "longrope")
"""Rotary embeddings that are others for all tokens as soon as one stands beyond a length."""


def context_length(config: Any) -> int | None:
    """The length that a model's configuration states, or None where it states none.

    Where rotary embeddings change with the length it is the length at which they do: beyond it a
    row's score would depend on the others in its batch, and on how far it has been written.
    """
    texts = config.get_text_config(decoder=True)
    stated = [_whole(getattr(texts, name, None)) for name in NAMES]
    found = next((each for each in stated if each is not None), None)
    most = [found] if found is not None else []
    for rotary in _rotary(texts):
        if rotary.get("rope_type", rotary.get("type")) in CHANGING:
            original = _whole(rotary.get("original_max_position_embeddings"))
            original = original or _whole(getattr(texts, "original_max_position_embeddings", None))
            most += [original] if original else []
    return min(most) if most else None


def _rotary(config: Any) -> list[dict[str, Any]]:
    """What is said of rotary embeddings: once, or for each kind of layer."""
    said = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
    found = [each for each in said if isinstance(each, dict)]
    return found + [each for one in found for each in one.values() if isinstance(each, dict)]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
