"""Sampling: completions drawn token by token, from the full vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tether._core import progress
from tether._core.types import Floats, Integers
from tether.llm.completions import PADDING, Tokens
from tether.llm.local.batched_model import BatchedModel, distinct_prompts, pack_rows
from tether.llm.local.weight_checksum import WeightChecksum
from tether.llm.prompts import Prompt


def sample_completions(
    batched: BatchedModel,
    prompts: Sequence[Prompt],
    width: int,
    end_token_ids: Tokens,
    rng: np.random.Generator,
    checksum: WeightChecksum,
) -> tuple[Tokens, Floats]:
    """One completion per prompt, up to an end token or the full width, and its log-probability.

    A prompt that occurs several times in a batch is read once.
    """
    distinct, index = distinct_prompts(prompts)
    prompt_lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    actions = np.full((len(prompts), width), PADDING, dtype=np.int64)
    scores = np.empty(len(prompts))
    widths = np.full_like(prompt_lengths, width)
    with (
        batched.running([checksum], distinct[0]),
        progress.step("drawing completions", total=len(prompts)) as step,
    ):
        for rows in pack_rows(prompt_lengths, widths, batched.batch_tokens):
            actions[rows], scores[rows] = _sample_batch(
                batched, distinct, index[rows], width, end_token_ids, rng
            )
            step.advance(len(rows))
    return actions, scores


def _sample_batch(
    batched: BatchedModel,
    distinct: list[Prompt],
    index: Integers,
    width: int,
    end_token_ids: Tokens,
    rng: np.random.Generator,
) -> tuple[Tokens, Floats]:
    read, inverse = np.unique(index, return_inverse=True)
    logits, cache, mask = batched.read_prompts([distinct[k] for k in read], None)
    rows = torch.as_tensor(inverse, device=batched.device)
    cache.batch_select_indices(rows)
    logits, mask = logits[rows], mask[rows]
    ends = torch.as_tensor(end_token_ids, device=batched.device)
    tokens = torch.full((len(index), width), PADDING, dtype=torch.long, device=batched.device)
    scores = torch.zeros(len(index), dtype=torch.float64, device=batched.device)
    active = torch.arange(len(index), device=batched.device)
    for step in range(width):
        log_probabilities = batched.log_softmax(logits).double()
        drawn = draw_tokens(log_probabilities, rng, batched.temperature)
        tokens[active, step] = drawn
        scores[active] += log_probabilities.gather(1, drawn[:, None])[:, 0]
        unfinished = ~torch.isin(drawn, ends)
        if step + 1 == width or not unfinished.any():
            break
        if not unfinished.all():  # finished rows leave the batch
            keep = torch.nonzero(unfinished)[:, 0]
            cache.batch_select_indices(keep)
            active, mask, drawn = active[keep], mask[keep], drawn[keep]
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        logits = batched.forward(drawn[:, None], mask, 1, cache=cache).logits[:, -1]
    return np.asarray(tokens.cpu().numpy()), np.asarray(scores.cpu().numpy())


def draw_tokens(log_probabilities: Any, rng: np.random.Generator, temperature: float) -> Any:
    """One token per row, by inverting the cumulative probabilities.

    The uniform numbers come from numpy, so no global state is touched, and both they and the
    cumulative sums are in double precision: a token of probability zero is never drawn.
    """
    cumulative = log_probabilities.exp().cumsum(dim=1)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise ValueError(
            f"cannot sample: the model's logits divided by the temperature {temperature:g} "
            f"contain NaN or inf"
        )
    uniform = torch.as_tensor(rng.random(len(cumulative)), device=cumulative.device)
    level = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, level, right=True)[:, 0]
