"""One distribution over completions out of many prompts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core import policy_calls
from tether._core.contexts import as_contexts, length, take
from tether._core.types import Floats
from tether.llm.completions import Tokens


class PromptMixture:
    """A policy over completions whose prompt is drawn anew each time, all prompts alike.

    It has no contexts: its beta is calibrated with one normalizer, as is right where nobody asks a
    particular prompt but answers are wanted whatever they answer. A completion's probability is
    the mean over all prompts, so a score costs as many completions as there are prompts.
    """

    def __init__(self, policy: Any, prompts: Any) -> None:
        self.policy, self.prompts = policy, as_contexts(prompts)
        if isinstance(self.prompts, int):
            raise TypeError(f"prompts must be texts or rows of token ids, got {prompts!r}")

    def sample(self, contexts: Any, rng: np.random.Generator) -> Tokens:
        """As many completions as asked for, each of a prompt drawn at random."""
        policy_calls.generator(rng)
        chosen = rng.integers(length(self.prompts), size=_count(as_contexts(contexts)))
        return np.asarray(self.policy.sample(take(self.prompts, chosen), rng))

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """Log of the mean over the prompts of a completion's probability."""
        actions = np.asarray(actions)
        rows, prompts = _count(as_contexts(contexts, actions)), length(self.prompts)
        asked = take(self.prompts, np.repeat(np.arange(prompts), rows))
        scores = np.asarray(self.policy.log_prob(asked, np.tile(actions, (prompts, 1))))
        return np.asarray(np.logaddexp.reduce(scores.reshape(prompts, rows)) - np.log(prompts))


def _count(contexts: Any) -> int:
    if not isinstance(contexts, int):
        raise TypeError(
            "this policy draws its own prompts: contexts must be the number of completions, got "
            f"{length(contexts)} context(s)"
        )
    return contexts
