"""Which models are supported: those that score a row in a batch as they score it alone.

The scores of other models would be silently wrong, so they are refused: some when the policy is
made, the rest when it is first used, on a few tokens of the first prompt. The context length that
is supported is found here as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from tether.llm.local.adapters import base_model
from tether.llm.prompts import Prompt

if TYPE_CHECKING:
    from tether.llm.local.batched_model import BatchedModel

PROBE_TOKENS = 8
"""Tokens of the first prompt on which a model is checked."""
CONTEXT_LENGTH_FIELDS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
    "model_max_length",
)
"""The configuration fields that may state the context length, in order of preference."""
LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
"""Rotary embeddings that change for all tokens once a sequence exceeds a length."""

_checked_models: WeakSet[Any] = WeakSet()


def check_causal_model(model: Any) -> int:
    """The vocabulary size of a causal language model; anything else is refused."""
    expected = "model must be a causal language model of transformers"
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"{expected}, loaded (AutoModelForCausalLM.from_pretrained), got {model!r:.80}"
        )
    inner = base_model(model)
    class_name: str = type(inner).__name__
    config: Any = getattr(inner, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise TypeError(f"model must be a decoder, got an encoder-decoder: {config.model_type}")
    get_head = getattr(inner, "get_output_embeddings", None)
    if config is None or get_head is None or (head := get_head()) is None:
        raise TypeError(f"{expected}, with a head that predicts tokens, got {class_name}")
    missing = {"input_ids", "attention_mask"} - set(forward_parameters(model))
    if missing:
        raise TypeError(
            f"{expected}: the forward of {class_name} does not name {sorted(missing)}, so it is "
            f"unknown whether it accepts position_ids. Pass the wrapped model itself"
        )
    return int(head.weight.shape[0])


def forward_parameters(model: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of the forward of the model inside all wrappers."""
    return inspect.signature(base_model(model).forward).parameters


def check_batches(batched: BatchedModel, prompt: Prompt) -> None:
    """Refuse, once per model, one that cannot continue batches from a key-value cache."""
    model = base_model(batched.model)
    if model in _checked_models:
        return
    name = f"{type(model).__name__} ({model.config.model_type})"
    tokens, mask = batched.pad_prompts([prompt[:PROBE_TOKENS]])
    output = batched.forward(tokens, mask, tokens.shape[1], keep_cache=True)
    cache = getattr(output, "past_key_values", None)
    kinds = {type(layer) for layer in getattr(cache, "layers", None) or ()}
    if type(cache) is not DynamicCache or not kinds <= {DynamicLayer, DynamicSlidingWindowLayer}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        returned = f"a {type(cache).__name__} of {names}" if kinds else "no cache"
        raise TypeError(
            f"{name} returns {returned}: only models whose every layer caches keys and values, in "
            f"full or in a sliding window, are supported; recurrent models are not"
        )
    direct = batched.model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
    difference = float((output.logits.float().softmax(-1) - direct.float().softmax(-1)).abs().max())
    if difference > torch.finfo(direct.dtype).eps ** 0.5:
        raise TypeError(
            f"{name} numbers positions in its own way: with position_ids 0, 1, 2, … its "
            f"probabilities differ by {difference:.2g} from those without (as in RoBERTa)"
        )
    _checked_models.add(model)


def find_context_length(config: Any) -> int | None:
    """The context length stated by a model's configuration, or None where none is stated.

    Where rotary embeddings change with the length, it is the length at which they change: beyond
    it, a row's score would depend on the other rows of its batch and on how much of it is written.
    """
    text_config = config.get_text_config(decoder=True)
    stated = [_positive_integer(getattr(text_config, name, None)) for name in CONTEXT_LENGTH_FIELDS]
    limits = [value for value in stated if value is not None][:1]
    for rope in _rope_settings(text_config):
        if rope.get("rope_type", rope.get("type")) in LENGTH_DEPENDENT_ROPE:
            field = "original_max_position_embeddings"
            original = _positive_integer(rope.get(field))
            original = original or _positive_integer(getattr(text_config, field, None))
            limits += [original] if original else []
    return min(limits) if limits else None


def _rope_settings(config: Any) -> list[dict[str, Any]]:
    """The settings of rotary embeddings, stated once or for each type of layer."""
    stated = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
    settings = [value for value in stated if isinstance(value, dict)]
    nested = [value for outer in settings for value in outer.values() if isinstance(value, dict)]
    return settings + nested


def _positive_integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
