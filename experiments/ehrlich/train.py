"""Training: supervised on improving pairs for the safe policy, by preference for the others."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from experiments.ehrlich.model import Transformer
from experiments.ehrlich.policy import Language, Prompted, log_probs


def _mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bf16 where there is a GPU."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def _batches(count: int, size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    order = rng.permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]


def supervised(
    model: Transformer,
    language: Language,
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    rate: float,
    epochs: int,
    batch: int,
) -> list[float]:
    """Teach the model to answer the one with the other; returns the mean loss of each epoch.

    AdamW with a rate that rises over the first twentieth of all steps and then falls to nothing.
    """
    device = next(model.parameters()).device
    prompts = torch.as_tensor(language.prompts(before), device=device)
    answers = torch.as_tensor(after, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=True)
    steps = epochs * -(-len(before) // batch)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warm, (1 + math.cos(math.pi * step / steps)) / 2),
    )
    means = []
    for _ in range(epochs):
        losses = []
        for rows in _batches(len(before), batch, rng):
            place = torch.as_tensor(rows, device=device)
            with _mixed_precision(device):
                loss = -log_probs(model, prompts[place], answers[place], language.states).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
        means.append(float(torch.stack(losses).mean()))
    return means


def preferences(
    values: NDArray[np.float64],
    group: NDArray[np.int64],
    count: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the same group of which the first is worth more than the second, at most `count`.

    Drawn evenly among ordered pairs of feasible rows.
    """
    first, second = rng.integers(len(values), size=(2, 64 * count))
    fits = (group[first] == group[second]) & (values[first] > values[second])
    fits &= np.isfinite(values[second])
    return first[fits][:count], second[fits][:count]


def preferred(
    model: Transformer,
    language: Language,
    prompts: NDArray[np.int64],
    better: NDArray[np.int64],
    worse: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    rate: float,
    beta: float,
    batch: int,
) -> tuple[Transformer, float]:
    """A copy of the model after one epoch of DPO, with the model itself as reference; and the loss.

    A row of `prompts` is what both actions answer.
    """
    device = next(model.parameters()).device
    tuned = copy.deepcopy(model).train()
    if not len(prompts):  # no action was worth more than another: nothing to learn
        return tuned.eval(), float("nan")
    asked = torch.as_tensor(language.prompts(prompts), device=device)
    written = [torch.as_tensor(rows, device=device) for rows in (better, worse)]
    with torch.no_grad(), _mixed_precision(device):
        margin = [log_probs(model, asked, rows, language.states) for rows in written]
        reference = margin[0] - margin[1]
    optimizer = torch.optim.AdamW(tuned.parameters(), lr=rate, weight_decay=0.0, fused=True)
    losses = []
    for rows in _batches(len(prompts), batch, rng):
        place = torch.as_tensor(rows, device=device)
        both = torch.cat([written[0][place], written[1][place]])
        with _mixed_precision(device):
            scores = log_probs(tuned, asked[place].repeat(2, 1), both, language.states)
        first, second = scores.chunk(2)
        loss = -functional.logsigmoid(beta * (first - second - reference[place])).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(tuned.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return tuned.eval(), float(torch.stack(losses).mean())


def improve(
    model: Transformer,
    language: Language,
    safe_seeds: NDArray[np.int64],
    settings: Mapping[str, Any],
    past: NDArray[np.int64],
    last: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[Prompted, float]:
    """The policy after one epoch of DPO on pairs of the `last` actions; and the loss.

    All actions may be trained on. The prompts are the best of the `past` ones and some of the safe
    policy's; a pair's prompt is the nearest of them.
    """
    past = np.unique(past, axis=0)
    order = np.argsort(-language.function(past), kind="stable")
    kept = rng.choice(len(safe_seeds), settings["kept_seeds"], replace=False)
    seeds = np.concatenate([safe_seeds[kept], past[order[: settings["best_seeds"]]]])
    nearest = (last[:, None] != seeds).sum(axis=2).argmin(axis=1)
    better, worse = preferences(language.function(last), nearest, settings["triplets"], rng)
    tuned, loss = preferred(
        *(model, language, seeds[nearest[better]], last[better], last[worse], rng),
        rate=settings["dpo_rate"],
        beta=settings["dpo_beta"],
        batch=settings["dpo_batch"],
    )
    return Prompted(tuned, seeds, language), loss
