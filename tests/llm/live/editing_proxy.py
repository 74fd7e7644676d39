"""A proxy in front of a live server that changes requests: a server whose settings are wrong."""

from tests.llm.loopback_server import Loopback


class EditingProxy(Loopback):
    """Passes requests on to another server, after `edit(body)` has changed them."""

    def __init__(self, server, edit):
        super().__init__({})
        self._server, self._edit = server, edit

    def answer(self, body):
        changed = dict(body)
        self._edit(changed)
        return self._server.post("completions", changed)
