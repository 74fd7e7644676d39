"""What every policy over completions says of them, whoever computes their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

from tether.llm import completions
from tether.llm.completions import Tokens, whole


class Completing:
    """A policy whose actions are completions of at most `max_new_tokens` tokens."""

    tokenizer: Any
    max_new_tokens: int
    ends: Tokens
    vocabulary: int | None = None
    """How many tokens there are, where that is known."""

    def texts(self, actions: Any) -> list[str]:
        """Completions as people read them; what is scored are their tokens."""
        return completions.texts(self._checked(actions), self.tokenizer, self.ends)

    def completions(self, answers: Sequence[str]) -> Tokens:
        """Texts as completions that ended; refuses one that the tokenizer does not give back."""
        return completions.from_texts(answers, self.tokenizer, self.max_new_tokens, self.ends)

    def cut_off(self, actions: Any) -> Any:
        """Which completions reached `max_new_tokens` without an end."""
        return completions.cut_off(self._checked(actions), self.ends)

    def shortened(self, max_new_tokens: int) -> Self:
        """The same policy, cut off sooner."""
        other = copy(self)
        other.max_new_tokens = whole("max_new_tokens", max_new_tokens)
        if other.max_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"max_new_tokens must be at most {self.max_new_tokens} to shorten this policy, "
                f"got {max_new_tokens}"
            )
        return other

    def _checked(self, actions: Any) -> Tokens:
        return completions.checked(actions, self.max_new_tokens, self.ends, self.vocabulary)
