"""Completions under a budgeted clip: both upstreams tell log-probabilities, and need no scorer.

A context is the prompt as text and an action a row of token ids, as `tether.llm.OpenAIPolicy` has
them. How completions are drawn is fixed by the settings, so a request can only confirm it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tether.llm.chat import canonical_json
from tether.llm.completions import PADDING
from tether.llm.openai_policy import OpenAIPolicy
from tether.service.api_errors import ApiError
from tether.service.gateway.tethered_question import (
    TetheredQuestion,
    without_what_is_sent_otherwise,
)

NEUTRAL_SETTINGS: dict[str, tuple[Any, ...]] = {
    "temperature": (1, None),
    "top_p": (1, None),
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "stop": (None, []),
    "echo": (False, None),
    "suffix": (None,),
}
"""What a request may say of the settings of a draw."""


class TokenIds:
    """A tokenizer whose texts are token ids with spaces between them."""

    def encode(self, text: str, /, *, add_special_tokens: bool) -> Sequence[int]:
        """The ids that a text lists."""
        return [int(each) for each in text.split(" ")]

    def decode(self, tokens: list[int], /, **options: Any) -> str:
        """The ids as text."""
        return " ".join(map(str, tokens))


class ClippedCompletions:
    """Questions and answers of a gateway whose policies are completions of token ids."""

    def __init__(self, policy: OpenAIPolicy) -> None:
        self._policy = policy

    def question(self, body: dict[str, Any], kind: str) -> TetheredQuestion:
        """The question of a request; `kind` is "messages" or "prompt"."""
        request, sent = without_what_is_sent_otherwise(body)
        named = request.pop("model", None)
        for name in ("max_tokens", "max_completion_tokens"):
            longest = request.pop(name, None)
            if longest not in (None, self._policy.max_new_tokens):
                raise ApiError(
                    400, f"{name} must be {self._policy.max_new_tokens} here, got {longest!r:.80}"
                )
        for name, accepted in NEUTRAL_SETTINGS.items():
            if request.pop(name, None) not in accepted:
                raise ApiError(400, f"{name} must be {accepted[0]!r} here, got {body[name]!r:.80}")
        if kind not in request:
            raise ApiError(400, f"the body must have {kind}")
        given = request.pop(kind)
        if request:
            raise ApiError(400, f"{next(iter(request))!r:.80} cannot be set here")
        context = self._prompt(given) if kind == "prompt" else self._chat(given)
        model = named if isinstance(named, str) else self._policy.model
        return TetheredQuestion(context, model, *sent, is_chat=kind == "messages")

    def answer(self, action: Any, *, is_chat: bool) -> str:
        """An action in the form in which answers are sent."""
        tokens = [int(each) for each in action if each != PADDING]
        reason = "stop" if tokens[-1] in self._policy.end_token_ids else "length"
        text = self._policy.texts([action])[0]
        if is_chat:
            message = {"role": "assistant", "content": text}
            return canonical_json({"finish_reason": reason, "message": message})
        return canonical_json({"finish_reason": reason, "text": text})

    def _prompt(self, given: Any) -> str:
        tokenizer = self._policy.tokenizer
        if isinstance(tokenizer, TokenIds):
            if not isinstance(given, list) or not all(type(each) is int for each in given):
                raise ApiError(400, "prompt must be a list of token ids: there is no tokenizer")
            return tokenizer.decode(given)
        if not isinstance(given, str):
            raise ApiError(400, f"prompt must be one text, got {given!r:.80}")
        return given

    def _chat(self, given: Any) -> str:
        """Messages as the text that the tokenizer's template makes of them."""
        template: Any = getattr(self._policy.tokenizer, "apply_chat_template", None)
        if template is None or not getattr(self._policy.tokenizer, "chat_template", None):
            raise ApiError(400, "messages need a tokenizer with a chat template: send a prompt")
        try:
            return str(template(given, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # a template is a program that may raise anything
            raise ApiError(400, f"messages do not fit the chat template: {error!r:.200}") from None
