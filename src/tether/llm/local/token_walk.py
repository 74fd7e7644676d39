"""Both models along given completions: their tables of the next token at every position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from tether._core import progress
from tether._core.types import Floats, Integers
from tether.llm.completions import Tokens
from tether.llm.local.batched_model import distinct_prompts, pack_prompts, pack_rows
from tether.llm.local.paired_model import PairedModel
from tether.llm.local.token_rule import TokenRule
from tether.llm.prompts import Prompt

TablesAt: TypeAlias = tuple[Integers, int, Any, Any, Any]
"""Rows, their position, log-probabilities of safe and optimized (rows × vocabulary), tokens."""


def walk_tokens(
    pair: PairedModel, prompts: Sequence[Prompt], actions: Tokens, lengths: Integers
) -> Iterator[TablesAt]:
    """The tables at every token of every completion, batch by batch.

    Each distinct prompt is read once, and its completions continue from its key-value cache.
    """
    distinct, index = distinct_prompts(prompts)
    prompt_lengths = np.array([len(prompt) for prompt in distinct], dtype=np.int64)
    with pair.running(distinct[0]):
        for packed in pack_prompts(prompt_lengths, pair.batch_tokens):
            read = np.sort(packed)
            log_safe, log_optimized, state = pair.read_prompts([distinct[k] for k in read])
            group = np.flatnonzero(np.isin(index, read))
            prefix = np.full(len(group), state.mask.shape[1])
            for members in pack_rows(prefix, lengths[group], pair.batch_tokens):
                rows = group[members]
                place = torch.as_tensor(np.searchsorted(read, index[rows]), device=pair.device)
                tokens, present = pair.safe._batched.pad_completions(
                    actions[rows], int(lengths[rows].max())
                )
                yield rows, 0, log_safe[place], log_optimized[place], tokens[:, 0]
                if tokens.shape[1] == 1:
                    continue
                later = pair.go_on(
                    state.selected(place, pair.policies), tokens[:, :-1], present[:, :-1]
                )
                for position in range(1, tokens.shape[1]):
                    here = torch.nonzero(present[:, position])[:, 0]
                    safe, optimized = (table.column(position - 1)[here] for table in later)
                    yield (
                        rows[here.cpu().numpy()],
                        position,
                        safe,
                        optimized,
                        tokens[here, position],
                    )


def score_path(
    pair: PairedModel,
    rule: TokenRule,
    prompts: Sequence[Prompt],
    actions: Tokens,
    lengths: Integers,
    log_betas: Floats,
) -> Floats:
    """Log-probabilities of completions: safe, optimized, and tethered at every finite beta.

    The sum over the tokens of a completion; the table has 2 + betas columns.
    """
    total = np.zeros((len(actions), 2 + len(log_betas)))
    tables = walk_tokens(pair, prompts, actions, lengths)
    with progress.step("scoring completions", total=float(lengths.sum())) as step:  # in tokens
        for rows, _, log_safe, log_optimized, tokens in tables:
            scores = rule.log_densities(log_safe, log_optimized, tokens, log_betas)
            total[rows] += scores.cpu().numpy()
            step.advance(len(rows))
    if np.isnan(total).any():
        raise ValueError(
            f"the scores are NaN for {int(np.isnan(total).any(axis=1).sum())} of {len(total)} "
            f"completions: the models' logits contain NaN or inf"
        )
    return total
