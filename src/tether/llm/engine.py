"""The engine: a causal language model run in batches, to sample and to score.

Prompts are filled up on the left and completions on the right, so that every completion begins in
the same column. One function turns logits into log-probabilities, for sampler and scorer alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tether._check import Floats
from tether.llm.completions import FILL, Tokens, filled
from tether.llm.packing import chunks, packed
from tether.llm.prompts import Prompt

BASE = "__base__"
"""What PEFT calls the model without an adapter in a batch of several."""


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


@dataclass(frozen=True)
class Engine:
    """A model, its softmax temperature, and how many tokens it takes at once."""

    model: Any
    temperature: float
    batch_tokens: int

    def sample(
        self,
        prompts: Sequence[Prompt],
        width: int,
        ends: Tokens,
        rng: np.random.Generator,
        adapter: str | None,
    ) -> Tokens:
        """A completion of each prompt, token by token until an end or the full width."""
        distinct, group = _distinct(prompts)
        before = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
        drawn = np.full((len(prompts), width), FILL, dtype=np.int64)
        with self._acting([adapter]):
            for rows in packed(before, np.full_like(before, width), self.batch_tokens):
                drawn[rows] = self._sample_batch(distinct, group[rows], width, ends, rng)
        return drawn

    def score(
        self,
        prompts: Sequence[Prompt],
        actions: Tokens,
        size: Tokens,
        adapters: Sequence[str | None],
    ) -> Floats:
        """The log-probability of each completion under each adapter, a column for each.

        Several adapters of the same weights go through the model in the same batches. A prompt
        that several completions continue is read once, and they go on from its cache.
        """
        distinct, group = _distinct(prompts)
        several = len(adapters)
        rows = _Rows(
            prompts=[prompt for _ in adapters for prompt in distinct],
            group=np.concatenate([group + k * len(distinct) for k in range(several)]),
            actions=np.tile(actions, (several, 1)),
            size=np.tile(size, several),
            names=_names(adapters, len(distinct)),
        )
        scores = np.empty(len(rows.group))
        alone = np.bincount(rows.group)[rows.group] == 1
        with self._acting(adapters):
            for some, found in self._score_whole(rows, np.flatnonzero(alone)):
                scores[some] = found
            for some, found in self._score_shared(rows, np.flatnonzero(~alone)):
                scores[some] = found
        if np.isnan(scores).any():
            raise ValueError(
                f"the model's scores are not numbers for {int(np.isnan(scores).sum())} of "
                f"{len(scores)} completions: its logits hold NaN (weights of {self.model.dtype})"
            )
        return scores.reshape(several, len(prompts)).T

    def _sample_batch(
        self,
        distinct: list[Prompt],
        group: NDArray[np.int64],
        width: int,
        ends: Tokens,
        rng: np.random.Generator,
    ) -> Tokens:
        asked, inverse = np.unique(group, return_inverse=True)
        logits, cache, mask = self._read([distinct[k] for k in asked], None)
        place = torch.as_tensor(inverse, device=self._device)
        cache.batch_select_indices(place)
        logits, mask = logits[place], mask[place]
        stops = torch.as_tensor(ends, device=self._device)
        tokens = torch.full((len(group), width), FILL, dtype=torch.long, device=self._device)
        active = torch.arange(len(group), device=self._device)
        for step in range(width):
            chosen = self._draw(logits, rng)
            tokens[active, step] = chosen
            going = ~torch.isin(chosen, stops)
            if step + 1 == width or not going.any():
                break
            if not going.all():  # what has ended leaves the batch
                keep = torch.nonzero(going)[:, 0]
                cache.batch_select_indices(keep)
                active, mask, chosen = active[keep], mask[keep], chosen[keep]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            found = self._forward(chosen[:, None], mask, 1, cache=cache)
            logits = found.logits[:, -1]
        return np.asarray(tokens.cpu().numpy())

    def _draw(self, logits: Any, rng: np.random.Generator) -> Any:
        """A token from each row, against the running sums of its probabilities.

        The uniform numbers are numpy's, so no global state is touched, and both they and the sums
        are in double precision: a token of probability zero is never drawn.
        """
        running = self.log_softmax(logits).double().exp_().cumsum(dim=1)
        uniform = torch.as_tensor(rng.random(len(logits)), device=self._device)
        aim = uniform[:, None] * running[:, -1:]
        return torch.searchsorted(running, aim, right=True)[:, 0]

    def _score_whole(
        self, rows: _Rows, which: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Scores of completions that have their prompts for themselves."""
        before = rows.before[which]
        for place in packed(before, rows.size[which], self.batch_tokens):
            some = which[place]
            tokens, there = self._right(rows.actions[some], int(rows.size[some].max()))
            prompt, mask = self._left([rows.prompts[k] for k in rows.group[some]])
            mask = torch.cat([mask, there[:, :-1].long()], dim=1)
            joined = torch.cat([prompt, tokens[:, :-1]], dim=1)
            found = self._forward(joined, mask, tokens.shape[1], rows.named(rows.group[some]))
            yield some, self._at(found.logits, tokens, there)

    def _score_shared(
        self, rows: _Rows, which: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Scores of completions that continue the same prompts, each prompt read once."""
        asked = np.unique(rows.group[which])
        lengths = np.array([len(rows.prompts[k]) for k in asked], dtype=np.int64)
        for chunk in chunks(lengths, self.batch_tokens):
            read = np.sort(asked[chunk])
            logits, cache, mask = self._read([rows.prompts[k] for k in read], rows.named(read))
            mine = which[np.isin(rows.group[which], read)]
            place = torch.as_tensor(np.searchsorted(read, rows.group[mine]), device=self._device)
            first = torch.as_tensor(rows.actions[mine, 0], device=self._device)
            scores = self.log_softmax(logits)[place, first].double().cpu().numpy()
            more = np.flatnonzero(rows.size[mine] > 1)
            before = rows.before[mine[more]]
            for batch in packed(before, rows.size[mine[more]] - 1, self.batch_tokens):
                inner = more[batch]
                some = mine[inner]
                tokens, there = self._right(rows.actions[some], int(rows.size[some].max()))
                here = place[torch.as_tensor(inner, device=self._device)]
                longer = torch.cat([mask[here], there[:, :-1].long()], dim=1)
                names = rows.named(rows.group[some])
                continued = _selected(cache, here)
                width = tokens.shape[1] - 1
                found = self._forward(tokens[:, :-1], longer, width, names, continued)
                scores[inner] += self._at(found.logits, tokens[:, 1:], there[:, 1:])
            yield mine, scores

    def _right(self, actions: Tokens, widest: int) -> tuple[Any, Any]:
        """Completions filled up on the right, and where they have tokens."""
        tokens = torch.as_tensor(actions[:, :widest], device=self._device)
        there = tokens != FILL
        return tokens.masked_fill(~there, 0), there

    def _at(self, logits: Any, tokens: Any, there: Any) -> Floats:
        """Sums of the log-probabilities of the given tokens, in double precision."""
        total = torch.zeros(len(tokens), dtype=torch.float64, device=self._device)
        for column in range(tokens.shape[1]):  # a column at a time: a copy of all is large
            here = self.log_softmax(logits[:, column]).gather(1, tokens[:, column, None])[:, 0]
            total += torch.where(there[:, column], here.double(), 0.0)
        return np.asarray(total.cpu().numpy())

    def log_softmax(self, logits: Any) -> Any:
        """Log-probabilities of the next token, in single precision whatever the weights are."""
        logits = logits.float()
        if self.temperature != 1.0:
            logits = logits / self.temperature
        return torch.log_softmax(logits, dim=-1)

    def _read(self, prompts: list[Prompt], names: list[str] | None) -> tuple[Any, Any, Any]:
        """Logits after each prompt, the cache that holds them, and the mask."""
        tokens, mask = self._left(prompts)
        found = self._forward(tokens, mask, 1, names, keep_cache=True)
        return found.logits[:, -1], found.past_key_values, mask

    def _left(self, prompts: list[Prompt]) -> tuple[Any, Any]:
        """Prompts filled up on the left, and the mask of what is there."""
        widest = max(map(len, prompts))
        tokens = torch.as_tensor(
            filled([prompt[::-1] for prompt in prompts], widest)[:, ::-1].copy(),
            device=self._device,
        )
        mask = (tokens != FILL).long()
        return tokens.masked_fill(mask == 0, 0), mask

    def _forward(
        self,
        tokens: Any,
        mask: Any,
        columns: int,
        names: list[str] | None = None,
        cache: Any = None,
        keep_cache: bool = False,
    ) -> Any:
        """One pass; logits of the last so many columns. Positions do not count what is masked."""
        accepted = self._accepted
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

    @property
    def _accepted(self) -> Any:
        inner = self.model.get_base_model() if is_peft(self.model) else self.model
        return inspect.signature(inner.forward).parameters

    @property
    def _device(self) -> Any:
        return self.model.device

    @contextmanager
    def _acting(self, adapters: Sequence[str | None]) -> Iterator[None]:
        """The model as it acts: no gradients, no dropout, this adapter or none; then as it was."""
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                if len(adapters) > 1 or not is_peft(self.model):
                    yield
                elif adapters[0] is None:
                    with self.model.disable_adapter():
                        yield
                else:
                    with _switched(self.model, adapters[0]):
                        yield
        finally:
            self.model.train(training)


def is_peft(model: Any) -> bool:
    """Whether a model carries adapters, without asking for the library that makes them."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


@contextmanager
def _switched(model: Any, adapter: str) -> Iterator[None]:
    """The model with one of its adapters, and afterwards with what it had, trainable as it was."""
    before = model.active_adapters
    if before == [adapter]:
        yield
        return
    learning = [(each, each.requires_grad) for each in model.parameters()]
    model.set_adapter(adapter)
    try:
        yield
    finally:
        model.base_model.set_adapter(before)
        for parameter, learns in learning:
            parameter.requires_grad_(learns)


def _distinct(prompts: Sequence[Prompt]) -> tuple[list[Prompt], NDArray[np.int64]]:
    """The different prompts, and which of them each row has."""
    known: dict[Prompt, int] = {}
    group = [known.setdefault(prompt, len(known)) for prompt in prompts]
    return list(known), np.array(group, dtype=np.int64)


def _selected(cache: Any, place: Any) -> Any:
    """The cache of some of the rows, while the whole one stays as it is."""
    chosen = copy(cache)
    chosen.layers = [copy(layer) for layer in cache.layers]
    chosen.batch_select_indices(place)
    return chosen


def _names(adapters: Sequence[str | None], prompts: int) -> list[str] | None:
    """For each prompt of each adapter the name that PEFT calls it by; None where one does all."""
    if len(adapters) == 1:
        return None
    return [adapter or BASE for adapter in adapters for _ in range(prompts)]
