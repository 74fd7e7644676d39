"""A small completions server on loopback, of vLLM's request and response shapes.

It runs tiny models of its own, token by token and without a cache, and shares no code with the
policies under test. As vLLM does, it takes settings that a request leaves out from its defaults,
seeds every prompt of a request alike, and completion k of a prompt with the seed plus k. With
`ignores_n` there is only one.
"""

import torch

from tests.llm.chat_server import Server

NEUTRAL = {
    **{"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0},
    **{"repetition_penalty": 1.0, "watermarking": False},
}


class Loopback(Server):
    def __init__(self, models, *, defaults=None, context=64, end=0, key=None, ignores_n=False):
        super().__init__(key)
        self.models, self.defaults, self.end = models, {**NEUTRAL, **(defaults or {})}, end
        self.context, self.ignores_n = context, ignores_n

    def answer(self, path, body):
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
                self.choice(place * count + k, model, prompt, body, k)
                for place, prompt in enumerate(prompts)
                for k in range(count)
            ]
        made = sum(len(each["token_ids"]) for each in choices)
        given = sum(map(len, prompts))
        usage = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
        shape = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"]}
        return 200, {**shape, "choices": choices, "usage": usage}

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
            logprobs = {"token_logprobs": stated, "tokens": names}
        return {
            "index": index,
            "text": " ".join(map(str, tokens)),
            "logprobs": logprobs,
            "finish_reason": "stop" if ended else "length",
            "token_ids": tokens if body.get("return_token_ids") else None,
            "prompt_logprobs": given,
            "prompt_token_ids": prompt if body.get("return_token_ids") else None,
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


def remote_policy(server, model="base", **options):
    """A policy of five tokens on this server that retries soon."""
    from tether.llm import OpenAIPolicy

    usual = {"eos_token_id": 0, "max_new_tokens": 5, "retries": 2, "probe_seconds": None}
    return OpenAIPolicy(server.url, model, **(usual | options))
