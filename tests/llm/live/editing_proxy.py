"""A proxy in front of a live server that changes requests or answers: a server that is wrong."""

from tests.llm.loopback_server import Loopback


class EditingProxy(Loopback):
    """Passes requests for draws on to another server, after `edit(body)` has changed them.

    `answered(body, answer)` may change the answer. What is scored stays as it is.
    """

    def __init__(self, server, edit=None, answered=None):
        super().__init__({})
        self._server, self._edit, self._answered = server, edit, answered

    def answer(self, body):
        changed = dict(body)
        is_draw = body.get("prompt_logprobs") is None
        if is_draw and self._edit is not None:
            self._edit(changed)
        status, answer = self._server.post("completions", changed)
        if is_draw and status == 200 and self._answered is not None:
            answer = self._answered(body, answer)
        return status, answer
