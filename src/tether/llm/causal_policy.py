"""A causal language model of `transformers` as a policy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tether._core import progress, validate
from tether._core.arrays import Actions, Contexts, Floats, Integers
from tether.llm.adapters import check_adapter, checksums
from tether.llm.completions import (
    PADDING,
    CompletionPolicy,
    Prompt,
    Tokenizer,
    Tokens,
    as_end_token_ids,
    check_folder,
    load_tokenizer,
)
from tether.llm.lanes import (
    Lanes,
    LocalModel,
    Tables,
    check_causal_model,
    find_context_length,
    pack_rows,
)


class LocalPolicy(CompletionPolicy):
    """A policy from the tables of local models: one of them, or two that are tethered."""

    _lanes: Lanes

    @abstractmethod
    def _log_table(self, tables: Tables) -> Any:
        """The log-probability of every token (rows × vocabulary) from those of the models."""

    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities of the draws."""
        validate.generator("rng", rng)
        prompts = self.prompts(contexts)
        actions = np.full((len(prompts), self.max_new_tokens), PADDING, dtype=np.int64)
        scores = np.zeros(len(prompts))
        sizes = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
        widths = np.full_like(sizes, self.max_new_tokens)
        drawn = progress.step("drawing completions", total=len(prompts))
        with self._lanes.running(), drawn as advance:
            for rows in pack_rows(sizes, widths, self._lanes.batch_tokens):
                drawing = self._draw([prompts[row] for row in rows], rng)
                for column, (unfinished, tokens, log_probs) in enumerate(drawing):
                    actions[rows[unfinished], column] = tokens
                    scores[rows[unfinished]] += log_probs
                advance(len(rows))
        return actions, scores

    def stream(self, contexts: Contexts, rng: np.random.Generator) -> Iterator[Tokens]:
        """Draw one completion per prompt and yield its tokens one by one.

        The models are free for other callers between two tokens. For one prompt the draws are
        those of `sample` with the same generator; −1 stands for completions that have ended.
        """
        validate.generator("rng", rng)
        prompts = self.prompts(contexts)
        drawing = self._draw(prompts, rng)
        for column in range(self.max_new_tokens):
            with self._lanes.running(verify=not column):
                unfinished, drawn, _ = next(drawing, (None, None, None))
            if unfinished is None:
                return
            tokens = np.full(len(prompts), PADDING)
            tokens[unfinished] = drawn
            yield tokens

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion; refused if the weights changed."""

        def scored(tables: Tables, tokens: Any) -> Any:
            return self._log_table(tables).gather(1, tokens[:, None]).double()

        return sum_over_tokens(self._lanes, *self._tokenized(contexts, actions), scored)[:, 0]

    def _draw(
        self, prompts: list[Prompt], rng: np.random.Generator
    ) -> Iterator[tuple[Integers, Tokens, Floats]]:
        width, ends = self.max_new_tokens, self.end_token_ids
        return self._lanes.draw(prompts, width, ends, self._log_table, rng)


def sum_over_tokens(
    lanes: Lanes, prompts: list[Prompt], actions: Tokens, lengths: Any, scores: Any
) -> Floats:
    """Sums over the tokens of completions of what `scores(tables, tokens)` says of each token."""
    total: Any = None
    with progress.step("scoring completions", total=float(lengths.sum())) as advance:  # in tokens
        for rows, tables, tokens in lanes.walk(prompts, actions, lengths):
            found = scores(tables, tokens)
            if total is None:
                total = found.new_zeros((len(actions), found.shape[1]))
            total[rows] += found
            advance(len(rows))
    summed = np.asarray(total.cpu().numpy())
    if np.isnan(summed).any():
        raise ValueError(
            f"the scores are NaN for {int(np.isnan(summed).any(axis=1).sum())} of {len(summed)} "
            f"completions: the model's logits contain NaN or inf"
        )
    return summed


class CausalPolicy(LocalPolicy):
    """A causal language model of `transformers` as a policy over completions of prompts.

    Contexts are texts, or rows of token ids padded with −1; an action is a row of `max_new_tokens`
    token ids, padded with −1 after its end-of-sequence token.

    Draws and scores are of one distribution: the softmax at `temperature` over the full vocabulary,
    without top_k, top_p and penalties. A policy is its weights: it is refused if they changed since
    it was made, as is a model whose scores would depend on how rows are batched.

    Parameters
    ----------
    model : torch.nn.Module
        A loaded causal language model, or a `PeftModel` around one.
    tokenizer : Tokenizer or None
        The tokenizer of the model; None if prompts are token ids and texts are not needed.
    adapter : str or None, optional
        The name of a PEFT adapter of the model. None is the model without any adapter, so that one
        set of weights serves as both the safe and the optimized policy.
    temperature : float, default 1.0
        The softmax temperature, positive and finite.
    max_new_tokens : int, default 64
        The largest number of tokens of a completion.
    eos_token_id : int or sequence of int or None, optional
        The end-of-sequence tokens; None takes those of the model's `generation_config`, of its
        configuration or of the tokenizer, in this order.
    add_special_tokens : bool, default False
        Whether the tokenizer adds its special tokens to prompts that are texts.
    batch_tokens : int, default 4096
        How many tokens pass through the model at once, including padding.

    Examples
    --------
    >>> safe = CausalPolicy(model, tokenizer)  # doctest: +SKIP
    >>> optimized = CausalPolicy(model, tokenizer, adapter="tuned")  # doctest: +SKIP
    >>> safe.texts(safe.sample(["What is a tether?"], rng))  # doctest: +SKIP
    """

    vocabulary_size: int

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer | None,
        *,
        adapter: str | None = None,
        temperature: float = 1.0,
        max_new_tokens: int = 64,
        eos_token_id: int | Sequence[int] | None = None,
        add_special_tokens: bool = False,
        batch_tokens: int = 4096,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self.max_new_tokens = validate.integer("max_new_tokens", max_new_tokens)
        self.add_special_tokens = bool(add_special_tokens)
        self.vocabulary_size = check_causal_model(model)
        self.adapter = check_adapter(model, adapter)
        for source in (getattr(model, "generation_config", None), model.config, tokenizer):
            if eos_token_id is None:
                eos_token_id = getattr(source, "eos_token_id", None)
        self.end_token_ids = as_end_token_ids(eos_token_id, self.vocabulary_size)
        self.context_length = find_context_length(model)
        at_once, weights = validate.integer("batch_tokens", batch_tokens), checksums(model, adapter)
        self.local = LocalModel(model, adapter, self.temperature, at_once, weights)
        self._lanes = Lanes(self.local)

    @property
    def fingerprint(self) -> str:
        """What tells this policy from another one: checksums of its weights, and its settings."""
        self.local.check_unchanged()
        weights = "+".join(f"{each:016x}" for each in self.local.weights)
        settings = f"{self.temperature!r} {self.max_new_tokens} {self.end_token_ids.tolist()}"
        return f"causal {weights} {settings} {self.add_special_tokens}"

    def __repr__(self) -> str:
        return (
            f"CausalPolicy({self.model.config.model_type}, adapter={self.adapter!r}, "
            f"temperature={self.temperature:g}, max_new_tokens={self.max_new_tokens})"
        )

    def _log_table(self, tables: Tables) -> Any:
        return tables[0]


def load_policies(
    safe: str, optimized: str, tokenizer: str | None, options: dict[str, Any]
) -> tuple[CausalPolicy, CausalPolicy]:
    """Both policies from local folders; an adapter shares the safe model's weights."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    for name, folder in (("--safe", safe), ("--optimized", optimized)):
        check_folder(name, folder)
    words = load_tokenizer("--tokenizer", tokenizer or safe)
    model: Any = AutoModelForCausalLM.from_pretrained(safe, dtype="auto")
    if (Path(optimized) / "adapter_config.json").is_file():
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, optimized, adapter_name="optimized")
        tuned = CausalPolicy(model, words, adapter="optimized", **options)
        return CausalPolicy(model, words, **options), tuned
    other = AutoModelForCausalLM.from_pretrained(optimized, dtype="auto")
    own_words = words if tokenizer else load_tokenizer("--optimized", optimized)
    return CausalPolicy(model, words, **options), CausalPolicy(other, own_words, **options)
