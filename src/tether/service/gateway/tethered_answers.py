"""A finished answer in OpenAI's shapes: as one object, or as a stream of events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tether.llm.chat import read_answer


class FinishedAnswer:
    """An answer that was picked, with what all draws of its request have used."""

    def __init__(self, name: str, model: str, action: str, usage: Mapping[str, int]) -> None:
        answer = read_answer(action)
        self._message, self._text = answer.get("message"), answer.get("text")
        self._reason, self._usage = answer["finish_reason"], dict(usage)
        self._is_chat = self._message is not None
        prefix = "chatcmpl" if self._is_chat else "cmpl"
        self._head = {"id": f"{prefix}-tether-{name}", "created": int(time.time()), "model": model}

    def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        said = {"message": self._message} if self._is_chat else {"text": self._text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": self._reason}
        kind = "chat.completion" if self._is_chat else "text_completion"
        return {**self._head, "object": kind, "choices": [choice], "usage": self._usage}

    def events(self, *, with_usage: bool) -> Iterator[bytes]:
        """The answer as the events of a stream; all of it is known already."""
        if self._is_chat:
            for delta in self._deltas():
                yield self._event([{"index": 0, "delta": delta, "finish_reason": None}])
            yield self._event([{"index": 0, "delta": {}, "finish_reason": self._reason}])
        else:
            choice = {"index": 0, "text": self._text, "logprobs": None}
            yield self._event([{**choice, "finish_reason": self._reason}])
        if with_usage:
            yield self._event([], usage=self._usage)
        yield b"data: [DONE]\n\n"

    def _deltas(self) -> Iterator[dict[str, Any]]:
        """The message in parts: who speaks, then what is said, then each tool call."""
        message = dict(self._message or {})
        calls = message.pop("tool_calls", None) or []
        content = message.pop("content", None)
        yield {**message, "content": None if calls and content is None else ""}
        if content:
            yield {"content": content}
        for place, call in enumerate(calls):
            yield {"tool_calls": [{"index": place, **call}]}

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        event = {**self._head, "object": kind, "choices": choices, **more}
        return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"
