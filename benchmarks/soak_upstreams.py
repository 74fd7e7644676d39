"""Two upstreams of a gateway, each a process of its own that can be killed and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.service.service_processes import free_port

UPSTREAM_TABLES = """
[gateway.old]
url = "http://127.0.0.1:{old}/v1"
[gateway.new]
url = "http://127.0.0.1:{new}/v1"
first_byte_within = 1.0
"""


class Upstream:
    """An upstream that answers with its own name."""

    def __init__(self, name: str) -> None:
        self.name, self.port = name, free_port()
        self.start()

    def start(self) -> None:
        """Run, until it is killed."""
        command = [sys.executable, "-m", "benchmarks.soak_upstreams", self.name, str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def send(self, number: signal.Signals) -> None:
        """Freeze it, or let it go on."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.wait(30)


def serve(name: str, port: int) -> None:
    """Answer chats with a name."""
    import uvicorn

    async def complete(request: Request) -> JSONResponse:
        await request.json()
        message = {"role": "assistant", "content": name}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        head = {"id": "soak", "object": "chat.completion", "created": int(time.time())}
        return JSONResponse(head | {"model": name, "choices": [choice]})

    routes = [Route("/v1/chat/completions", complete, methods=["POST"])]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
