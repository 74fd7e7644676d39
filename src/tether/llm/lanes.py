"""Local models in batches: which are supported, one pass through them, walks and draws.

Everything that draws or scores with local models is here, for one policy or several that read the
same tokens, in one pass each. A batch is as wide as its widest row, so rows of similar length share
one, and a prompt that several rows have is read once. Prompts are padded on the left and
completions on the right, so that all completions start in the same column.

A model is supported if it scores a row in a batch as it scores it alone; the scores of others would
be silently wrong. Some are refused when a policy is made, the rest when they read a prompt.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from tether._core.arrays import Floats, Integers
from tether.llm.adapters import base_model, check_usable, checksums, evaluating, use_adapter
from tether.llm.completions import PADDING, Prompt, Tokens, pad_rows

Tables: TypeAlias = list[Any]
"""The log-probabilities of the next token (rows × vocabulary) under each policy."""
CONTEXT_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
"""The configuration fields that may state the context length, in order of preference."""
CACHED_LAYERS = {DynamicLayer, DynamicSlidingWindowLayer}
"""The kinds of layers of a cache that batches can be continued from."""
LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
"""Rotary embeddings that change for all tokens of a batch once a sequence exceeds a length."""

_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_locks_guard = Lock()


@dataclass(frozen=True)
class LocalModel:
    """A model with one of its adapters, or with none, and the weights that they had."""

    model: Any
    adapter: str | None
    temperature: float
    batch_tokens: int
    weights: tuple[int, ...]

    def check_unchanged(self) -> None:
        """Refuse a model whose weights have changed since its policy was made."""
        names = ("the model's weights", f"the weights of adapter {self.adapter!r}")
        now = checksums(self.model, self.adapter)
        for name, before, after in zip(names, self.weights, now, strict=False):
            if before != after:
                raise ValueError(
                    f"{name} changed since this policy was made (trained, merged, loaded): make a "
                    "policy when its weights are final, each with its own weights or adapter"
                )

    def forward(
        self, tokens: Any, mask: Any, columns: int, cache: Any = None, *, keep_cache: bool = False
    ) -> tuple[Any, Any]:
        """The logits of the last columns, and the cache of keys and values."""
        device = self.model.device
        tokens, mask = tokens.to(device), mask.to(device)
        accepted = inspect.signature(base_model(self.model).forward).parameters
        options: dict[str, Any] = {"use_cache": keep_cache or cache is not None}
        if "position_ids" in accepted:
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            options["position_ids"] = positions[:, -tokens.shape[1] :]
        if "logits_to_keep" in accepted:
            options["logits_to_keep"] = columns
        if cache is not None:
            options["past_key_values"] = cache
        use_adapter(self.model, self.adapter)
        output = self.model(input_ids=tokens, attention_mask=mask, **options)
        made = getattr(output, "past_key_values", None)
        if keep_cache:
            self._check_cache(made)
        return output.logits[:, -columns:], made

    def _check_cache(self, cache: Any) -> None:
        """Refuse a model that cannot continue batches from a key-value cache."""
        kinds = {type(layer) for layer in getattr(cache, "layers", None) or ()}
        if type(cache) is not DynamicCache or not kinds <= CACHED_LAYERS:
            model = base_model(self.model)
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            returned = f"a {type(cache).__name__} of {names}" if kinds else "no cache"
            raise TypeError(
                f"{type(model).__name__} ({model.config.model_type}) returns {returned}: every "
                "layer must cache keys and values, in full or a sliding window, none be recurrent"
            )


class Lanes:
    """Policies whose next tokens are wanted after the same prefixes."""

    def __init__(self, *models: LocalModel) -> None:
        self.models, self.device = models, models[0].model.device  # where tokens and tables are
        self.batch_tokens = min(each.batch_tokens for each in models)

    @contextmanager
    def running(self, *, verify: bool = True) -> Iterator[None]:
        """Run the models without gradients and dropout, one caller at a time; then restore them.

        Models whose weights changed are refused. They are always locked in the same order.
        """
        with ExitStack() as stack:
            for each in sorted(self.models, key=lambda each: id(base_model(each.model))):
                with _locks_guard:
                    lock = _locks.setdefault(base_model(each.model), RLock())
                stack.enter_context(lock)
                check_usable(each.model, each.adapter)
                if verify:
                    each.check_unchanged()
                stack.enter_context(evaluating(each.model))
                stack.enter_context(torch.inference_mode())
                stack.enter_context(torch.autocast(each.model.device.type, enabled=False))
            yield

    def forward(
        self, tokens: Any, mask: Any, columns: int, caches: list[Any] | None, *, keep: bool = False
    ) -> tuple[Callable[[int, Any], Tables], list[Any]]:
        """The tables of some rows at one of the last columns, and the key-value caches."""
        made = [
            model.forward(tokens, mask, columns, cache, keep_cache=keep)
            for model, cache in zip(self.models, caches or [None] * len(self.models), strict=True)
        ]

        def tables(column: int, rows: Any) -> Tables:  # one at a time: all would be large
            of_each = zip(self.models, (logits for logits, _ in made), strict=True)
            here = ((model, logits[rows.to(logits.device), column]) for model, logits in of_each)
            single = ((each.float() / model.temperature) for model, each in here)
            return [torch.log_softmax(each, dim=-1).to(self.device) for each in single]

        return tables, [cache for _, cache in made]

    def select(self, caches: list[Any], rows: Any) -> list[Any]:
        """The caches of some rows; the originals are left unchanged."""
        selected = []
        for cache in caches:
            mine = copy(cache)
            mine.layers = [copy(layer) for layer in cache.layers]
            mine.batch_select_indices(rows.to(cache.layers[0].keys.device))
            selected.append(mine)
        return selected

    def walk(
        self, prompts: Sequence[Prompt], actions: Tokens, lengths: Integers
    ) -> Iterator[tuple[Any, Tables, Any]]:
        """Rows, the tables at their next token, and that token: every token of every completion."""
        distinct, index = _distinct(prompts)
        sizes = np.array([len(prompt) for prompt in distinct], dtype=np.int64)
        with self.running():
            for packed in pack_rows(np.zeros_like(sizes), sizes, self.batch_tokens):
                read = np.sort(packed)
                prompt, mask = pad_prompts([distinct[k] for k in read], self.device)
                first, caches = self.forward(prompt, mask, 1, None, keep=True)
                group = np.flatnonzero(np.isin(index, read))
                prefix = np.full(len(group), mask.shape[1])  # all prompts are padded to this
                for members in pack_rows(prefix, lengths[group], self.batch_tokens):
                    rows = group[members]
                    place = torch.as_tensor(np.searchsorted(read, index[rows]), device=self.device)
                    width = int(lengths[rows].max())
                    tokens, present = _pad_completions(actions[rows, :width], self.device)
                    where = torch.as_tensor(rows, device=self.device)
                    yield where, first(0, place), tokens[:, 0]
                    if width == 1:
                        continue
                    longer = torch.cat([mask[place], present[:, :-1].long()], dim=1)
                    mine = self.select(caches, place)
                    later, _ = self.forward(tokens[:, :-1], longer, width - 1, mine)
                    for column in range(1, width):
                        here = torch.nonzero(present[:, column])[:, 0]
                        yield where[here], later(column - 1, here), tokens[here, column]

    def draw(
        self,
        prompts: Sequence[Prompt],
        width: int,
        ends: Tokens,
        log_table: Callable[[Tables], Any],
        rng: np.random.Generator,
    ) -> Iterator[tuple[Integers, Tokens, Floats]]:
        """Draw completions token by token: unfinished rows, their next tokens, log-probabilities.

        `log_table` turns the tables of several policies into that of one. The models must be
        running whenever the next token is asked for.
        """
        distinct, index = _distinct(prompts)
        place = torch.as_tensor(index, device=self.device)
        tokens, mask = pad_prompts(distinct, self.device)
        tables, caches = self.forward(tokens, mask, 1, None, keep=True)
        caches, mask = self.select(caches, place), mask[place]
        rows, at_end = np.arange(len(prompts)), torch.as_tensor(ends, device=self.device)
        for later in range(width - 1, -1, -1):
            table = log_table(tables(0, place)).double()
            drawn = draw_tokens(table, rng)
            scores = table.gather(1, drawn[:, None])[:, 0]
            yield rows, drawn.cpu().numpy(), scores.cpu().numpy()
            keep = torch.nonzero(~torch.isin(drawn, at_end))[:, 0]
            if not later or not len(keep):
                return
            if len(keep) < len(drawn):  # finished rows leave the batch
                caches = self.select(caches, keep)
                drawn, mask, rows = drawn[keep], mask[keep], rows[keep.cpu().numpy()]
            mask = torch.cat([mask, torch.ones_like(drawn[:, None])], dim=1)
            tables, _ = self.forward(drawn[:, None], mask, 1, caches)
            place = torch.arange(len(drawn), device=self.device)


def draw_tokens(log_table: Any, rng: np.random.Generator) -> Any:
    """One token per row, by inverting the cumulative probabilities; none of probability zero."""
    cumulative = log_table.exp().cumsum(dim=1)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise ValueError("cannot sample: the model's logits contain NaN or inf")
    uniform = torch.as_tensor(rng.random(len(cumulative)), device=cumulative.device)
    level = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, level, right=True)[:, 0]


def pack_rows(prefix_lengths: Integers, lengths: Integers, max_tokens: int) -> Iterator[Integers]:
    """Indices of rows, in batches of at most `max_tokens` tokens with padding, or of one row."""
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


def pad_prompts(prompts: Sequence[Prompt], device: Any) -> tuple[Any, Any]:
    """Prompts padded on the left, and the attention mask."""
    reversed_rows = pad_rows([prompt[::-1] for prompt in prompts], max(map(len, prompts)))
    tokens = torch.as_tensor(reversed_rows[:, ::-1].copy(), device=device)
    mask = (tokens != PADDING).long()
    return tokens.masked_fill(mask == 0, 0), mask


def _pad_completions(actions: Tokens, device: Any) -> tuple[Any, Any]:
    """Completions padded on the right, and where they have tokens."""
    tokens = torch.as_tensor(actions, device=device)
    present = tokens != PADDING
    return tokens.masked_fill(~present, 0), present


def check_causal_model(model: Any) -> int:
    """The vocabulary size of a causal language model; anything else is refused."""
    inner = base_model(model) if isinstance(model, torch.nn.Module) else None
    config: Any = getattr(inner, "config", None)
    head: Any = getattr(inner, "get_output_embeddings", lambda: None)()
    if config is None or head is None or getattr(config, "is_encoder_decoder", False):
        raise TypeError(
            f"model must be a loaded causal language model of transformers, a decoder with a head, "
            f"got {model!r:.80}"
        )
    if any(hasattr(each, "_orig_mod") for each in (model, inner)):
        raise TypeError("model is wrapped by torch.compile: compile it in place, model.compile()")
    return int(head.weight.shape[0])


def find_context_length(model: Any) -> int | None:
    """The context length that a configuration states, or where embeddings change, if less."""
    config = base_model(model).config.get_text_config(decoder=True)
    limits: list[Any] = [getattr(config, name, None) for name in CONTEXT_LENGTH_FIELDS]
    ropes: list[Any] = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
    ropes = [each for each in ropes if isinstance(each, dict)]
    ropes += [each for outer in ropes for each in outer.values() if isinstance(each, dict)]
    for rope in ropes:  # stated once, or for each type of layer
        if rope.get("rope_type", rope.get("type")) in LENGTH_DEPENDENT_ROPE:
            field = "original_max_position_embeddings"
            limits.append(rope.get(field) or getattr(config, field, None))
    return min((each for each in limits if type(each) is int and each > 0), default=None)
