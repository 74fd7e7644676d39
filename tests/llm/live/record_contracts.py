"""Record the contracts from a live vLLM: `python -m tests.llm.live.record_contracts`."""

import json
import tempfile
from pathlib import Path

import numpy as np

from tests.llm.live.live_policies import END
from tests.llm.live.vllm_server import CONTEXT, VLLM, make_models
from tether.llm import OpenAIPolicy
from tether.llm.server.completion_requests import sample_request, score_request

FOLDER = Path(__file__).parents[1] / "contracts"
PROMPT = (5, 7, 9)


def record(server):
    """Ask for what the contracts are about, and write the answers as they are."""
    policy = OpenAIPolicy(server.url, "tuned", eos_token_id=END, max_new_tokens=4)
    found = {}
    for seed in range(10_000):
        request = sample_request(policy, PROMPT, 1, seed)
        status, response = server.post("completions", request)
        tokens = response["choices"][0]["token_ids"]
        name = "sample" if tokens[-1] == END and len(tokens) == 3 else "cut_off"
        if name == "cut_off" and END in tokens:
            continue
        if name not in found:
            stated = response["choices"][0]["logprobs"]["token_logprobs"]
            found[name] = {
                "request": request,
                "status": status,
                "response": response,
                "action": tokens + [-1] * (4 - len(tokens)),
                "log_prob": float(sum(stated)),
            }
        if len(found) == 2:
            break
    actions = [found[name]["action"] for name in ("sample", "cut_off")]
    rows = [(*PROMPT, *(token for token in action if token >= 0)) for action in actions]
    request = score_request("tuned", rows)
    status, response = server.post("completions", request)
    found["score"] = {
        "request": request,
        "status": status,
        "response": response,
        "actions": actions,
        "log_probs": policy.rescoring().log_prob(np.tile(PROMPT, (2, 1)), actions).tolist(),
    }
    request = sample_request(policy, PROMPT, 4, 0)
    status, response = server.post("completions", request)
    drawn = [choice["token_ids"] for choice in response["choices"]]
    found["several"] = {
        "request": request,
        "status": status,
        "response": response,
        "actions": [tokens + [-1] * (4 - len(tokens)) for tokens in drawn],
        "log_probs": [
            float(sum(choice["logprobs"]["token_logprobs"])) for choice in response["choices"]
        ],
    }
    long = sample_request(policy, tuple(range(3, 3 + CONTEXT + 10)), 1, 0)
    status, response = server.post("completions", long)
    found["refused"] = {"status": status, "response": response}
    for name, written in found.items():
        (FOLDER / f"{name}.json").write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        make_models(Path(made))
        with VLLM(Path(made)) as running:
            record(running)
