"""Scoring: the log-probabilities of given completions, by teacher forcing in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.llm.completions import Tokens
from tether.llm.local.packing import chunks, packed
from tether.llm.local.runner import Runner, distinct, selected
from tether.llm.local.weight_checksum import Weights
from tether.llm.prompts import Prompt

BASE = "__base__"
"""What PEFT calls the model without an adapter in a batch of several."""

Scored = Iterator[tuple[NDArray[np.int64], Floats]]


@dataclass(frozen=True)
class _Rows:
    """Completions to score: which prompt each continues, and which adapter each prompt has."""

    prompts: list[Prompt]
    group: NDArray[np.int64]
    actions: Tokens
    size: Tokens
    names: list[str] | None

    @property
    def before(self) -> NDArray[np.int64]:
        """How many tokens stand before each completion."""
        return np.array([len(prompt) for prompt in self.prompts], dtype=np.int64)[self.group]

    def named(self, which: NDArray[np.int64]) -> list[str] | None:
        """The adapters of some prompts, where a batch has several."""
        return None if self.names is None else [self.names[k] for k in which]


def score(
    runner: Runner,
    prompts: Sequence[Prompt],
    actions: Tokens,
    size: Tokens,
    weights: Sequence[Weights],
) -> Floats:
    """The log-probability of each completion under each policy's weights, a column for each.

    Several adapters of the same weights go through the model in the same batches. A prompt that
    several completions continue is read once, and they go on from its cache.
    """
    asked, group = distinct(prompts)
    several = len(weights)
    rows = _Rows(
        prompts=asked * several,
        group=np.concatenate([group + k * len(asked) for k in range(several)]),
        actions=np.tile(actions, (several, 1)),
        size=np.tile(size, several),
        names=None if several == 1 else [each.adapter or BASE for each in weights for _ in asked],
    )
    scores = np.empty(len(rows.group))
    alone = np.bincount(rows.group)[rows.group] == 1
    with runner.acting(weights, asked[0]):
        for some, found in _whole(runner, rows, np.flatnonzero(alone)):
            scores[some] = found
        for some, found in _shared(runner, rows, np.flatnonzero(~alone)):
            scores[some] = found
    if np.isnan(scores).any():
        raise ValueError(
            f"the model's scores are not numbers for {int(np.isnan(scores).sum())} of "
            f"{len(scores)} completions: its logits over the temperature of "
            f"{runner.temperature:g} hold NaN or inf (weights of {runner.model.dtype})"
        )
    return scores.reshape(several, len(prompts)).T


def _whole(runner: Runner, rows: _Rows, which: NDArray[np.int64]) -> Scored:
    """Completions that have their prompts for themselves: one pass over both."""
    for place in packed(rows.before[which], rows.size[which], runner.batch_tokens):
        some = which[place]
        tokens, there = runner.right(rows.actions[some], int(rows.size[some].max()))
        prompt, mask = runner.left([rows.prompts[k] for k in rows.group[some]])
        mask = torch.cat([mask, there[:, :-1].long()], dim=1)
        joined = torch.cat([prompt, tokens[:, :-1]], dim=1)
        found = runner.forward(joined, mask, tokens.shape[1], rows.named(rows.group[some]))
        yield some, _summed(runner, found.logits, tokens, there)


def _shared(runner: Runner, rows: _Rows, which: NDArray[np.int64]) -> Scored:
    """Completions that continue the same prompts: each prompt is read once."""
    asked = np.unique(rows.group[which])
    lengths = np.array([len(rows.prompts[k]) for k in asked], dtype=np.int64)
    for chunk in chunks(lengths, runner.batch_tokens):
        read = np.sort(asked[chunk])
        logits, cache, mask = runner.read([rows.prompts[k] for k in read], rows.named(read))
        mine = which[np.isin(rows.group[which], read)]
        place = torch.as_tensor(np.searchsorted(read, rows.group[mine]), device=runner.device)
        first = torch.as_tensor(rows.actions[mine, 0], device=runner.device)
        scores = runner.log_softmax(logits)[place, first].double().cpu().numpy()
        more = np.flatnonzero(rows.size[mine] > 1)
        before = np.full(len(more), mask.shape[1])  # all have the same, filled, behind them
        for batch in packed(before, rows.size[mine[more]] - 1, runner.batch_tokens):
            inner = more[batch]
            some = mine[inner]
            tokens, there = runner.right(rows.actions[some], int(rows.size[some].max()))
            here = place[torch.as_tensor(inner, device=runner.device)]
            longer = torch.cat([mask[here], there[:, :-1].long()], dim=1)
            found = runner.forward(
                tokens[:, :-1],
                longer,
                tokens.shape[1] - 1,
                rows.named(rows.group[some]),
                selected(cache, here),
            )
            scores[inner] += _summed(runner, found.logits, tokens[:, 1:], there[:, 1:])
        yield mine, scores


def _summed(runner: Runner, logits: Any, tokens: Any, there: Any) -> Floats:
    """Sums of the log-probabilities of the given tokens, in double precision."""
    total = torch.zeros(len(tokens), dtype=torch.float64, device=runner.device)
    for column in range(tokens.shape[1]):  # a column at a time: a copy of all is large
        here = runner.log_softmax(logits[:, column]).gather(1, tokens[:, column, None])[:, 0]
        total += torch.where(there[:, column], here.double(), 0.0)
    return np.asarray(total.cpu().numpy())
