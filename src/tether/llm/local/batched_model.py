"""A causal language model that is run in batches, and which rows share a batch.

Prompts are padded on the left and completions on the right, so that all completions start in the
same column. One function turns logits into log-probabilities, for sampler and scorer alike. A batch
is as wide as its widest row, so rows of similar length share one, up to a number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from tether._core.types import Integers
from tether.llm.completions import PADDING, Tokens, pad_rows
from tether.llm.local.adapters import base_model, check_usable, switched_to, unwrapped
from tether.llm.local.supported_models import check_batches, forward_parameters
from tether.llm.local.weight_checksum import WeightChecksum, check_unchanged
from tether.llm.prompts import Prompt

SIMILAR_LENGTH = 16
"""Prompts are sorted into bins of this many tokens; those in one bin count as equally long."""
MIN_ROWS_TO_SPLIT = 16
"""A batch of at most this many rows is not split to avoid padding: that would be slower."""
MAX_PADDING_FACTOR = 1.2
"""The largest ratio of a batch's size with padding to its size without."""

_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_locks_guard = Lock()


@dataclass(frozen=True)
class BatchedModel:
    """A model, its softmax temperature, and how many tokens it processes at once."""

    model: Any
    temperature: float
    batch_tokens: int

    @property
    def device(self) -> Any:
        """The device of the weights."""
        return self.model.device

    def log_softmax(self, logits: Any) -> Any:
        """Log-probabilities of the next token, in single precision whatever the weights are."""
        logits = logits.float()
        if self.temperature != 1.0:
            logits = logits / self.temperature
        return torch.log_softmax(logits, dim=-1)

    def read_prompts(
        self, prompts: list[Prompt], adapter_names: list[str] | None
    ) -> tuple[Any, Any, Any]:
        """Logits after each prompt, the key-value cache to continue from, and the mask."""
        tokens, mask = self.pad_prompts(prompts)
        output = self.forward(tokens, mask, 1, adapter_names, keep_cache=True)
        return output.logits[:, -1], output.past_key_values, mask

    def pad_prompts(self, prompts: list[Prompt]) -> tuple[Any, Any]:
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
        self,
        tokens: Any,
        mask: Any,
        columns: int,
        adapter_names: list[str] | None = None,
        cache: Any = None,
        keep_cache: bool = False,
    ) -> Any:
        """One pass, with the logits of the last columns. Positions do not count masked tokens."""
        accepted = forward_parameters(self.model)
        options: dict[str, Any] = {"use_cache": keep_cache or cache is not None}
        if "position_ids" in accepted:
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            options["position_ids"] = positions[:, -tokens.shape[1] :]
        if "logits_to_keep" in accepted:
            options["logits_to_keep"] = columns
        if cache is not None:
            options["past_key_values"] = cache
        if adapter_names is not None:
            options["adapter_names"] = adapter_names
        output = self.model(input_ids=tokens, attention_mask=mask, **options)
        if "logits_to_keep" not in accepted:
            output.logits = output.logits[:, -columns:]
        return output

    @contextmanager
    def running(
        self, checksums: Sequence[WeightChecksum], prompt: Prompt, *, verify: bool = True
    ) -> Iterator[None]:
        """Run the model without gradients and dropout, with this adapter or none; then restore it.

        One caller at a time, because a model has one active adapter. Refuses a model whose weights
        changed and, on the tokens of a `prompt`, one that cannot be run in batches. Between the
        tokens of one stream nothing has to be verified again.
        """
        model, adapters = unwrapped(self.model), [checksum.adapter for checksum in checksums]
        with _lock_of(base_model(model)):
            check_usable(model, adapters)
            if verify:
                check_unchanged(model, checksums)
            no_autocast = torch.autocast(self.device.type, enabled=False)
            with switched_to(model, adapters), torch.inference_mode(), no_autocast:
                check_batches(self, prompt)
                yield


def pack_rows(prefix_lengths: Integers, lengths: Integers, max_tokens: int) -> Iterator[Integers]:
    """Indices of rows, batch by batch: row i adds `lengths[i]` tokens to `prefix_lengths[i]`.

    A batch has at most `max_tokens` tokens including padding, unless a single row has more.
    """
    order = np.lexsort((lengths, prefix_lengths // SIMILAR_LENGTH))
    start, widest, tokens = 0, (0, 0), 0
    for position, row in enumerate(order):
        size = int(prefix_lengths[row]), int(lengths[row])
        wider = max(widest[0], size[0]), max(widest[1], size[1])
        rows, total = position + 1 - start, tokens + sum(size)
        padded = rows * sum(wider)
        wasteful = rows > MIN_ROWS_TO_SPLIT and padded > MAX_PADDING_FACTOR * total
        if position > start and (padded > max_tokens or wasteful):
            yield order[start:position]
            start, wider, total = position, size, sum(size)
        widest, tokens = wider, total
    if len(order):
        yield order[start:]


def pack_prompts(lengths: Integers, max_tokens: int) -> Iterator[Integers]:
    """Indices of prompts that are read together: similar lengths, at most `max_tokens` tokens."""
    return pack_rows(np.zeros_like(lengths), lengths, max_tokens)


def distinct_prompts(prompts: Sequence[Prompt]) -> tuple[list[Prompt], Integers]:
    """The distinct prompts, and the index of each row's prompt among them."""
    known: dict[Prompt, int] = {}
    index = [known.setdefault(prompt, len(known)) for prompt in prompts]
    return list(known), np.array(index, dtype=np.int64)


def select_rows(cache: Any, rows: Any) -> Any:
    """The key-value cache of some rows; the original is left unchanged."""
    selected = copy(cache)
    selected.layers = [copy(layer) for layer in cache.layers]
    selected.batch_select_indices(rows)
    return selected


def _lock_of(model: Any) -> Any:
    """The lock of a model."""
    with _locks_guard:
        return _locks.setdefault(model, RLock())
