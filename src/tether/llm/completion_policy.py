"""The common base of policies whose actions are completions, local or on a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Self

import numpy as np

from tether._core import validate
from tether._core.contexts import as_contexts
from tether._core.types import Actions, Booleans, Contexts, Floats, Integers
from tether.llm import completions
from tether.llm.completions import Tokenizer, Tokens
from tether.llm.prompts import Prompt, token_prompts
from tether.llm.token_tables import TokenTables


class CompletionPolicy(ABC):
    """A policy whose actions are completions of at most `max_new_tokens` tokens."""

    tokenizer: Tokenizer | None
    max_new_tokens: int
    end_token_ids: Tokens
    add_special_tokens: bool
    context_length: int | None
    vocabulary_size: int | None = None
    is_served: ClassVar[bool] = False  # by a server that may answer others at the same time
    address: str | None = None  # of that server
    _tokens_beyond_completion: ClassVar[int] = 0  # what must fit the context as well

    @abstractmethod
    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities stated by the sampler.

        They differ from `log_prob` by rounding only; `preflight` measures by how much.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        actions : numpy.ndarray of int, shape (n, max_new_tokens)
            One completion per prompt.
        scores : numpy.ndarray of float, shape (n,)
            The log-probability with which each was drawn.
        """

    @abstractmethod
    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion: the sum of the log-probabilities of its tokens.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.
        actions : array_like of int, shape (n, max_new_tokens)
            One completion per prompt.

        Returns
        -------
        numpy.ndarray of float, shape (n,)
            The log-probability of each completion, including its end-of-sequence token.

        Raises
        ------
        ValueError
            If a row is not a completion of this policy.
        """

    @abstractmethod
    def token_tables(self, contexts: Contexts, actions: Actions) -> TokenTables:
        """Find the likeliest tokens at every position of completions, as they are scored.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.
        actions : array_like of int, shape (n, max_new_tokens)
            One completion per prompt.

        Returns
        -------
        TokenTables
            A table for every token.
        """

    def rescoring(self) -> Self:
        """Return a policy whose `log_prob` never takes the sampler's word for a score.

        Returns
        -------
        CompletionPolicy
            This policy, unless it remembers the scores of its draws.
        """
        return self

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> Tokens:
        """Draw one completion per prompt.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        numpy.ndarray of int, shape (n, max_new_tokens)
            One completion per prompt, padded with −1 after its end-of-sequence token.
        """
        return self.sample_scored(contexts, rng)[0]

    def prompts(self, contexts: Contexts) -> list[Prompt]:
        """Return the token ids that the model sees for each context.

        Parameters
        ----------
        contexts : array_like of str, or of int with shape (n, length)
            The prompts: texts, or rows of token ids padded with −1.

        Returns
        -------
        list of tuple of int
            The token ids of each prompt, without padding.

        Raises
        ------
        ValueError
            If a text is not preserved by the tokenizer, or a prompt is empty or too long.
        """
        room = self.context_length
        reserved = self.max_new_tokens + self._tokens_beyond_completion
        if room is not None and reserved >= room:
            raise ValueError(
                f"max_new_tokens = {self.max_new_tokens} leaves no room for a prompt in the "
                f"model's context length of {room} tokens"
            )
        return token_prompts(
            contexts,
            self.tokenizer,
            add_special_tokens=self.add_special_tokens,
            max_length=None if room is None else room - reserved,
            vocabulary_size=self.vocabulary_size,
        )

    def texts(self, actions: Actions) -> list[str]:
        """Decode completions to texts, for reading; what is scored are the token ids.

        Parameters
        ----------
        actions : array_like of int, shape (n, max_new_tokens)
            Completions.

        Returns
        -------
        list of str
            The text of each completion, without its end-of-sequence token.
        """
        return completions.decode_completions(
            self._check_actions(actions), self.tokenizer, self.end_token_ids
        )

    def completions(self, texts: Sequence[str]) -> Tokens:
        """Encode texts as completions that ended.

        Assumes that the texts were generated as these very tokens: the same text in other tokens
        is a different action.

        Parameters
        ----------
        texts : sequence of str
            One text per completion, without an end-of-sequence token.

        Returns
        -------
        numpy.ndarray of int, shape (n, max_new_tokens)
            The completions, each with the first of `end_token_ids` as its end.

        Raises
        ------
        ValueError
            If a text is too long, contains an end-of-sequence token or is not preserved by the
            tokenizer.
        """
        return completions.encode_completions(
            texts, self.tokenizer, self.max_new_tokens, self.end_token_ids
        )

    def cut_off(self, actions: Actions) -> Booleans:
        """Tell which completions reached `max_new_tokens` without an end-of-sequence token.

        Parameters
        ----------
        actions : array_like of int, shape (n, max_new_tokens)
            Completions.

        Returns
        -------
        numpy.ndarray of bool, shape (n,)
            True for each completion that was cut off.
        """
        return completions.are_cut_off(self._check_actions(actions), self.end_token_ids)

    def shortened(self, max_new_tokens: int) -> Self:
        """Return the same policy with a smaller limit on the number of tokens.

        Parameters
        ----------
        max_new_tokens : int
            The new limit, at most the present one.

        Returns
        -------
        CompletionPolicy
            A copy that shares the model, with the new limit.

        Raises
        ------
        ValueError
            If the new limit is larger than the present one.
        """
        shorter = copy(self)
        shorter.max_new_tokens = validate.integer_at_least("max_new_tokens", max_new_tokens)
        if shorter.max_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"max_new_tokens must be at most {self.max_new_tokens} to shorten this policy, "
                f"got {max_new_tokens}"
            )
        return shorter

    def _tokenized(
        self, contexts: Contexts, actions: Actions
    ) -> tuple[list[Prompt], Tokens, Integers]:
        """The tokens of prompts, the checked completions, and how many tokens each of these has."""
        checked = self._check_actions(actions)
        prompts = self.prompts(as_contexts(contexts, checked))
        return prompts, checked, completions.completion_lengths(checked)

    def _check_actions(self, actions: Actions) -> Tokens:
        return completions.check_completions(
            actions, self.max_new_tokens, self.end_token_ids, self.vocabulary_size
        )
