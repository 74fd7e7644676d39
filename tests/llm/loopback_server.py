"""A small completions server on loopback, of vLLM's request and response shapes.

It runs tiny models of its own, token by token and without a cache, and shares no code with the
policies under test. As vLLM does, it takes settings that a request leaves out from its defaults,
seeds every prompt of a request alike, and completion k of a prompt with the seed plus k. With
`one_seed` all completions of a prompt have the same seed, and with `ignores_n` there is only one.
Each request takes the next of `faults`; one with a `wait`, such as a barrier or an event, holds the
response back until it is over.
"""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

NEUTRAL = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "watermarking": False,
}


class Loopback:
    """The server, running while the `with` block does."""

    def __init__(
        self, models, *, defaults=None, context=64, end=0, key=None, one_seed=False, ignores_n=False
    ):
        self.models, self.defaults, self.end = models, {**NEUTRAL, **(defaults or {})}, end
        self.context, self.key = context, key
        self.one_seed, self.ignores_n = one_seed, ignores_n
        self.faults, self.requests, self.headers = [], [], []
        self.busy, self.most_busy = 0, 0
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def __enter__(self):
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(self, body):
        prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
        longest = max(map(len, prompts)) + body["max_tokens"]
        if longest > self.context:
            message = f"This model's maximum context length is {self.context} tokens"
            return 400, {"error": {"message": message, "type": "BadRequestError", "code": 400}}
        if body["model"] not in self.models:
            message = f"The model `{body['model']}` does not exist."
            return 404, {"error": {"message": message, "type": "NotFoundError", "code": 404}}
        with self.lock, torch.no_grad():
            model, count = self.models[body["model"]], 1 if self.ignores_n else body.get("n", 1)
            choices = [
                self.choice(place * count + k, model, prompt, body, 0 if self.one_seed else k)
                for place, prompt in enumerate(prompts)
                for k in range(count)
            ]
        made = sum(len(each["token_ids"]) for each in choices)
        given = sum(map(len, prompts))
        usage = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
        return 200, {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 1,
            "model": body["model"],
            "choices": choices,
            "usage": usage,
        }

    def choice(self, index, model, prompt, body, number=0):
        setting = {name: body.get(name, value) for name, value in self.defaults.items()}
        generator = torch.Generator().manual_seed((body.get("seed") or 0) + number)
        tokens, stated = [], []
        ends = {self.end, *body.get("stop_token_ids", [])}
        while len(tokens) < body["max_tokens"] and not ends & set(tokens[-1:]):
            raw = torch.log_softmax(self.logits(model, prompt + tokens)[-1], -1)
            kept = self.kept(raw, setting)
            if setting["watermarking"]:  # the tokens before, and no seed, choose the next
                generator.manual_seed(sum(prompt + tokens))
            tokens.append(int(torch.multinomial(kept.double().exp(), 1, generator=generator)))
            stated.append(float(raw[tokens[-1]]))
        ended = tokens[-1] in ends
        given = None
        if body.get("prompt_logprobs") is not None:
            table = torch.log_softmax(self.logits(model, prompt), -1)
            count = body["prompt_logprobs"]
            given = [None]
            for row, token in zip(table, prompt[1:], strict=False):
                listed = [token, *row.topk(min(count, len(row))).indices.tolist()]
                given.append({str(each): self.entry(row, each) for each in listed})
        logprobs = None
        if body.get("logprobs") is not None:
            names = [f"token_id:{token}" for token in tokens]
            logprobs = {
                "text_offset": list(range(len(tokens))),
                "token_logprobs": stated,
                "tokens": names,
                "top_logprobs": [{a: b} for a, b in zip(names, stated, strict=True)],
            }
        return {
            "index": index,
            "text": " ".join(map(str, tokens)),
            "logprobs": logprobs,
            "finish_reason": "stop" if ended else "length",
            "stop_reason": None,
            "token_ids": tokens if body.get("return_token_ids") else None,
            "prompt_logprobs": given,
            "prompt_token_ids": prompt if body.get("return_token_ids") else None,
            "routed_experts": None,
        }

    def logits(self, model, tokens):
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float()

    def kept(self, raw, setting):
        kept = raw / setting["temperature"]
        if setting["top_k"] > 0:
            kept = kept.masked_fill(kept < kept.topk(setting["top_k"]).values[-1], -torch.inf)
        return torch.log_softmax(kept, -1)

    def entry(self, row, token):
        rank = int((row > row[token]).sum()) + 1
        return {"logprob": float(row[token]), "rank": rank, "decoded_token": str(token)}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        owner = self.owner
        with owner.lock:
            fault = owner.faults.pop(0) if owner.faults else None
            owner.requests.append(body)
            owner.headers.append(dict(self.headers))
            owner.busy += 1
            owner.most_busy = max(owner.most_busy, owner.busy)
        try:
            self.respond(owner, body, fault)
        finally:
            with owner.lock:
                owner.busy -= 1

    def respond(self, owner, body, fault):
        if owner.key is not None and self.headers["Authorization"] != f"Bearer {owner.key}":
            sent = self.headers["Authorization"]
            return self.send(401, {"error": {"message": f"Incorrect API key provided: {sent}"}})
        if fault == "drop":
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
            fault = (fault, "0")
        if isinstance(fault, tuple):  # a status, and what its Retry-After says
            headers = {} if fault[1] is None else {"Retry-After": fault[1]}
            return self.send(fault[0], {"error": {"message": "overloaded"}}, headers)
        if fault == "zipped":
            return self.send(200, b"no gzip", {"Content-Encoding": "gzip"})
        if fault == "garbled":
            return self.send(200, b"<html>")
        if fault == "nonsense":
            return self.send(200, ["not", "an", "object"])
        status, answer = owner.answer(body)
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


def remote_policy(server, model="base", **options):
    """A policy of five tokens on this server that retries soon."""
    from tether.llm import OpenAIPolicy

    options = {
        "eos_token_id": 0,
        "max_new_tokens": 5,
        "retries": 2,
        "probe_seconds": None,
    } | options
    return OpenAIPolicy(server.url, model, **options)
