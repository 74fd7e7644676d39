"""Chat requests as contexts and answers as actions: text in one canonical form of JSON.

A context is everything that decides how an answer is drawn: the messages (or the prompt), tools and
sampling settings. How many answers are drawn, how they are sent and with which seed is no part of
it. An action is the answer's message and why it ended, or its text where a prompt is completed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

NOT_IN_A_CONTEXT = ("n", "seed", "stream", "stream_options", "best_of", "logprobs", "top_logprobs")
"""What a request may have beside a context, and a context may not."""
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")
"""How an answer may end. One that was aborted is no answer."""


def chat_context(request: Mapping[str, Any]) -> str:
    """Make the context of a request: its canonical JSON.

    Parameters
    ----------
    request : mapping
        What is sent to the server, with "messages" (or "prompt", one text), and without the number
        of answers, the seed, and how they are sent.

    Returns
    -------
    str
        The context.

    Raises
    ------
    ValueError
        If it has neither messages nor a prompt, or something that is no part of a context.

    Examples
    --------
    >>> chat_context({"messages": [{"role": "user", "content": "Hi"}], "temperature": 0.7})
    '{"messages":[{"content":"Hi","role":"user"}],"temperature":0.7}'
    """
    for name in NOT_IN_A_CONTEXT:
        if name in request:
            raise ValueError(f"a context has no {name!r}, got {request[name]!r:.80}")
    messages, prompt = request.get("messages"), request.get("prompt")
    if ("messages" in request) == ("prompt" in request):
        raise ValueError("a context has either messages or a prompt")
    if "messages" in request and not (isinstance(messages, list) and messages):
        raise ValueError(f"messages must be a list that is not empty, got {messages!r:.80}")
    if "prompt" in request and not isinstance(prompt, str):
        raise ValueError(f"prompt must be one text, got {prompt!r:.80}")
    return canonical_json(dict(request))


def canonical_json(value: Any) -> str:
    """Write JSON in one form: sorted names, no spaces, no numbers that are none.

    Parameters
    ----------
    value : object
        What JSON can express.

    Returns
    -------
    str
        The text.
    """
    try:
        text = json.dumps(
            value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
        text.encode()  # half of a character cannot be sent or stored
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"this is no JSON: {error}") from None


def read_context(context: str) -> dict[str, Any]:
    """The request of a context; an error where it is none."""
    request = _parse("context", context)
    if chat_context(request) != context:
        raise ValueError(
            f"a context must be what tether.llm.chat_context makes, got {context!r:.80}"
        )
    return request


def chat_action(answer: str | Mapping[str, Any]) -> str:
    """Make the action of an answer: what a `ChatPolicy` would have drawn. Undoes `read_answer`.

    Parameters
    ----------
    answer : str or mapping
        The text of an answer that ended by itself; or what `read_answer` returns: "message" (or
        "text" where a prompt was completed) and "finish_reason", for answers that were cut off
        ("length") or call tools ("tool_calls").

    Returns
    -------
    str
        The action.

    Raises
    ------
    ValueError
        If it is neither a text nor an answer.

    Examples
    --------
    >>> chat_action("It arrives today.")
    '{"finish_reason":"stop","message":{"content":"It arrives today.","role":"assistant"}}'
    >>> read_answer(chat_action("It arrives today."))["message"]["content"]
    'It arrives today.'
    """
    if isinstance(answer, str):
        answer = {"message": {"content": answer}, "finish_reason": "stop"}
    if not isinstance(answer, Mapping) or ("message" in answer) == ("text" in answer):
        raise ValueError(
            f"answer must be a text, or a mapping with message (or text) and finish_reason, got "
            f"{answer!r:.80}"
        )
    try:
        return action_of_choice(dict(answer), is_chat="message" in answer)
    except UnreadableAnswerError as error:
        raise ValueError(f"this is no answer: {error}") from None


def read_answer(action: str) -> dict[str, Any]:
    """Read what an action says.

    Parameters
    ----------
    action : str
        An action of a `ChatPolicy`.

    Returns
    -------
    dict
        "message", or "text" where a prompt was completed, and "finish_reason".
    """
    return _parse("action", action)


def messages_of(context: str) -> list[Any]:
    """The messages of a context; a prompt is the message of a user."""
    request = _parse("context", context)
    return request.get("messages", [{"role": "user", "content": request.get("prompt")}])  # type: ignore[no-any-return]


def message_of(action: str) -> dict[str, Any]:
    """The message of an action; a text is the message of the assistant."""
    answer = read_answer(action)
    return answer.get("message", {"role": "assistant", "content": answer.get("text")})  # type: ignore[no-any-return]


def action_of_choice(choice: Any, *, is_chat: bool) -> str:
    """The action that a server's choice is; an error where it is no answer.

    An answer that cannot be read is never left out: that would select the others by what they are.
    """
    try:
        return _action_of_choice(choice, is_chat)
    except ValueError:
        _refuse(choice)


def _action_of_choice(choice: Any, is_chat: bool) -> str:
    if not isinstance(choice, dict):
        _refuse(choice)
    reason = choice.get("finish_reason")
    if reason not in FINISH_REASONS:
        _refuse(choice)
    if not is_chat:
        if not isinstance(choice.get("text"), str):
            _refuse(choice)
        return canonical_json({"finish_reason": reason, "text": choice["text"]})
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("role", "assistant") != "assistant":
        _refuse(choice)
    content, calls = message.get("content"), message.get("tool_calls")
    if not isinstance(content, str | list | None) or not isinstance(calls, list | None):
        _refuse(choice)
    if not all(isinstance(each, dict) for each in calls or ()):
        _refuse(choice)
    kept = {name: each for name, each in message.items() if each is not None}
    kept |= {"role": "assistant", "content": content}
    return canonical_json({"finish_reason": reason, "message": kept})


def _refuse(choice: Any) -> NoReturn:
    """Say what is wrong without the answer itself, which has no place in logs."""
    found = f"it is a {type(choice).__name__}"
    if isinstance(choice, dict):
        types = {str(name): type(value).__name__ for name, value in choice.items()}
        found = f"its finish_reason is {choice.get('finish_reason')!r:.40}, its fields {types}"
    raise UnreadableAnswerError(f"the server's answer cannot be read: {found:.300}")


class UnreadableAnswerError(RuntimeError):
    """An answer that is none: the server is not to be relied on."""


def _parse(name: str, text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError(
            f"{name} must be what tether.llm.chat_{name} makes, a JSON object, got {text!r:.80}"
        )
    return value
