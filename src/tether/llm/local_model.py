"""Local models that are run in batches: which are supported, and one pass through them.

Prompts are padded on the left and completions on the right, so that all completions start in the
same column. One function turns logits into log-probabilities, for drawing and scoring alike.

A model is supported if it scores a row in a batch as it scores it alone; the scores of others would
be silently wrong. Some are refused when a policy is made, the rest when it is first used, on a few
tokens of the first prompt.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from tether.llm.adapters import (
    Weights,
    base_model,
    check_unchanged,
    check_usable,
    switched_to,
    unwrapped,
)
from tether.llm.completions import PADDING, Prompt, Tokens, pad_rows

PROBE_TOKENS = 8
"""Tokens of the first prompt on which a model is checked."""
NO_ADAPTER = "__base__"
"""PEFT's name for the model without an adapter in a batch of several."""
CONTEXT_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
"""The configuration fields that may state the context length, in order of preference."""
LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
"""Rotary embeddings that change for all tokens once a sequence exceeds a length."""

_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_locks_guard = Lock()
_checked_models: WeakSet[Any] = WeakSet()


@dataclass(frozen=True)
class LocalModel:
    """A model, and the one or more policies, by their adapters, that it runs in the same batch."""

    model: Any
    temperature: float
    batch_tokens: int
    weights: tuple[Weights, ...]

    @property
    def device(self) -> Any:
        """The device of the weights."""
        return self.model.device

    def log_softmax(self, logits: Any) -> Any:
        """Log-probabilities of the next token, in single precision whatever the weights are."""
        return torch.log_softmax(logits.float() / self.temperature, dim=-1)

    def pad_prompts(self, prompts: Sequence[Prompt]) -> tuple[Any, Any]:
        """Prompts padded on the left, and the attention mask."""
        reversed_rows = pad_rows([prompt[::-1] for prompt in prompts], max(map(len, prompts)))
        tokens = torch.as_tensor(reversed_rows[:, ::-1].copy(), device=self.device)
        mask = (tokens != PADDING).long()
        return tokens.masked_fill(mask == 0, 0), mask

    def pad_completions(self, actions: Tokens, width: int) -> tuple[Any, Any]:
        """Completions padded on the right, and where they have tokens."""
        tokens = torch.as_tensor(actions[:, :width], device=self.device)
        present = tokens != PADDING
        return tokens.masked_fill(~present, 0), present

    def forward(
        self, tokens: Any, mask: Any, columns: int, cache: Any = None, *, keep_cache: bool = False
    ) -> Any:
        """One pass, with the logits of the last columns. Positions do not count masked tokens.

        Several policies have one block of rows each, in the tokens and in the cache.
        """
        accepted = inspect.signature(base_model(self.model).forward).parameters
        options: dict[str, Any] = {"use_cache": keep_cache or cache is not None}
        if "position_ids" in accepted:
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            options["position_ids"] = positions[:, -tokens.shape[1] :]
        if "logits_to_keep" in accepted:
            options["logits_to_keep"] = columns
        if cache is not None:
            options["past_key_values"] = cache
        if len(self.weights) > 1:
            rows = range(len(tokens) // len(self.weights))
            names = [each.adapter or NO_ADAPTER for each in self.weights for _ in rows]
            options["adapter_names"] = names
        output = self.model(input_ids=tokens, attention_mask=mask, **options)
        if "logits_to_keep" not in accepted:
            output.logits = output.logits[:, -columns:]
        return output

    @contextmanager
    def running(self, prompt: Prompt, *, verify: bool = True) -> Iterator[None]:
        """Run the model without gradients and dropout, with this adapter or none; then restore it.

        One caller at a time, because a model has one active adapter. Refuses a model whose weights
        changed and, on the tokens of a `prompt`, one that cannot be run in batches. Between the
        tokens of one stream nothing has to be verified again.
        """
        model, adapters = unwrapped(self.model), [each.adapter for each in self.weights]
        with _locks_guard:
            lock = _locks.setdefault(base_model(model), RLock())
        with lock:
            check_usable(model, adapters)
            if verify:
                check_unchanged(model, self.weights)
            no_autocast = torch.autocast(self.device.type, enabled=False)
            with switched_to(model, adapters), torch.inference_mode(), no_autocast:
                self._check_batches(prompt)
                yield

    def _check_batches(self, prompt: Prompt) -> None:
        """Refuse, once per model, one that cannot continue batches from a key-value cache."""
        model = base_model(self.model)
        if model in _checked_models:
            return
        name = f"{type(model).__name__} ({model.config.model_type})"
        tokens, mask = self.pad_prompts([prompt[:PROBE_TOKENS]])
        alone = replace(self, weights=self.weights[:1])
        output = alone.forward(tokens, mask, tokens.shape[1], keep_cache=True)
        cache = getattr(output, "past_key_values", None)
        kinds = {type(layer) for layer in getattr(cache, "layers", None) or ()}
        known = {DynamicLayer, DynamicSlidingWindowLayer}
        if type(cache) is not DynamicCache or not kinds <= known:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            returned = f"a {type(cache).__name__} of {names}" if kinds else "no cache"
            raise TypeError(
                f"{name} returns {returned}: only models whose every layer caches keys and values, "
                f"in full or in a sliding window, are supported; recurrent models are not"
            )
        _checked_models.add(model)


def check_causal_model(model: Any) -> int:
    """The vocabulary size of a causal language model; anything else is refused."""
    inner = base_model(model) if isinstance(model, torch.nn.Module) else None
    config: Any = getattr(inner, "config", None)
    head: Any = getattr(inner, "get_output_embeddings", lambda: None)()
    if config is None or head is None or getattr(config, "is_encoder_decoder", False):
        raise TypeError(
            f"model must be a loaded causal language model of transformers, a decoder with a head, "
            f"got {model!r:.80}"
        )
    return int(head.weight.shape[0])


def find_context_length(config: Any) -> int | None:
    """The context length stated by a model's configuration, or None where none is stated.

    Where rotary embeddings change with the length, it is the length at which they change: beyond
    it, a row's score would depend on the other rows of its batch and on how much of it is written.
    """
    config = config.get_text_config(decoder=True)
    limits: list[Any] = [getattr(config, name, None) for name in CONTEXT_LENGTH_FIELDS]
    ropes: list[Any] = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
    ropes = [each for each in ropes if isinstance(each, dict)]
    ropes += [each for outer in ropes for each in outer.values() if isinstance(each, dict)]
    for rope in ropes:  # stated once, or for each type of layer
        if rope.get("rope_type", rope.get("type")) in LENGTH_DEPENDENT_ROPE:
            field = "original_max_position_embeddings"
            limits.append(rope.get(field) or getattr(config, field, None))
    return min((each for each in limits if type(each) is int and each > 0), default=None)
