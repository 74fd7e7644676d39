"""The common base of policies whose actions are completions, local or on a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from tether._core.arrays import Actions, Booleans, Contexts, Floats, Integers
from tether._core.contexts import as_contexts
from tether.llm import completions
from tether.llm.completions import Prompt, Tokenizer, Tokens


class CompletionPolicy(ABC):
    """A policy whose actions are completions of at most `max_new_tokens` tokens.

    Contexts are prompts: texts, or rows of token ids padded with −1. An action is a row of
    `max_new_tokens` token ids: the generated tokens, including the end-of-sequence token, followed
    by −1. A completion that was cut off has no end-of-sequence token and the probability of its
    tokens, so the probabilities of all completions sum to one.
    """

    tokenizer: Tokenizer | None
    max_new_tokens: int
    end_token_ids: Tokens
    add_special_tokens: bool
    context_length: int | None
    vocabulary_size: int | None = None
    _tokens_beyond_completion: ClassVar[int] = 0  # what must fit the context as well

    @abstractmethod
    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities stated by the sampler.

        They differ from `log_prob` by rounding only, which `preflight` measures, and are NaN where
        a server states none.
        """

    @abstractmethod
    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion: the sum of the log-probabilities of its tokens, with its end."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What tells this policy from another one, also after a restart."""

    def rescoring(self) -> Self:
        """Return a policy whose `log_prob` never takes the sampler's word for a score."""
        return self

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> Tokens:
        """Draw one completion per prompt, padded with −1 after its end-of-sequence token."""
        return self.sample_scored(contexts, rng)[0]

    def prompts(self, contexts: Contexts) -> list[Prompt]:
        """Return the token ids that the model sees for each context, without padding."""
        room = self.context_length
        reserved = self.max_new_tokens + self._tokens_beyond_completion
        if room is not None and reserved >= room:
            raise ValueError(
                f"max_new_tokens = {self.max_new_tokens} leaves no room for a prompt in the "
                f"model's context length of {room} tokens"
            )
        return completions.token_prompts(
            contexts,
            self.tokenizer,
            add_special_tokens=self.add_special_tokens,
            max_length=None if room is None else room - reserved,
            vocabulary_size=self.vocabulary_size,
        )

    def texts(self, actions: Actions) -> list[str]:
        """Decode completions, without their ends, for reading; what is scored are token ids."""
        if self.tokenizer is None:
            raise ValueError("tokenizer is None: a tokenizer is needed to decode token ids")
        contents = (
            completions.content_tokens(row, self.end_token_ids) for row in self._checked(actions)
        )
        return [completions.decode_text(self.tokenizer, each) for each in contents]

    def completions(self, texts: Sequence[str]) -> Tokens:
        """Encode texts as completions that ended, each with the first of `end_token_ids`.

        Assumes that the texts were generated as these very tokens: the same text in other tokens
        is a different action.
        """
        return completions.encode_completions(
            texts, self.tokenizer, self.max_new_tokens, self.end_token_ids
        )

    def cut_off(self, actions: Actions) -> Booleans:
        """Tell which completions reached `max_new_tokens` without an end-of-sequence token."""
        return completions.are_cut_off(self._checked(actions), self.end_token_ids)

    def _tokenized(
        self, contexts: Contexts, actions: Actions
    ) -> tuple[list[Prompt], Tokens, Integers]:
        """The tokens of prompts, the checked completions, and how many tokens each of these has."""
        checked = self._checked(actions)
        prompts = self.prompts(as_contexts(contexts, checked))
        return prompts, checked, completions.completion_lengths(checked)

    def _checked(self, actions: Actions) -> Tokens:
        return completions.check_completions(
            actions, self.max_new_tokens, self.end_token_ids, self.vocabulary_size
        )
