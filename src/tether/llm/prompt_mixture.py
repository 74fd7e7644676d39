"""One distribution over completions out of many prompts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.contexts import as_contexts, length, take
from tether._core.plain_arrays import plain_column
from tether._core.types import Actions, Floats
from tether.llm.completions import Tokens
from tether.policies.policy import Policy


class PromptMixture:
    """A policy without contexts that completes a prompt drawn uniformly from a given set.

    Because it has no contexts, its beta is calibrated with one normalizing constant. That is right
    where completions are wanted whatever prompt they answer, and not where a given prompt must be
    answered. A completion's probability is the mean over all prompts, so scoring one completion
    costs as many scores as there are prompts.

    Parameters
    ----------
    policy : Policy
        A policy over completions, such as `CausalPolicy` or `OpenAIPolicy`.
    prompts : array_like of str, or of int with shape (n, length)
        The prompts: texts, or rows of token ids padded with −1.

    Raises
    ------
    TypeError
        If `prompts` is a number.
    """

    def __init__(self, policy: Policy, prompts: ArrayLike) -> None:
        self.policy, self.prompts = policy, as_contexts(prompts)
        if isinstance(self.prompts, int):
            raise TypeError(f"prompts must be texts or rows of token ids, got {prompts!r}")

    def __repr__(self) -> str:
        return f"PromptMixture({self.policy!r}, {len(self.prompts)} prompts)"

    def sample(self, contexts: int, rng: np.random.Generator) -> Tokens:
        """Draw completions, each of a prompt drawn uniformly at random.

        Parameters
        ----------
        contexts : int
            The number of completions.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        numpy.ndarray of int, shape (contexts, max_new_tokens)
            The completions.

        Raises
        ------
        TypeError
            If `contexts` is not a number: this policy draws its own prompts.
        """
        validate.generator("rng", rng)
        chosen = rng.integers(length(self.prompts), size=_count(as_contexts(contexts)))
        return np.asarray(self.policy.sample(take(self.prompts, chosen), rng))

    def log_prob(self, contexts: int | None, actions: Actions) -> Floats:
        """Score completions by the log of their mean probability over the prompts.

        Parameters
        ----------
        contexts : int or None
            The number of completions, or None to take it from `actions`.
        actions : array_like of int, shape (n, max_new_tokens)
            Completions.

        Returns
        -------
        numpy.ndarray of float, shape (n,)
            The log-probability of each completion.

        Raises
        ------
        TypeError
            If `contexts` is not a number: this policy draws its own prompts.
        """
        actions = plain_column("actions", actions)
        rows, prompts = _count(as_contexts(contexts, actions)), length(self.prompts)
        repeated = take(self.prompts, np.repeat(np.arange(prompts), rows))
        scores = np.asarray(self.policy.log_prob(repeated, np.tile(actions, (prompts, 1))))
        return np.asarray(np.logaddexp.reduce(scores.reshape(prompts, rows)) - np.log(prompts))


def _count(contexts: Any) -> int:
    if not isinstance(contexts, int):
        raise TypeError(
            "this policy draws its own prompts: contexts must be the number of completions, got "
            f"{length(contexts)} context(s)"
        )
    return contexts
