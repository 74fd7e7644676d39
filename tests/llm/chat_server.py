"""A chat server on loopback without log-probabilities, of OpenAI's request and response shapes.

`answers(request, rng)` draws one answer: a text, or a message. It shares no code with what is
tested. A server with `knows_n=False` returns one answer whatever is asked. Each request takes the
next of `faults`: a status (with what Retry-After says), "garbled", "nonsense", "drop", "half",
"zipped", a function that changes the answer, or an event or barrier that it waits for.
"""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


class Server:
    """A server, running while the `with` block does; `answer(path, body)` is a status and JSON."""

    def __init__(self, key=None):
        self.key, self.lock = key, threading.Lock()
        self.faults, self.requests, self.received, self.paths, self.busy = [], [], [], [], 0
        self.is_down = False  # then connections are closed, also those that are kept
        handler = type("Handler", (_Handler,), {"owner": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def __enter__(self):
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.is_down = True
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


class ChatServer(Server):
    def __init__(self, answers, *, knows_n=True, seed=0, max_n=None, key=None):
        super().__init__(key)
        self.answers, self.knows_n, self.max_n = answers, knows_n, max_n
        self.rng = np.random.default_rng(seed)

    def answer(self, path, body):
        if path.endswith("/score"):
            return 200, {"scores": [self.answers(body, each) for each in body["answers"]]}
        count = body.get("n", 1)
        if self.max_n is not None and count > self.max_n:
            return 400, {"error": {"message": f"n must be at most {self.max_n}"}}
        count = count if self.knows_n else 1
        with self.lock:
            drawn = [self.answers(body, self.rng) for _ in range(count)]
        choices = [self.choice(k, each, path) for k, each in enumerate(drawn)]
        usage = {"prompt_tokens": 10, "completion_tokens": 3 * count}
        kind = "chat.completion" if "chat" in path else "text_completion"
        shape = {"id": "x", "object": kind, "created": 1, "model": body["model"]}
        usage["total_tokens"] = 10 + 3 * count
        return 200, {**shape, "choices": choices, "usage": usage}

    def choice(self, index, drawn, path):
        if "chat" not in path:
            return {"index": index, "text": drawn, "finish_reason": "stop", "logprobs": None}
        message = {"role": "assistant", "content": drawn} if isinstance(drawn, str) else drawn
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        return {"index": index, "message": message, "finish_reason": reason}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        owner, body = self.owner, json.loads(content)
        with owner.lock:
            fault = owner.faults.pop(0) if owner.faults else None
            owner.requests.append(body)
            owner.received.append((dict(self.headers), content))
            owner.paths.append(self.path)
            owner.busy += 1
        try:
            self.respond(owner, body, fault)
        finally:
            with owner.lock:
                owner.busy -= 1

    def respond(self, owner, body, fault):
        sent = self.headers["Authorization"]
        if owner.key is not None and sent != f"Bearer {owner.key}":
            return self.send(401, {"error": {"message": f"Incorrect API key provided: {sent}"}})
        if fault == "drop" or owner.is_down:
            self.close_connection = True
            return None
        if fault == "half":  # dies in the middle of its answer
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.wfile.flush()
            self.close_connection = True
            return None
        if isinstance(fault, threading.Barrier | threading.Event):
            fault.wait(60)
        if isinstance(fault, int):
            return self.send(fault, {"error": {"message": "overloaded"}}, {"Retry-After": "0"})
        if fault == "zipped":
            return self.send(200, b"no gzip", {"Content-Encoding": "gzip"})
        if fault in ("garbled", "nonsense"):
            return self.send(200, b"<html>" if fault == "garbled" else ["not", "an", "object"])
        status, answer = owner.answer(self.path, body)
        if callable(fault):
            fault(answer)
        return self.send(status, answer)

    def send(self, status, content, headers=None):
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        with suppress(BrokenPipeError, ConnectionResetError):  # whom it was for has gone
            self.end_headers()
            self.wfile.write(text)


def asked(text, **settings):
    """The context of a question."""
    from tether.llm import chat_context

    return chat_context({"messages": [{"role": "user", "content": text}], **settings})
