"""Several local policies that read the same tokens: their tables of the next token, in batches.

Adapters of one model share passes and the batch; two models take one pass each. Everything that
draws or scores with local models is here, for one policy or two: a walk along given completions,
and the drawing of new ones. A batch is as wide as its widest row, so rows of similar length share
one, and a prompt that several rows have is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Any, TypeAlias

import numpy as np
import torch

from tether._core.arrays import Integers
from tether.llm.adapters import base_model
from tether.llm.completions import PADDING, Prompt, Tokens
from tether.llm.local_model import LocalModel

Tables: TypeAlias = list[Any]
"""The log-probabilities of the next token (rows × vocabulary) under each policy."""
LogTable: TypeAlias = Callable[[Tables], Any]
"""What turns the tables of several policies into that of one."""


class Lanes:
    """Policies whose next tokens are wanted after the same prefixes."""

    def __init__(self, *models: LocalModel) -> None:
        self.models, self.device = models, models[0].device  # where tokens and tables are
        most = max(len(each.weights) for each in models)
        self.batch_tokens = max(1, min(each.batch_tokens for each in models) // most)

    @contextmanager
    def running(self, prompt: Prompt, *, verify: bool = True) -> Iterator[None]:
        """Run all models as `LocalModel.running` runs one; always locked in the same order."""
        with ExitStack() as stack:
            for each in sorted(self.models, key=lambda each: id(base_model(each.model))):
                stack.enter_context(each.running(prompt, verify=verify))
            yield

    def forward(
        self, tokens: Any, mask: Any, columns: int, caches: list[Any] | None, *, keep: bool = False
    ) -> tuple[Callable[[int, Any], Tables], list[Any]]:
        """The tables of some rows at one of the last columns, and the key-value caches."""
        logits, kept = [], []
        for each, cache in zip(self.models, caches or [None] * len(self.models), strict=True):
            count = len(each.weights)
            ids, seen = (given.to(each.device).repeat(count, 1) for given in (tokens, mask))
            output = each.forward(ids, seen, columns, cache, keep_cache=keep)
            logits += [(each, part) for part in output.logits.chunk(count)]
            kept.append(getattr(output, "past_key_values", None))

        def tables(column: int, rows: Any) -> Tables:  # one at a time: all would be large
            here = ((model, part[rows.to(part.device), column]) for model, part in logits)
            return [model.log_softmax(each).to(self.device) for model, each in here]

        return tables, kept

    def select(self, caches: list[Any], rows: Any, size: int) -> list[Any]:
        """The caches of some of `size` rows; the originals are left unchanged."""
        selected = []
        for model, cache in zip(self.models, caches, strict=True):
            every = torch.cat([rows + k * size for k in range(len(model.weights))])
            mine = copy(cache)
            mine.layers = [copy(layer) for layer in cache.layers]
            mine.batch_select_indices(every.to(cache.layers[0].keys.device))
            selected.append(mine)
        return selected

    def walk(
        self, prompts: Sequence[Prompt], actions: Tokens, lengths: Integers
    ) -> Iterator[tuple[Any, Tables, Any]]:
        """Rows, the tables at their next token, and that token: every token of every completion.

        Each distinct prompt is read once, and its completions continue from its key-value cache.
        Positions of a row come in order, and the models are running meanwhile.
        """
        distinct, index = _distinct(prompts)
        sizes = np.array([len(prompt) for prompt in distinct], dtype=np.int64)
        model = self.models[0]
        with self.running(distinct[0]):
            for packed in pack_rows(np.zeros_like(sizes), sizes, self.batch_tokens):
                read = np.sort(packed)
                prompt, mask = model.pad_prompts([distinct[k] for k in read])
                first, caches = self.forward(prompt, mask, 1, None, keep=True)
                group = np.flatnonzero(np.isin(index, read))
                prefix = np.full(len(group), mask.shape[1])  # all prompts are padded to this
                for members in pack_rows(prefix, lengths[group], self.batch_tokens):
                    rows = group[members]
                    place = torch.as_tensor(np.searchsorted(read, index[rows]), device=self.device)
                    width = int(lengths[rows].max())
                    tokens, present = model.pad_completions(actions[rows], width)
                    where = torch.as_tensor(rows, device=self.device)
                    yield where, first(0, place), tokens[:, 0]
                    if width == 1:
                        continue
                    longer = torch.cat([mask[place], present[:, :-1].long()], dim=1)
                    mine = self.select(caches, place, len(read))
                    later, _ = self.forward(tokens[:, :-1], longer, width - 1, mine)
                    for column in range(1, width):
                        here = torch.nonzero(present[:, column])[:, 0]
                        yield where[here], later(column - 1, here), tokens[here, column]


class Drawing:
    """Completions that are being drawn; `step` draws the next token of each unfinished one.

    Every call must be made while the models are running. A prompt that occurs several times is
    read once.
    """

    def __init__(
        self, lanes: Lanes, prompts: Sequence[Prompt], width: int, ends: Tokens, log_table: LogTable
    ) -> None:
        self._lanes, self._log_table = lanes, log_table
        distinct, index = _distinct(prompts)
        place = torch.as_tensor(index, device=lanes.device)
        tokens, mask = lanes.models[0].pad_prompts(distinct)
        tables, caches = lanes.forward(tokens, mask, 1, None, keep=True)
        self._tables = tables(0, place)
        self._caches, self._mask = lanes.select(caches, place, len(distinct)), mask[place]
        self._ends = torch.as_tensor(ends, device=lanes.device)
        self._active = torch.arange(len(prompts), device=lanes.device)
        shape = (len(prompts), width)
        self._tokens = torch.full(shape, PADDING, dtype=torch.long, device=lanes.device)
        self._scores = torch.zeros(len(prompts), dtype=torch.float64, device=lanes.device)
        self.position = 0

    @property
    def tokens(self) -> Tokens:
        """The completions so far."""
        return np.asarray(self._tokens.cpu().numpy())

    @property
    def scores(self) -> Any:
        """Their log-probabilities so far."""
        return self._scores.cpu().numpy()

    def step(self, rng: np.random.Generator) -> bool:
        """Draw one token of every unfinished completion; False where that finished the last."""
        table = self._log_table(self._tables).double()
        drawn = draw_tokens(table, rng)
        self._tokens[self._active, self.position] = drawn
        self._scores[self._active] += table.gather(1, drawn[:, None])[:, 0]
        self.position += 1
        unfinished = ~torch.isin(drawn, self._ends)
        if self.position == self._tokens.shape[1] or not unfinished.any():
            return False
        if not unfinished.all():  # finished rows leave the batch
            keep = torch.nonzero(unfinished)[:, 0]
            self._caches = self._lanes.select(self._caches, keep, len(drawn))
            drawn, self._active, self._mask = drawn[keep], self._active[keep], self._mask[keep]
        self._mask = torch.cat([self._mask, torch.ones_like(drawn[:, None])], dim=1)
        tables, _ = self._lanes.forward(drawn[:, None], self._mask, 1, self._caches)
        self._tables = tables(0, torch.arange(len(drawn), device=self._lanes.device))
        return True


def draw_tokens(log_table: Any, rng: np.random.Generator) -> Any:
    """One token per row, by inverting the cumulative probabilities.

    The uniform numbers come from numpy, so no global state is touched, and both they and the
    cumulative sums are in double precision: a token of probability zero is never drawn.
    """
    cumulative = log_table.exp().cumsum(dim=1)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise ValueError("cannot sample: the model's logits contain NaN or inf")
    uniform = torch.as_tensor(rng.random(len(cumulative)), device=cumulative.device)
    level = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, level, right=True)[:, 0]


def pack_rows(prefix_lengths: Integers, lengths: Integers, max_tokens: int) -> Iterator[Integers]:
    """Indices of rows, batch by batch: row i adds `lengths[i]` tokens to `prefix_lengths[i]`.

    A batch has at most `max_tokens` tokens including padding, unless a single row has more.
    """
    order = np.lexsort((lengths, prefix_lengths))
    start, widest = 0, (0, 0)
    for position, row in enumerate(order):
        size = int(prefix_lengths[row]), int(lengths[row])
        wider = max(widest[0], size[0]), max(widest[1], size[1])
        if position > start and (position + 1 - start) * sum(wider) > max_tokens:
            yield order[start:position]
            start, wider = position, size
        widest = wider
    if len(order):
        yield order[start:]


def _distinct(prompts: Sequence[Prompt]) -> tuple[list[Prompt], Integers]:
    """The distinct prompts, and the index of each row's prompt among them."""
    known: dict[Prompt, int] = {}
    index = [known.setdefault(prompt, len(known)) for prompt in prompts]
    return list(known), np.array(index, dtype=np.int64)
