"""A causal language model of `transformers` as a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether._core import policy_calls, validate
from tether._core.contexts import as_contexts
from tether._core.types import Floats
from tether.llm import completions
from tether.llm.completion_policy import Completing
from tether.llm.completions import Tokens, whole
from tether.llm.local import supported_models
from tether.llm.local.adapters import base_model, chosen, mixes, unwrapped
from tether.llm.local.context_length import context_length
from tether.llm.local.runner import Runner
from tether.llm.local.sampler import sample
from tether.llm.local.scorer import score
from tether.llm.local.weight_checksum import Weights, weights_of
from tether.llm.prompts import Prompt, token_prompts

MOST_TOKENS = 4096
"""Tokens that go through the model at once, unless said otherwise."""


class CausalPolicy(Completing):
    """A language model that answers prompts; its actions are completions, arrays of token ids.

    Contexts are texts, or rows of token ids filled with −1. An action is a row of `max_new_tokens`
    ids: what was generated, its end-of-sequence token included, and then −1. A completion that was
    cut off has no end and is as likely as its tokens: all probabilities sum to one.

    Draws and scores are of one distribution: softmax at `temperature`, in single precision, over
    the whole vocabulary. Nothing of the model's `generation_config` but its end tokens is used: no
    top_k, no top_p, no penalty. `adapter` names a PEFT adapter of the model; None is the model
    without any, so one set of weights makes a safe and an optimized policy. A policy is its
    weights: one whose weights changed since it was made is refused, as is a model whose scores
    would depend on its batches.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        adapter: str | None = None,
        temperature: float = 1.0,
        max_new_tokens: int = 64,
        eos_token_id: int | Sequence[int] | None = None,
        add_special_tokens: bool = False,
        batch_tokens: int = MOST_TOKENS,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.temperature = validate.number("temperature", temperature, above=0, below=np.inf)
        self.max_new_tokens = whole("max_new_tokens", max_new_tokens)
        self.add_special_tokens = bool(add_special_tokens)
        self.vocabulary: int = supported_models.causal(model)
        self.adapter = chosen(unwrapped(model), adapter)
        self.ends = _ends(model, tokenizer, eos_token_id, self.vocabulary)
        self.context_length = context_length(base_model(model).config)
        self._weights = weights_of(unwrapped(model), self.adapter)
        self._runner = Runner(model, self.temperature, whole("batch_tokens", batch_tokens))

    def sample(self, contexts: Any, rng: np.random.Generator) -> Tokens:
        """A completion of each prompt."""
        return self.sample_scored(contexts, rng)[0]

    def sample_scored(self, contexts: Any, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Completions, and the log-probabilities with which they were drawn, token by token.

        They differ from `log_prob` by rounding alone; `preflight` measures by how much.
        """
        policy_calls.generator(rng)
        prompts = self.prompts(contexts)
        return sample(self._runner, prompts, self.max_new_tokens, self.ends, rng, self._weights)

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability of each completion: a sum over its tokens, never an average."""
        return self._scores(contexts, actions, [self._weights])[:, 0]

    def log_prob_both(self, other: Any, contexts: Any, actions: Any) -> tuple[Floats, Floats]:
        """Scores under this policy and another; in the same passes where they share weights."""
        if not self.shares_weights(other):
            return self.log_prob(contexts, actions), other.log_prob(contexts, actions)
        scores = self._scores(contexts, actions, [self._weights, other._weights])
        return scores[:, 0], scores[:, 1]

    def shares_weights(self, other: Any) -> bool:
        """Whether another policy is the same model, asked alike, with another adapter."""
        return (
            isinstance(other, CausalPolicy)
            and other.model is self.model
            and other.tokenizer is self.tokenizer
            and other.adapter != self.adapter
            and other.temperature == self.temperature
            and other.max_new_tokens == self.max_new_tokens
            and np.array_equal(other.ends, self.ends)
            and other.add_special_tokens == self.add_special_tokens
            and mixes(unwrapped(self.model))
        )

    def prompts(self, contexts: Any) -> list[Prompt]:
        """The token ids that the model sees for each context."""
        room = self.context_length
        return token_prompts(
            contexts,
            self.tokenizer,
            special=self.add_special_tokens,
            most=None if room is None else room - self.max_new_tokens,
            vocabulary=self.vocabulary,
        )

    def __repr__(self) -> str:
        return (
            f"CausalPolicy({self.model.config.model_type}, adapter={self.adapter!r}, "
            f"temperature={self.temperature:g}, max_new_tokens={self.max_new_tokens})"
        )

    def _scores(self, contexts: Any, actions: Any, weights: list[Weights]) -> Floats:
        actions = self._checked(actions)
        prompts = self.prompts(as_contexts(contexts, actions))
        return score(self._runner, prompts, actions, completions.lengths(actions), weights)


def _ends(model: Any, tokenizer: Any, given: Any, vocabulary: int) -> Tokens:
    found = given
    for owner in (getattr(model, "generation_config", None), model.config, tokenizer):
        if found is None:
            found = getattr(owner, "eos_token_id", None)
    ends = completions.end_tokens(found)
    if ends.max() >= vocabulary:
        raise ValueError(f"eos_token_id {ends.max()} is outside of the vocabulary of {vocabulary}")
    return ends
