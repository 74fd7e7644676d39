"""Two local models that read the same tokens, in one batch where they are adapters of one model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tether.llm.local.adapters import base_model
from tether.llm.local.batched_model import BatchedModel, select_rows
from tether.llm.local.causal_policy import CausalPolicy
from tether.llm.local.scorer import NO_ADAPTER
from tether.llm.local.weight_checksum import WeightChecksum
from tether.llm.prompts import Prompt


@dataclass(frozen=True)
class _Lane:
    """One model, and the one or two policies that it runs in the same batch."""

    batched: BatchedModel
    checksums: list[WeightChecksum]

    def names(self, rows: int) -> list[str] | None:
        """The adapter of each row of a batch, where there are two policies."""
        if len(self.checksums) == 1:
            return None
        return [each.adapter or NO_ADAPTER for each in self.checksums for _ in range(rows)]


@dataclass
class PairState:
    """The key-value caches of both models after some tokens, and the attention mask."""

    caches: list[Any]
    mask: Any

    def selected(self, rows: Any, policies: Sequence[int]) -> PairState:
        """The state of some rows; this one is left unchanged."""
        size = len(self.mask)
        caches = [
            select_rows(cache, torch.cat([rows + k * size for k in range(count)]).to(cache_device))
            for cache, count, cache_device in zip(
                self.caches, policies, map(_device_of, self.caches), strict=True
            )
        ]
        return PairState(caches, self.mask[rows])


class PairedModel:
    """A safe and an optimized policy whose next tokens are wanted after the same prefixes.

    Two adapters of one model share passes and the batch. Two models take one pass each. One model
    whose adapters cannot share a batch is refused: it would have to switch at every token.
    """

    def __init__(self, safe: CausalPolicy, optimized: CausalPolicy) -> None:
        for name, each in (("safe", safe), ("optimized", optimized)):
            if not isinstance(each, CausalPolicy):
                raise TypeError(
                    f"{name} must be a tether.llm.CausalPolicy, whose probabilities of all tokens "
                    f"are known, got {type(each).__name__}"
                )
        _check_same_actions(safe, optimized)
        self.safe, self.optimized = safe, optimized
        if safe.shares_weights(optimized):
            self.lanes = [_Lane(safe._batched, [safe._checksum, optimized._checksum])]
        elif base_model(safe.model) is base_model(optimized.model):
            raise ValueError(
                "safe and optimized are one model with adapters or settings that cannot share a "
                "batch, so it would switch at every token: use plain LoRA adapters with the same "
                "temperature, or two models"
            )
        else:
            self.lanes = [_Lane(each._batched, [each._checksum]) for each in (safe, optimized)]
        self.policies = [len(lane.checksums) for lane in self.lanes]
        self.batch_tokens = min(lane.batched.batch_tokens for lane in self.lanes) // max(
            self.policies
        )

    @property
    def device(self) -> Any:
        """Where tokens and tables are."""
        return self.safe.model.device

    @contextmanager
    def running(self, prompt: Prompt, *, verify: bool = True) -> Iterator[None]:
        """Run both models as `BatchedModel.running` runs one; always locked in the same order."""
        with ExitStack() as stack:
            for lane in sorted(self.lanes, key=lambda each: id(base_model(each.batched.model))):
                stack.enter_context(lane.batched.running(lane.checksums, prompt, verify=verify))
            yield

    def read_prompts(self, prompts: list[Prompt]) -> tuple[Any, Any, PairState]:
        """Log-probabilities of the first token under both models, and the state to go on from."""
        tokens, mask = self.safe._batched.pad_prompts(prompts)
        log_safe, log_optimized, caches = self._forward(tokens, mask, 1, None)
        return log_safe.column(0), log_optimized.column(0), PairState(caches, mask)

    def go_on(self, state: PairState, tokens: Any, present: Any) -> tuple[Logits, Logits]:
        """The logits of both models after each of some more tokens, by which the state moves on."""
        state.mask = torch.cat([state.mask, present.long()], dim=1)
        safe, optimized, _ = self._forward(tokens, state.mask, tokens.shape[1], state.caches)
        return safe, optimized

    def _forward(
        self, tokens: Any, mask: Any, columns: int, caches: list[Any] | None
    ) -> tuple[Any, Any, list[Any]]:
        tables: list[Any] = []
        kept = []
        for index, lane in enumerate(self.lanes):
            count, device = len(lane.checksums), lane.batched.device
            output = lane.batched.forward(
                tokens.to(device).repeat(count, 1),
                mask.to(device).repeat(count, 1),
                columns,
                lane.names(len(tokens)),
                None if caches is None else caches[index],
                keep_cache=True,
            )
            parts = output.logits.chunk(count)
            tables += [Logits(lane.batched, part, self.device) for part in parts]
            kept.append(output.past_key_values)
        return tables[0], tables[1], kept


@dataclass(frozen=True)
class Logits:
    """Logits of several columns, of which one at a time becomes log-probabilities."""

    batched: BatchedModel
    logits: Any
    device: Any

    def column(self, index: int) -> Any:
        """Log-probabilities of one column (rows × vocabulary), in double precision."""
        return self.batched.log_softmax(self.logits[:, index]).double().to(self.device)


def _device_of(cache: Any) -> Any:
    return cache.layers[0].keys.device


def _check_same_actions(safe: CausalPolicy, optimized: CausalPolicy) -> None:
    """Refuse two policies whose completions are not the same actions."""
    for name in ("max_new_tokens", "vocabulary_size", "add_special_tokens"):
        if getattr(safe, name) != getattr(optimized, name):
            raise ValueError(
                f"safe and optimized must have the same {name}, got {getattr(safe, name)!r} and "
                f"{getattr(optimized, name)!r}"
            )
    if not np.array_equal(safe.end_token_ids, optimized.end_token_ids):
        raise ValueError(
            f"safe and optimized must have the same end-of-sequence tokens, got "
            f"{safe.end_token_ids.tolist()} and {optimized.end_token_ids.tolist()}"
        )
    if safe.tokenizer is optimized.tokenizer:
        return
    own, other = (_words(each) for each in (safe, optimized))
    for token in own.keys() & other.keys():
        if own[token] != other[token]:
            raise ValueError(
                f"the tokenizers of safe and optimized differ: token {token} is {own[token]!r} for "
                f"one and {other[token]!r} for the other, so the models do not read the same text"
            )


def _words(policy: CausalPolicy) -> dict[int, str]:
    """The tokens of a policy's tokenizer by id; none where it does not state them."""
    get_vocab = getattr(policy.tokenizer, "get_vocab", None)
    return {} if get_vocab is None else {token: word for word, token in get_vocab().items()}
