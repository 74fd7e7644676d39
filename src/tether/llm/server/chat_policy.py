"""A chat model behind a server without log-probabilities: a policy that only draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.contexts import as_contexts
from tether._core.types import Contexts
from tether.llm.server.chat_messages import (
    NOT_IN_A_CONTEXT,
    UnreadableAnswerError,
    action_of_choice,
    canonical_json,
    read_context,
)
from tether.llm.server.chat_usage import count_draws
from tether.llm.server.http_client import HTTPClient

MAX_CHAT_SEED = 2**31
"""Seeds are smaller than this: some servers take no larger ones."""


class ChatPolicy:
    """A chat model on an OpenAI-compatible server, of which only draws are needed.

    It has no `log_prob`, so it is the safe policy of a `Shortlist`: N answers are drawn in each
    context and a score picks one. Draws of the same context are one request with `n` answers.

    Contexts are what `chat_context` makes of requests, actions the answers as `read_answer` reads
    them, tool calls included. Assumed: the server draws the answers of a request independently,
    and draws from the same distribution when the log is made and when it serves: the same model,
    system prompt, tools, sampling settings and limits of time.

    A failure is an error, also an answer that cannot be read: one that was left out would select
    the others.

    Parameters
    ----------
    base_url : str
        The address before `/chat/completions`, such as `https://api.openai.com/v1`.
    model : str, optional
        The model; by default each context names one.
    settings : mapping, optional
        What every request has unless its context says otherwise, such as {"temperature": 0.7}.
    max_n : int, optional
        The most answers that a request may ask for; 1 for servers that do not know `n`. By default
        all answers are asked for at once, and a server that then returns one is asked again for
        each of the others, now and later.
    seeded : bool, default False
        Whether requests have a seed; then a server must use a different one for each of the `n`
        answers, as vLLM does.
    api_key : str, optional
        Sent as a bearer token.
    timeout : float, default 60
        The seconds that a response may take. An answer that takes longer is drawn anew, so it
        should be long enough for every answer.
    retries : int, default 3
        How many times a failed request is sent again.
    concurrency : int, default 8
        The largest number of requests at a time.

    Raises
    ------
    ValueError
        If a setting is out of range, or `base_url` contains a secret.

    Examples
    --------
    >>> from tether.llm import ChatPolicy
    >>> ChatPolicy("http://localhost:8000/v1", "small", settings={"temperature": 0.7})
    ChatPolicy('http://localhost:8000/v1', 'small', settings={'temperature': 0.7})
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        max_n: int | None = None,
        seeded: bool = False,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        concurrency: int = 8,
    ) -> None:
        self.model, self.settings = model, dict(settings or {})
        for name in NOT_IN_A_CONTEXT:
            if name in self.settings:
                raise ValueError(f"settings must have no {name!r}, got {self.settings[name]!r:.80}")
        canonical_json(self.settings)
        self.max_n = None if max_n is None else validate.integer_at_least("max_n", max_n)
        self.seeded = bool(seeded)
        retries = validate.integer_at_least("retries", retries, 0)
        concurrency = validate.integer_at_least("concurrency", concurrency)
        self.client = HTTPClient(
            base_url, api_key, timeout=timeout, retries=retries, concurrency=concurrency
        )
        self._ignores_n = False

    @property
    def fingerprint(self) -> str:
        """What tells this policy from another one: the model and its settings, not the address."""
        return f"chat {canonical_json([self.model, self.settings])}"

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one answer per context.

        Parameters
        ----------
        contexts : array_like of str
            What `chat_context` makes of requests; those that are equal share a request.
        rng : numpy.random.Generator
            The source of the seeds, if requests have any.

        Returns
        -------
        numpy.ndarray of str, as objects
            One action per context.

        Raises
        ------
        ServerError
            If the server is unavailable or refuses the sender.
        UnreadableAnswerError
            If an answer cannot be read.
        ValueError
            If a context is none, or the server refuses it.
        """
        validate.generator("rng", rng)
        places: dict[str, list[int]] = {}
        checked = as_contexts(contexts)
        if isinstance(checked, int):
            raise TypeError(
                f"contexts must be what tether.llm.chat_context makes of requests, one for each "
                f"answer, got {contexts!r:.80}: a chat model answers something"
            )
        texts = np.asarray(checked).tolist()
        for place, text in enumerate(texts):
            places.setdefault(text, []).append(place)
        actions = np.empty(len(texts), dtype=object)
        missing = dict(places)
        while missing:
            missing = self._fill(actions, missing, rng)
        return actions

    def __repr__(self) -> str:
        settings = f", settings={self.settings}" if self.settings else ""
        return f"ChatPolicy({self.client.base_url!r}, {self.model!r}{settings})"

    def _fill(
        self, actions: NDArray[Any], places: Mapping[str, list[int]], rng: np.random.Generator
    ) -> dict[str, list[int]]:
        """Draw answers into their places; what is left where a server has ignored `n`."""
        parts: list[tuple[str, list[int]]] = []
        for text, wanted in places.items():
            size = 1 if self._ignores_n else self.max_n or len(wanted)
            parts += [(text, wanted[k : k + size]) for k in range(0, len(wanted), size)]
        bodies = [self.request(text, len(wanted), rng) for text, wanted in parts]
        left: dict[str, list[int]] = {}
        for (text, wanted), body, answer in zip(parts, bodies, self._post(bodies), strict=True):
            drawn = _read_choices(answer, len(wanted), is_chat="messages" in body)
            count_draws(len(drawn), answer.get("usage"))
            for place, action in zip(wanted, drawn, strict=False):
                actions[place] = action
            if len(drawn) < len(wanted):
                self._ignores_n = True
                left.setdefault(text, []).extend(wanted[len(drawn) :])
        return left

    def request(self, context: str, count: int, rng: np.random.Generator) -> dict[str, Any]:
        """Build the request that draws answers in one context.

        Parameters
        ----------
        context : str
            The context.
        count : int
            How many answers.
        rng : numpy.random.Generator
            The source of the seed, if there is one.

        Returns
        -------
        dict
            The body of the request.
        """
        body = {**self.settings, **read_context(context), "n": count}
        if self.model is not None:
            body["model"] = self.model
        if "model" not in body:
            raise ValueError("the context names no model, and neither does the policy")
        if count == 1:
            del body["n"]
        if self.seeded:
            body["seed"] = int(rng.integers(MAX_CHAT_SEED))
        return body

    def _post(self, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The responses, in order; chats and completions have paths of their own."""
        paths = ["chat/completions" if "messages" in body else "completions" for body in bodies]
        made: dict[int, dict[str, Any]] = {}
        for path in set(paths):
            where = [k for k, each in enumerate(paths) if each == path]
            answers = self.client.post_all(
                path, [bodies[k] for k in where], fresh=True, doing="drawing answers"
            )
            if len(set(map(id, answers))) < len(answers):
                raise RuntimeError("one answer was given to several requests: draws must be fresh")
            made |= dict(zip(where, answers, strict=True))
        return [made[k] for k in range(len(bodies))]


def _read_choices(answer: dict[str, Any], count: int, *, is_chat: bool) -> list[str]:
    """The actions of a response: as many as were asked for, or one where `n` was ignored."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) not in (1, count):
        found = len(choices) if isinstance(choices, list) else "no"
        raise UnreadableAnswerError(f"the server returned {found} answer(s), asked were {count}")
    return [action_of_choice(choice, is_chat=is_chat) for choice in choices]
