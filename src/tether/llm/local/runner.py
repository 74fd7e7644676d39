"""The runner: a causal language model, asked in batches.

Prompts are filled up on the left and completions on the right, so that every completion begins in
the same column. One function turns logits into log-probabilities, for sampler and scorer alike.
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
from numpy.typing import NDArray

from tether.llm.completions import FILL, Tokens, filled
from tether.llm.local import supported_models
from tether.llm.local.adapter_switch import switched
from tether.llm.local.adapters import base_model, ready, unwrapped
from tether.llm.local.weight_checksum import Weights, unchanged
from tether.llm.prompts import Prompt

_turns: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_making = Lock()


@dataclass(frozen=True)
class Runner:
    """A model, its softmax temperature, and how many tokens it takes at once."""

    model: Any
    temperature: float
    batch_tokens: int

    @property
    def device(self) -> Any:
        """Where the weights are."""
        return self.model.device

    def log_softmax(self, logits: Any) -> Any:
        """Log-probabilities of the next token, in single precision whatever the weights are."""
        logits = logits.float()
        if self.temperature != 1.0:
            logits = logits / self.temperature
        return torch.log_softmax(logits, dim=-1)

    def read(self, prompts: list[Prompt], names: list[str] | None) -> tuple[Any, Any, Any]:
        """Logits after each prompt, the cache that goes on from there, and the mask."""
        tokens, mask = self.left(prompts)
        found = self.forward(tokens, mask, 1, names, keep_cache=True)
        return found.logits[:, -1], found.past_key_values, mask

    def left(self, prompts: list[Prompt]) -> tuple[Any, Any]:
        """Prompts filled up on the left, and the mask of what is there."""
        turned = filled([prompt[::-1] for prompt in prompts], max(map(len, prompts)))
        tokens = torch.as_tensor(turned[:, ::-1].copy(), device=self.device)
        mask = (tokens != FILL).long()
        return tokens.masked_fill(mask == 0, 0), mask

    def right(self, actions: Tokens, widest: int) -> tuple[Any, Any]:
        """Completions filled up on the right, and where they have tokens."""
        tokens = torch.as_tensor(actions[:, :widest], device=self.device)
        there = tokens != FILL
        return tokens.masked_fill(~there, 0), there

    def forward(
        self,
        tokens: Any,
        mask: Any,
        columns: int,
        names: list[str] | None = None,
        cache: Any = None,
        keep_cache: bool = False,
    ) -> Any:
        """One pass; logits of the last so many columns. Positions do not count what is masked."""
        accepted = supported_models.accepted(self.model)
        options: dict[str, Any] = {"use_cache": keep_cache or cache is not None}
        if "position_ids" in accepted:
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            options["position_ids"] = positions[:, -tokens.shape[1] :]
        if "logits_to_keep" in accepted:
            options["logits_to_keep"] = columns
        if cache is not None:
            options["past_key_values"] = cache
        if names is not None:
            options["adapter_names"] = names
        found = self.model(input_ids=tokens, attention_mask=mask, **options)
        if "logits_to_keep" not in accepted:
            found.logits = found.logits[:, -columns:]
        return found

    @contextmanager
    def acting(self, weights: Sequence[Weights], prompt: Prompt) -> Iterator[None]:
        """The model as it acts: no gradients, no dropout, this adapter or none; then as it was.

        One at a time: a model can speak with one adapter only, whoever asks. Refuses a model whose
        weights changed, and one that cannot be asked in batches, on the tokens of a `prompt`.
        """
        model, adapters = unwrapped(self.model), [each.adapter for each in weights]
        with _turn(base_model(model)):
            ready(model, adapters)
            unchanged(model, weights)
            plain = torch.autocast(self.device.type, enabled=False)
            with switched(model, adapters), torch.inference_mode(), plain:
                supported_models.check(self, prompt)
                yield


def _turn(model: Any) -> Any:
    """The lock of a model."""
    with _making:
        return _turns.setdefault(model, RLock())


def distinct(prompts: Sequence[Prompt]) -> tuple[list[Prompt], NDArray[np.int64]]:
    """The different prompts, and which of them each row has."""
    known: dict[Prompt, int] = {}
    group = [known.setdefault(prompt, len(known)) for prompt in prompts]
    return list(known), np.array(group, dtype=np.int64)


def selected(cache: Any, place: Any) -> Any:
    """The cache of some of the rows, while the whole one stays as it is."""
    chosen = copy(cache)
    chosen.layers = [copy(layer) for layer in cache.layers]
    chosen.batch_select_indices(place)
    return chosen
