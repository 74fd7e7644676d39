"""A causal language model of `transformers` as a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Actions, Contexts, Floats
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import (
    Tokenizer,
    Tokens,
    as_end_token_ids,
)
from tether.llm.local.adapters import base_model, can_mix_adapters, check_adapter, unwrapped
from tether.llm.local.batched_model import BatchedModel
from tether.llm.local.likely_tokens import likely_tokens
from tether.llm.local.sampler import sample_completions
from tether.llm.local.scorer import score_completions
from tether.llm.local.supported_models import check_causal_model, find_context_length
from tether.llm.local.weight_checksum import WeightChecksum, record_checksum
from tether.llm.token_tables import TokenTables
from tether.policies.policy import Policy

DEFAULT_BATCH_TOKENS = 4096
"""Tokens that pass through the model at once, by default."""


class CausalPolicy(CompletionPolicy):
    """A causal language model of `transformers` as a policy over completions of prompts.

    Contexts are texts, or rows of token ids padded with −1. An action is a row of `max_new_tokens`
    token ids: the generated tokens, including the end-of-sequence token, followed by −1. A
    completion that was cut off has no end-of-sequence token and the probability of its tokens, so
    the probabilities of all completions sum to one.

    Draws and scores are of one distribution: the softmax at `temperature` over the full vocabulary,
    in single precision. Of the model's `generation_config` only the end-of-sequence tokens are
    used: no top_k, no top_p, no penalties.

    A policy is its weights: it is refused if they changed since it was made, as is a model whose
    scores would depend on how rows are batched.

    Parameters
    ----------
    model : torch.nn.Module
        A loaded causal language model of `transformers`, a `PeftModel` around one, or either of
        them compiled.
    tokenizer : Tokenizer or None
        The tokenizer of the model; None if prompts are token ids and texts are not needed.
    adapter : str or None, optional
        The name of a PEFT adapter of the model. None is the model without any adapter, so that one
        set of weights serves as safe and as optimized policy.
    temperature : float, default 1.0
        The softmax temperature, positive and finite.
    max_new_tokens : int, default 64
        The largest number of tokens of a completion.
    eos_token_id : int or sequence of int or None, optional
        The end-of-sequence tokens; None takes those of the model's `generation_config`, of its
        configuration or of the tokenizer, in this order.
    add_special_tokens : bool, default False
        Whether the tokenizer adds its special tokens to prompts that are texts.
    batch_tokens : int, optional
        How many tokens pass through the model at once, including padding.

    Raises
    ------
    TypeError
        If the model is not a supported causal language model.
    ValueError
        If the adapter does not exist or cannot be used, or a setting is out of range.

    Examples
    --------
    >>> safe = CausalPolicy(model, tokenizer, max_new_tokens=48)  # doctest: +SKIP
    >>> optimized = CausalPolicy(  # doctest: +SKIP
    ...     model, tokenizer, adapter="tuned", max_new_tokens=48
    ... )
    >>> actions = safe.sample(["What is a tether?"], rng)  # doctest: +SKIP
    >>> safe.texts(actions)  # doctest: +SKIP
    """

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
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self.max_new_tokens = validate.integer_at_least("max_new_tokens", max_new_tokens)
        self.add_special_tokens = bool(add_special_tokens)
        vocabulary_size = check_causal_model(model)
        self.vocabulary_size = vocabulary_size
        self.adapter = check_adapter(unwrapped(model), adapter)
        self.end_token_ids = _find_end_tokens(model, tokenizer, eos_token_id, vocabulary_size)
        self.context_length = find_context_length(base_model(model).config)
        self._checksum = record_checksum(unwrapped(model), self.adapter)
        self._batched = BatchedModel(
            model, self.temperature, validate.integer_at_least("batch_tokens", batch_tokens)
        )

    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities of the draws."""
        validate.generator("rng", rng)
        return sample_completions(
            self._batched,
            self.prompts(contexts),
            self.max_new_tokens,
            self.end_token_ids,
            rng,
            self._checksum,
        )

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion; refused if the weights changed."""
        return self._scores(contexts, actions, [self._checksum])[:, 0]

    def log_prob_both(
        self, other: Policy, contexts: Contexts, actions: Actions
    ) -> tuple[Floats, Floats]:
        """Score completions under this policy and another, in shared passes where possible.

        Parameters
        ----------
        other : Policy
            The other policy; passes are shared if it `shares_weights`.
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.
        actions : array_like of int, shape (n, max_new_tokens)
            One completion per prompt.

        Returns
        -------
        own : numpy.ndarray of float, shape (n,)
            The log-probabilities under this policy.
        others : numpy.ndarray of float, shape (n,)
            The log-probabilities under the other policy.
        """
        if not (isinstance(other, CausalPolicy) and self.shares_weights(other)):
            return self.log_prob(contexts, actions), other.log_prob(contexts, actions)
        scores = self._scores(contexts, actions, [self._checksum, other._checksum])
        return scores[:, 0], scores[:, 1]

    def shares_weights(self, other: object) -> bool:
        """Tell whether another policy is the same model and settings with another adapter.

        Parameters
        ----------
        other : object
            The other policy.

        Returns
        -------
        bool
            True if `log_prob_both` scores the two in the same passes.
        """
        return (
            isinstance(other, CausalPolicy)
            and other.model is self.model
            and other.tokenizer is self.tokenizer
            and other.adapter != self.adapter
            and other.temperature == self.temperature
            and other.max_new_tokens == self.max_new_tokens
            and np.array_equal(other.end_token_ids, self.end_token_ids)
            and other.add_special_tokens == self.add_special_tokens
            and can_mix_adapters(unwrapped(self.model))
        )

    def token_tables(self, contexts: Contexts, actions: Actions) -> TokenTables:
        """Find the likeliest tokens at every position of completions."""
        prompts, completions, lengths = self._tokenized(contexts, actions)
        return likely_tokens(self._batched, prompts, completions, lengths, self._checksum)

    def __repr__(self) -> str:
        return (
            f"CausalPolicy({self.model.config.model_type}, adapter={self.adapter!r}, "
            f"temperature={self.temperature:g}, max_new_tokens={self.max_new_tokens})"
        )

    def _scores(
        self, contexts: Contexts, actions: Actions, checksums: list[WeightChecksum]
    ) -> Floats:
        prompts, completions, lengths = self._tokenized(contexts, actions)
        return score_completions(self._batched, prompts, completions, lengths, checksums)


def _find_end_tokens(
    model: Any,
    tokenizer: Tokenizer | None,
    eos_token_id: int | Sequence[int] | None,
    vocabulary_size: int,
) -> Tokens:
    """The end-of-sequence tokens that were passed, or else those of the model or tokenizer."""
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        if eos_token_id is None:
            eos_token_id = getattr(source, "eos_token_id", None)
    end_token_ids = as_end_token_ids(eos_token_id)
    if end_token_ids.max() >= vocabulary_size:
        raise ValueError(
            f"eos_token_id {end_token_ids.max()} is outside the vocabulary of {vocabulary_size}"
        )
    return end_token_ids
