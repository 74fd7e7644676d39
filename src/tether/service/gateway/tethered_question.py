"""What a client asks of a tethered gateway: the context, and how the answer is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tether.llm.chat import chat_context
from tether.service.api_errors import ApiError

ABOUT_THE_CLIENT = (
    "metadata", "prompt_cache_key", "safety_identifier", "seed", "service_tier", "store", "user"
)  # fmt: skip
"""What is neither sent on nor stored: who asks, and which of the draws they want."""


@dataclass(frozen=True)
class TetheredQuestion:
    """A context, the model that the answer names, and how it is sent."""

    context: str
    model: str
    is_streamed: bool
    with_usage: bool
    is_chat: bool


class ChatAnswers:
    """Questions and answers of a gateway whose policies are chats; `model` is the upstream's."""

    def __init__(self, model: str | None) -> None:
        self._model = model

    def question(self, body: dict[str, Any], kind: str) -> TetheredQuestion:
        """The question of a request; `kind` is "messages" or "prompt"."""
        request, sent = without_what_is_sent_otherwise(body)
        if kind not in request:
            raise ApiError(400, f"the body must have {kind}")
        if self._model is not None:
            request.pop("model", None)
        elif not isinstance(request.get("model"), str):
            raise ApiError(400, "the body must name a model")
        try:
            context = chat_context(request)
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        named = self._model if self._model is not None else request["model"]
        return TetheredQuestion(context, named, *sent, is_chat=kind == "messages")

    def answer(self, action: Any, *, is_chat: bool) -> str:
        """An action in the form in which answers are sent: it has that form."""
        return str(action)


def without_what_is_sent_otherwise(
    body: dict[str, Any],
) -> tuple[dict[str, Any], tuple[bool, bool]]:
    """A request without what decides how it is answered; whether it is streamed, and with usage."""
    request = {name: value for name, value in body.items() if name not in ABOUT_THE_CLIENT}
    is_streamed, options = request.pop("stream", False), request.pop("stream_options", None)
    if not isinstance(is_streamed, bool | None):
        raise ApiError(400, f"stream must be true or false, got {is_streamed!r:.80}")
    if not isinstance(options, dict | None):
        raise ApiError(400, f"stream_options must be an object, got {options!r:.80}")
    for name in ("n", "best_of"):
        count = request.pop(name, None)
        if count not in (None, 1) or isinstance(count, bool):
            raise ApiError(400, f"{name} must be 1 behind a tether, got {count!r:.80}")
    for name in ("logprobs", "top_logprobs"):
        asked = request.pop(name, None)
        if asked not in (None, False, 0):
            raise ApiError(400, f"{name} cannot be told behind a tether, got {asked!r:.80}")
    with_usage = bool((options or {}).get("include_usage"))
    return request, (bool(is_streamed), with_usage)
