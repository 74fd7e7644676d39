"""Scoring: the log-probabilities of given completions, by teacher forcing in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import torch

from tether._core import progress
from tether._core.types import Floats, Integers
from tether.llm.completions import Tokens
from tether.llm.local.batched_model import (
    BatchedModel,
    distinct_prompts,
    pack_prompts,
    pack_rows,
    select_rows,
)
from tether.llm.local.weight_checksum import WeightChecksum
from tether.llm.prompts import Prompt

NO_ADAPTER = "__base__"
"""PEFT's name for the model without an adapter in a batch of several."""

ScoredRows: TypeAlias = Iterator[tuple[Integers, Floats]]
"""Indices of rows and their scores, batch by batch."""


@dataclass(frozen=True)
class _Rows:
    """Completions to score, the prompt that each continues, and the adapter of each prompt."""

    prompts: list[Prompt]
    prompt_index: Integers
    actions: Tokens
    lengths: Integers
    adapters: list[str] | None

    @property
    def prompt_lengths(self) -> Integers:
        """The number of prompt tokens before each completion."""
        lengths = np.array([len(prompt) for prompt in self.prompts], dtype=np.int64)
        return lengths[self.prompt_index]

    def adapter_names(self, prompts: Integers) -> list[str] | None:
        """The adapters of some prompts, where a batch has several."""
        return None if self.adapters is None else [self.adapters[k] for k in prompts]


def score_completions(
    batched: BatchedModel,
    prompts: Sequence[Prompt],
    actions: Tokens,
    lengths: Integers,
    checksums: Sequence[WeightChecksum],
) -> Floats:
    """The log-probability of each completion (rows) under each policy's weights (columns).

    Several adapters of the same weights share batches. A prompt that several completions continue
    is read once, and they continue from its key-value cache.
    """
    distinct, index = distinct_prompts(prompts)
    policies = len(checksums)
    adapters = [checksum.adapter or NO_ADAPTER for checksum in checksums for _ in distinct]
    rows = _Rows(
        prompts=distinct * policies,
        prompt_index=np.concatenate([index + k * len(distinct) for k in range(policies)]),
        actions=np.tile(actions, (policies, 1)),
        lengths=np.tile(lengths, policies),
        adapters=None if policies == 1 else adapters,
    )
    scores = np.empty(len(rows.prompt_index))
    alone = np.bincount(rows.prompt_index)[rows.prompt_index] == 1
    with (
        batched.running(checksums, distinct[0]),
        progress.step("scoring completions", total=len(scores)) as step,
    ):
        for batch, batch_scores in chain(
            _score_with_prompts(batched, rows, np.flatnonzero(alone)),
            _score_after_prompts(batched, rows, np.flatnonzero(~alone)),
        ):
            scores[batch] = batch_scores
            step.advance(len(batch))
    if np.isnan(scores).any():
        raise ValueError(
            f"the model's scores are NaN for {int(np.isnan(scores).sum())} of {len(scores)} "
            f"completions: its logits divided by the temperature {batched.temperature:g} contain "
            f"NaN or inf (weights of {batched.model.dtype})"
        )
    return scores.reshape(policies, len(prompts)).T


def _score_with_prompts(batched: BatchedModel, rows: _Rows, which: Integers) -> ScoredRows:
    """Completions that are the only one of their prompt: one pass over both."""
    prefix_lengths, lengths = rows.prompt_lengths[which], rows.lengths[which]
    for packed in pack_rows(prefix_lengths, lengths, batched.batch_tokens):
        batch = which[packed]
        tokens, present = batched.pad_completions(
            rows.actions[batch], int(rows.lengths[batch].max())
        )
        prompt, mask = batched.pad_prompts([rows.prompts[k] for k in rows.prompt_index[batch]])
        mask = torch.cat([mask, present[:, :-1].long()], dim=1)
        joined = torch.cat([prompt, tokens[:, :-1]], dim=1)
        adapter_names = rows.adapter_names(rows.prompt_index[batch])
        output = batched.forward(joined, mask, tokens.shape[1], adapter_names)
        yield batch, _sum_log_probabilities(batched, output.logits, tokens, present)


def _score_after_prompts(batched: BatchedModel, rows: _Rows, which: Integers) -> ScoredRows:
    """Completions that share prompts: each prompt is read once."""
    shared = np.unique(rows.prompt_index[which])
    lengths = np.array([len(rows.prompts[k]) for k in shared], dtype=np.int64)
    for packed_prompts in pack_prompts(lengths, batched.batch_tokens):
        read = np.sort(shared[packed_prompts])
        logits, cache, mask = batched.read_prompts(
            [rows.prompts[k] for k in read], rows.adapter_names(read)
        )
        group = which[np.isin(rows.prompt_index[which], read)]
        position = torch.as_tensor(
            np.searchsorted(read, rows.prompt_index[group]), device=batched.device
        )
        first = torch.as_tensor(rows.actions[group, 0], device=batched.device)
        scores = batched.log_softmax(logits)[position, first].double().cpu().numpy()
        longer = np.flatnonzero(rows.lengths[group] > 1)
        prefix_lengths = np.full(len(longer), mask.shape[1])  # all prompts are padded to this
        remaining = rows.lengths[group[longer]] - 1
        for packed in pack_rows(prefix_lengths, remaining, batched.batch_tokens):
            members = longer[packed]
            batch = group[members]
            tokens, present = batched.pad_completions(
                rows.actions[batch], int(rows.lengths[batch].max())
            )
            cached = position[torch.as_tensor(members, device=batched.device)]
            output = batched.forward(
                tokens[:, :-1],
                torch.cat([mask[cached], present[:, :-1].long()], dim=1),
                tokens.shape[1] - 1,
                rows.adapter_names(rows.prompt_index[batch]),
                select_rows(cache, cached),
            )
            scores[members] += _sum_log_probabilities(
                batched, output.logits, tokens[:, 1:], present[:, 1:]
            )
        yield group, scores


def _sum_log_probabilities(batched: BatchedModel, logits: Any, tokens: Any, present: Any) -> Floats:
    """Sums of the log-probabilities of the given tokens, in double precision."""
    total = torch.zeros(len(tokens), dtype=torch.float64, device=batched.device)
    for column in range(tokens.shape[1]):  # one column at a time: a copy of all is large
        log_probabilities = batched.log_softmax(logits[:, column])
        chosen = log_probabilities.gather(1, tokens[:, column, None])[:, 0]
        total += torch.where(present[:, column], chosen.double(), 0.0)
    return np.asarray(total.cpu().numpy())
