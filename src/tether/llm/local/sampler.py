"""Sampling: completions drawn token by token, from the whole vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.llm.completions import FILL, Tokens
from tether.llm.local.packing import packed
from tether.llm.local.runner import Runner, distinct
from tether.llm.local.weight_checksum import Weights
from tether.llm.prompts import Prompt


def sample(
    runner: Runner,
    prompts: Sequence[Prompt],
    width: int,
    ends: Tokens,
    rng: np.random.Generator,
    weights: Weights,
) -> tuple[Tokens, Floats]:
    """A completion of each prompt, until an end or the full width, and its log-probability.

    A prompt that is asked several times in a batch is read once.
    """
    asked, group = distinct(prompts)
    before = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    drawn = np.full((len(prompts), width), FILL, dtype=np.int64)
    scores = np.empty(len(prompts))
    with runner.acting([weights], asked[0]):
        for rows in packed(before, np.full_like(before, width), runner.batch_tokens):
            drawn[rows], scores[rows] = _batch(runner, asked, group[rows], width, ends, rng)
    return drawn, scores


def _batch(
    runner: Runner,
    asked: list[Prompt],
    group: NDArray[np.int64],
    width: int,
    ends: Tokens,
    rng: np.random.Generator,
) -> tuple[Tokens, Floats]:
    read, inverse = np.unique(group, return_inverse=True)
    logits, cache, mask = runner.read([asked[k] for k in read], None)
    place = torch.as_tensor(inverse, device=runner.device)
    cache.batch_select_indices(place)
    logits, mask = logits[place], mask[place]
    stops = torch.as_tensor(ends, device=runner.device)
    tokens = torch.full((len(group), width), FILL, dtype=torch.long, device=runner.device)
    scores = torch.zeros(len(group), dtype=torch.float64, device=runner.device)
    active = torch.arange(len(group), device=runner.device)
    for step in range(width):
        log_probabilities = runner.log_softmax(logits).double()
        chosen = _draw(log_probabilities, rng, runner.temperature)
        tokens[active, step] = chosen
        scores[active] += log_probabilities.gather(1, chosen[:, None])[:, 0]
        going = ~torch.isin(chosen, stops)
        if step + 1 == width or not going.any():
            break
        if not going.all():  # what has ended leaves the batch
            keep = torch.nonzero(going)[:, 0]
            cache.batch_select_indices(keep)
            active, mask, chosen = active[keep], mask[keep], chosen[keep]
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        logits = runner.forward(chosen[:, None], mask, 1, cache=cache).logits[:, -1]
    return np.asarray(tokens.cpu().numpy()), np.asarray(scores.cpu().numpy())


def _draw(log_probabilities: Any, rng: np.random.Generator, temperature: float) -> Any:
    """A token from each row, against the running sums of its probabilities.

    The uniform numbers are numpy's, so no global state is touched, and both they and the sums are
    in double precision: a token of probability zero is never drawn.
    """
    running = log_probabilities.exp().cumsum(dim=1)
    if not torch.isfinite(running[:, -1]).all():
        raise ValueError(
            f"there is nothing to draw from: the model's logits over the temperature of "
            f"{temperature:g} hold NaN or inf"
        )
    uniform = torch.as_tensor(rng.random(len(running)), device=running.device)
    aim = uniform[:, None] * running[:, -1:]
    return torch.searchsorted(running, aim, right=True)[:, 0]
