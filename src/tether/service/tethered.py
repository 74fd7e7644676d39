"""The gateway in tethered mode: each answer is one of N draws of the safe upstream.

Which of them is decided by the run: in the first round one at random, later as far by the scorer as
the calibration allows. The request is answered when its row is stored, so answers are buffered.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tether.llm.chat import ChatPolicy, chat_context, read_answer
from tether.llm.client import answering
from tether.llm.scorers import ChatScorer, ScoreServer, is_scorer_error
from tether.policies.shortlist import Shortlist
from tether.runs import Controller
from tether.runs.actions import Actions
from tether.service.actions import ServedRun, import_from, served_by
from tether.service.api import ApiError, encode, endpoint, json_response
from tether.service.settings import Drawn, Scorer, ServiceSettings

SCORER_CHECK_SECONDS = 60.0
"""How often it is seen whether a scorer has changed, from the scores of a few old rows."""
REQUESTS_AT_ONCE = 64
"""How many requests are answered at once; others wait."""
ABOUT_THE_CLIENT = (
    "metadata", "prompt_cache_key", "safety_identifier", "seed", "service_tier", "store", "user"
)  # fmt: skip
"""What is neither sent on nor stored: who asks, and which of the draws they want."""
FIXED: dict[str, tuple[Any, ...]] = {
    "n": (1, None),
    "logprobs": (None, False, 0),
    "top_logprobs": (None, 0),
}
"""What a request may say of how one answer is returned."""

log = logging.getLogger("tether.service")


class TetheredRun(ServedRun):
    """A run whose actions are answers of an upstream, over OpenAI's protocol."""

    calls_at_once = REQUESTS_AT_ONCE

    def __init__(self, upstream: Drawn, *given: Any) -> None:
        super().__init__(*given)
        self._url, self._model = upstream.url, upstream.model

    @endpoint("POST", "/v1/chat/completions", "decide")
    async def chat(self, request: Request, body: dict[str, Any]) -> Response:
        """Answer a chat (OpenAI)."""
        asked = {name: value for name, value in body.items() if name not in ABOUT_THE_CLIENT}
        is_streamed, options = asked.pop("stream", False), asked.pop("stream_options", None)
        if not isinstance(is_streamed, bool | None) or not isinstance(options, dict | None):
            raise ApiError(400, "stream must be true or false, and stream_options an object")
        context = self._context(asked)
        key, usage = request.headers.get("idempotency-key"), Counter[str]()
        taken = await self.soon(lambda: self._draw(context, key, usage), self._url)
        name = str(taken.ids[0])
        headers = {
            "x-tether-served": served_by(int(taken.served[0])),
            "x-tether-id": name,
            "x-tether-stored": str(taken.stored).lower(),
            "x-tether-draws": str(usage.pop("draws")),
        }
        head = {"id": f"chatcmpl-tether-{name}", "created": int(time.time()), "model": self._model}
        said = read_answer(taken.actions[0])
        if is_streamed:
            told = dict(usage) if (options or {}).get("include_usage") else None
            events = answer_events(head, said, told)
            return StreamingResponse(events, 200, headers, "text/event-stream")
        choice = {"index": 0, "logprobs": None, **said}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": dict(usage)}
        return json_response(whole, headers=headers)

    def _context(self, asked: dict[str, Any]) -> str:
        """What a request asks; settings of how it is answered are not part of it."""
        for name, values in FIXED.items():
            if (value := asked.pop(name, None)) not in values:
                raise ApiError(400, f"{name} must be {values[0]!r} here, got {value!r:.80}")
        asked.pop("model", None)
        try:
            return chat_context(asked)
        except ValueError as error:
            raise ApiError(400, str(error)) from None

    def _draw(self, context: str, key: str | None, usage: Counter[str]) -> Actions:
        """One answer, and what it used; in a thread, since it waits for the upstream."""
        try:
            with answering(self._ending) as used:
                taken = self.act(np.array([context], dtype=object), key)
            usage.update(used)
            return taken
        except Exception as error:
            if self._ending.is_set():
                raise ApiError(503, "the service is shutting down") from error
            if is_scorer_error(error):
                log.error("the scorer cannot score the answers to a request", exc_info=error)
                raise ApiError(502, "the scorer cannot score the answers") from error
            raise


def answer_events(
    head: dict[str, Any], said: dict[str, Any], usage: dict[str, int] | None
) -> Iterator[bytes]:
    """An answer, which is whole already, as a stream of one event, and what it used."""
    delta = dict(said["message"])
    if calls := delta.get("tool_calls"):
        delta["tool_calls"] = [{"index": k, **call} for k, call in enumerate(calls)]
    choice = {"index": 0, "delta": delta, "finish_reason": said["finish_reason"]}
    told: list[dict[str, Any]] = [{"choices": [choice]}]
    told += [] if usage is None else [{"choices": [], "usage": usage}]
    for each in told:
        yield b"data: " + encode({**head, "object": "chat.completion.chunk", **each}) + b"\n\n"
    yield b"data: [DONE]\n\n"


def open_tethered(settings: ServiceSettings, deadline: float) -> ServedRun:
    """The run of a gateway, open. The first round is the safe upstream's."""
    gateway = settings.gateway
    assert gateway is not None
    scorers, name = gateway.scorers, gateway.scorer
    policies = {each: make_scorer(table, each, settings.folder) for each, table in scorers.items()}
    reached = msgspec.structs.asdict(gateway.old) | {"concurrency": REQUESTS_AT_ONCE}
    safe = ChatPolicy(reached.pop("url"), **reached)
    drawn = Shortlist(safe, size=gateway.candidates, temperature=gateway.pick_temperature)
    given: dict[str, Any] = {"policies": policies, "fallback": "safe", "deadline": deadline}
    try:
        run = Controller(drawn, settings.store_at(gateway.store), **given, **gateway.controller)
    except TypeError as error:
        raise ValueError(f"gateway.controller: {error}") from error
    served = "gateway", run, deadline, lambda rows: policies[name], name
    return TetheredRun(gateway.old, *served)


def make_scorer(table: Scorer, name: str, folder: str) -> ChatScorer:
    """A scorer as the settings name it."""
    options: dict[str, Any] = {"name": name, "check_every": SCORER_CHECK_SECONDS}
    if table.function is not None:
        return ChatScorer(import_from(table.function, folder), **options)
    server = ScoreServer(
        str(table.url), api_key=table.api_key, timeout=table.timeout, concurrency=REQUESTS_AT_ONCE
    )
    return ChatScorer(server, batched=True, **options)
