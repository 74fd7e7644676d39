"""The gateway in tethered mode: each answer is one of N draws of the safe upstream.

Which of them is decided by the run: in the first round one at random, later as far by the scorer as
the calibration allows. With a new upstream, which tells log-probabilities, it is a draw of either.
The request is answered when its row is stored, so answers are buffered.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tether.llm.client import Usage, counting_usage, ending
from tether.llm.openai_policy import OpenAIPolicy
from tether.llm.scorers import is_scorer_error
from tether.policies.shortlist import Shortlist
from tether.rounds.recording import MAX_KEY_LENGTH
from tether.rounds.returned_rows import TakenActions
from tether.service.api_errors import ApiError
from tether.service.endpoint import Endpoint
from tether.service.gateway.tethered_answers import FinishedAnswer
from tether.service.gateway.tethered_clip import ClippedCompletions
from tether.service.gateway.tethered_question import ChatAnswers, TetheredQuestion
from tether.service.json_schemas import TEXT_SCHEMA, list_schema, object_schema
from tether.service.request_body import read_object
from tether.service.runs.acted import Acted
from tether.service.runs.served_by import served_by
from tether.service.service import Service
from tether.service.settings.tethered_table import TetheredSettings

WAITING_PER_THREAD = 4
"""How many requests may wait for each one that is answered; more are refused."""

log = logging.getLogger("tether.service")


class TetheredGateway:
    """The endpoints of OpenAI's protocol."""

    def __init__(self, service: Service, settings: TetheredSettings) -> None:
        self._service, self._url = service, settings.old.url
        self._words: ChatAnswers | ClippedCompletions = ChatAnswers(settings.old.model)
        drawing = service.run.run.given_safe
        if isinstance(drawing, Shortlist):
            drawing = drawing.safe
        if isinstance(drawing, OpenAIPolicy):
            self._words = ClippedCompletions(drawing)
        self._threads = ThreadPoolExecutor(settings.requests_at_once, "tether-gateway")
        self._most, self._asked = (1 + WAITING_PER_THREAD) * settings.requests_at_once, 0
        self._acted, self._ending = Acted(service), threading.Event()
        service.closing.append(self._close)

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        messages = object_schema({"messages": list_schema({"type": "object"})}, closed=False)
        prompt = object_schema({"prompt": TEXT_SCHEMA}, closed=False)
        texts = "Answer a chat (OpenAI).", "Complete a text (OpenAI)."
        statuses = [409, 502, 503]
        return [
            Endpoint(
                "POST", "/v1/chat/completions", "decide", self.chat, texts[0], messages,
                statuses=statuses,
            ),
            Endpoint(
                "POST", "/v1/completions", "decide", self.complete, texts[1], prompt,
                statuses=statuses,
            ),
        ]  # fmt: skip

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        return await self._answer(request, "messages")

    async def complete(self, request: Request) -> Response:
        """Complete a text."""
        return await self._answer(request, "prompt")

    async def _answer(self, request: Request, kind: str) -> Response:
        body = await read_object(request, self._service.settings.limits.body_bytes)
        question = self._words.question(body, kind)
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= MAX_KEY_LENGTH:
            raise ApiError(400, f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} characters")
        taken, usage = await self._act(question, key)
        number = int(np.broadcast_to(taken.served, 1)[0])
        headers = {
            "x-tether-served": served_by(number),
            "x-tether-id": str(taken.ids[0]),
            "x-tether-stored": str(taken.stored).lower(),
            "x-tether-draws": str(usage.draws),
        }
        said = self._words.answer(taken.actions[0], is_chat=question.is_chat)
        answer = FinishedAnswer(str(taken.ids[0]), question.model, said, usage.tokens)
        if question.is_streamed:
            events = answer.events(with_usage=question.with_usage)
            return StreamingResponse(events, 200, headers, "text/event-stream")
        return JSONResponse(answer.whole(), headers=headers)

    async def _act(self, question: TetheredQuestion, key: str | None) -> tuple[TakenActions, Usage]:
        """One answer, and what it took; in a thread, since it waits for the upstream."""
        if self._asked >= self._most:
            raise ApiError(503, "too many requests wait for the upstream: repeat this one")
        self._asked += 1
        try:
            with self._acted.refused(self._url):
                loop = asyncio.get_running_loop()
                taken, usage = await loop.run_in_executor(
                    self._threads, self._draw, question.context, key
                )
        finally:
            self._asked -= 1
        self._acted.note(taken)
        return taken, usage

    def _draw(self, context: str, key: str | None) -> tuple[TakenActions, Usage]:
        try:
            with ending(self._ending), counting_usage() as usage:
                return self._service.run.act(np.array([context], dtype=object), key=key), usage
        except RuntimeError:
            if self._ending.is_set():
                raise ApiError(503, "the service is shutting down") from None
            raise
        except ValueError as error:
            if not is_scorer_error(error):
                raise
            log.error("the scorer cannot score the answers to a request", exc_info=error)
            raise ApiError(502, "the scorer cannot score the answers") from None

    async def _close(self) -> None:
        """Give up what waits for the upstream: the web server has waited for it long enough."""
        self._ending.set()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
