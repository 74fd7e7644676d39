"""Chat models behind a server: requests as contexts, answers as actions, a policy that only draws.

Contexts and actions are text in one canonical form of JSON. A context is everything that decides
how an answer is drawn: the messages, tools and sampling settings. How many answers are drawn, how
they are sent and with which seed are not part of it. An action is the answer's message and why it
ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from tether._core import validate
from tether._core.arrays import Contexts
from tether._core.contexts import as_contexts
from tether.llm.client import Client, Connection, Request, ServerError, draw_by_requests

NOT_IN_A_CONTEXT = ("n", "seed", "stream", "stream_options", "best_of", "logprobs", "top_logprobs")
"""What a request may contain besides a context, but a context may not."""
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]
"""How an answer may end. One that was aborted is not an answer."""


class _Message(BaseModel, extra="allow", strict=True):
    role: Literal["assistant"] = "assistant"
    content: str | list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class _ChatChoice(BaseModel):
    finish_reason: FinishReason
    message: _Message


def chat_context(request: Mapping[str, Any]) -> str:
    """Make the context of a request: its canonical JSON.

    Parameters
    ----------
    request : mapping
        What is sent to the server, with "messages", and without the number of answers, the seed,
        and how they are sent.

    Examples
    --------
    >>> chat_context({"messages": [{"role": "user", "content": "Hi"}], "temperature": 0.7})
    '{"messages":[{"content":"Hi","role":"user"}],"temperature":0.7}'
    """
    _refuse_names("a context", request)
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        expected = "messages, a list that is not empty"
        raise ValueError(f"a context must have {expected}, got {messages!r:.60}")
    return canonical_json(dict(request))


def _refuse_names(what: str, settings: Mapping[str, Any]) -> None:
    for name in NOT_IN_A_CONTEXT:
        if name in settings:
            raise ValueError(f"{what} must not contain {name!r}, got {settings[name]!r:.80}")


def canonical_json(value: Any) -> str:
    """Write JSON in one form: sorted names, no spaces, no NaN or infinity."""
    try:
        text = json.dumps(
            value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
        text.encode()  # half of a character cannot be sent or stored
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}") from None


def chat_action(answer: str | Mapping[str, Any]) -> str:
    """Make the action of an answer: what a `ChatPolicy` would have drawn. Undoes `read_answer`.

    Parameters
    ----------
    answer : str or mapping
        The text of an answer that ended by itself; or what `read_answer` returns: "message" and
        "finish_reason", for answers that were cut off ("length") or call tools ("tool_calls").

    Examples
    --------
    >>> chat_action("It arrives today.")
    '{"finish_reason":"stop","message":{"content":"It arrives today.","role":"assistant"}}'
    >>> read_answer(chat_action("It arrives today."))["message"]["content"]
    'It arrives today.'
    """
    if isinstance(answer, str):
        answer = {"message": {"content": answer}, "finish_reason": "stop"}
    if not isinstance(answer, Mapping) or "message" not in answer:
        expected = "a text, or a mapping with message and finish_reason"
        raise ValueError(f"answer must be {expected}, got {answer!r:.80}")
    return action_of_choice(dict(answer))


def read_answer(action: str) -> dict[str, Any]:
    """Read an action: "message" and "finish_reason"."""
    return read_object("action", action)


def chat_rows(prompts: Any, answers: Any, **settings: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Make contexts and actions, for `make_log` and `record`, of prompts and their answers.

    Parameters
    ----------
    prompts : sequence
        For each row the text of a user, or a list of messages.
    answers : sequence
        For each row what `chat_action` takes: usually the text of the answer.
    **settings
        What else is in every request and decides how an answer is drawn, such as tools.

    Examples
    --------
    >>> contexts, actions = chat_rows(["Where is it?"], ["It arrives today."])
    >>> contexts[0]
    '{"messages":[{"content":"Where is it?","role":"user"}]}'
    """
    contexts = []
    for each in prompts:
        messages = [{"role": "user", "content": each}] if isinstance(each, str) else list(each)
        contexts.append(chat_context({"messages": messages, **settings}))
    actions = [chat_action(each) for each in answers]
    if len(contexts) != len(actions):
        raise ValueError(f"answers must be one per prompt, {len(contexts)}, got {len(actions)}")
    return np.array(contexts, dtype=object), np.array(actions, dtype=object)


def action_of_choice(choice: Any) -> str:
    """The action in a server's choice; an error, which does not repeat the choice, if it has none.

    An answer that cannot be read is never left out: that would make the others a biased selection.
    """
    try:
        read = _ChatChoice.model_validate(choice)
        said = read.model_dump(exclude_none=True)
        said["message"] |= {"role": "assistant", "content": read.message.content}
        return canonical_json(said)
    except ValidationError as error:
        where = [".".join(map(str, each["loc"])) or "choice" for each in error.errors()]
        raise ValueError(f"the answer cannot be read: wrong {', '.join(where)}") from None
    except ValueError:
        raise ValueError("the answer cannot be read: not JSON") from None


def read_object(name: str, text: Any) -> dict[str, Any]:
    """The JSON object that a context or an action is."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError(
            f"{name} must be what tether.llm.chat_{name} makes, a JSON object, got {text!r:.80}"
        )
    return value


class ChatPolicy:
    """A chat model on an OpenAI-compatible server, used only for its draws.

    It has no `log_prob`, so it is the safe policy of a `Shortlist`: N answers are drawn in each
    context and a score picks one. Draws of the same context are one request with `n` answers.

    Contexts are what `chat_context` makes of requests, actions the answers as `read_answer` reads
    them, tool calls included. Assumed: the server draws the answers of a request independently,
    and from the same distribution when the log is made and when it serves.

    Parameters
    ----------
    base_url, model : str
        The address before `/chat/completions`, and the model; without it each context names one.
    settings : mapping, optional
        What every request has unless its context says otherwise, such as {"temperature": 0.7}.
    max_n : int, optional
        The most answers that a request may ask for; 1 for servers that do not support `n`. By
        default all answers are asked for at once; a server that then returns only one is asked for
        the others, and for all later answers, one by one.
    **connection
        `api_key`, which is never shown; `timeout`, the seconds that a response may take (60; an
        answer that takes longer is drawn anew); `retries`, how many times a failed request is sent
        again (3); `concurrency`, requests at a time (8).

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
        **connection: Unpack[Connection],
    ) -> None:
        self.model, self.settings = model, dict(settings or {})
        _refuse_names("settings", self.settings)
        canonical_json(self.settings)
        self.max_n = None if max_n is None else validate.integer("max_n", max_n)
        limits: Connection = {"timeout": 60.0, "retries": 3, "concurrency": 8}
        self.client = Client(base_url, **(limits | connection))

    @property
    def fingerprint(self) -> str:
        """What tells this policy from another one: the model and its settings, not the address."""
        return f"chat {canonical_json([self.model, self.settings])}"

    def sample(self, contexts: Contexts, rng: np.random.Generator) -> NDArray[Any]:
        """Draw one answer per context; contexts that are equal share a request.

        A ServerError says that the server is unavailable, refuses the sender or returns what is no
        answer, a ValueError that a context is refused.
        """
        validate.generator("rng", rng)
        checked = as_contexts(contexts)
        if isinstance(checked, int):
            expected = "what tether.llm.chat_context makes of requests, one for each answer"
            raise TypeError(f"contexts must be {expected}, got {contexts!r:.80}")
        texts = np.asarray(checked).tolist()
        actions = np.empty(len(texts), dtype=object)
        actions[:] = draw_by_requests(self, texts, self._request, _read_choices, "drawing answers")
        return actions

    def __repr__(self) -> str:
        settings = f", settings={self.settings}" if self.settings else ""
        return f"ChatPolicy({self.client.base_url!r}, {self.model!r}{settings})"

    def _request(self, context: str, count: int) -> Request:
        """The path and the body of the request that draws answers in one context."""
        request = read_object("context", context)
        if chat_context(request) != context:
            raise ValueError(
                f"a context must be what tether.llm.chat_context makes, got {context!r:.80}"
            )
        body = {**self.settings, **request}
        body |= {"n": count} if count > 1 else {}
        if self.model is not None:
            body["model"] = self.model
        if "model" not in body:
            raise ValueError("the context names no model, and neither does the policy")
        return "chat/completions", body


def _read_choices(context: str, answer: dict[str, Any], count: int) -> list[str]:
    """The actions of a response: as many as were asked for, or one where `n` was ignored."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != count:
        found = len(choices) if isinstance(choices, list) else "no"
        raise ServerError(f"the server returned {found} answer(s), expected {count}")
    try:
        return [action_of_choice(choice) for choice in choices]
    except ValueError as error:
        raise ServerError(f"the server's response: {error}") from None
