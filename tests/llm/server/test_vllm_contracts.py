"""vLLM's shapes: what is sent and what is read, field by field."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback
from tether.llm import OpenAIPolicy

FOLDER = Path(__file__).parents[1] / "contracts"


def contract(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


class Replay(Loopback):
    """Answers every request with a contract's response."""

    def __init__(self, name):
        super().__init__({})
        self.written = contract(name)

    def answer(self, body):
        return self.written["status"], self.written["response"]


def remote_policy(server, **options):
    return OpenAIPolicy(
        server.url,
        "tuned",
        eos_token_id=2,
        max_new_tokens=4,
        retries=0,
        probe_seconds=None,
        **options,
    )


@pytest.mark.parametrize("name", ["sample", "cut_off"])
def test_a_draw(name):
    written = contract(name)
    with Replay(name) as server:
        actions, stated = remote_policy(server).sample_scored([[5, 7, 9]], np.random.default_rng(0))
        sent = server.requests[0]
    assert actions.tolist() == [written["action"]]
    assert stated.tolist() == [written["log_prob"]]
    assert 0 <= sent.pop("seed") < 2**63
    written["request"].pop("seed")
    assert sent == written["request"]


def test_several_draws_of_one_prompt_share_a_request():
    written = contract("several")
    with Replay("several") as server:
        prompts, rng = [[5, 7, 9]] * 4, np.random.default_rng(0)
        actions, stated = remote_policy(server).sample_scored(prompts, rng)
        [sent] = server.requests
    assert sorted(actions.tolist()) == sorted(written["actions"])
    assert sorted(stated.tolist()) == sorted(written["log_probs"])
    assert len({tuple(action) for action in written["actions"]}) > 1
    assert written["request"]["n"] == 4
    written["request"].pop("seed")
    sent.pop("seed")
    assert sent == written["request"]


def test_scores():
    written = contract("score")
    with Replay("score") as server:
        scores = remote_policy(server).log_prob([[5, 7, 9]] * 2, np.array(written["actions"]))
        assert server.requests == [written["request"]]
    assert scores.tolist() == [float(each) for each in written["log_probs"]]


def test_a_refusal_is_reported_and_not_repeated():
    with Replay("refused") as server:
        policy = OpenAIPolicy(
            server.url, "tuned", eos_token_id=2, max_new_tokens=4, retries=3, probe_seconds=None
        )
        with pytest.raises(ValueError, match=r"status 400: This model's maximum context length"):
            policy.sample([[5, 7, 9]], np.random.default_rng(0))
        assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["sample", "several", "score"])
def test_the_loopback_server_answers_in_the_same_fields(name):
    written = contract(name)
    server = Loopback({"tuned": tiny_models.llama(320)})
    status, answer = server.answer(written["request"])
    server.http.server_close()
    assert status == 200
    known = written["response"]
    assert set(answer) <= set(known)
    for ours, theirs in zip(answer["choices"], known["choices"], strict=True):
        assert set(ours) == set(theirs)
        for field in ("logprobs", "prompt_logprobs"):
            assert shape(ours[field]) == shape(theirs[field])


def shape(value):
    """What a value is made of; token ids and names, as keys, are all alike."""
    if isinstance(value, dict):
        keys = [
            "token" if key.isdigit() or re.match(r"token_id|w\d+$|[^a-z]", key) else key
            for key in value
        ]
        return {key: shape(item) for key, item in zip(keys, value.values(), strict=True)}
    if isinstance(value, list):
        kinds = {json.dumps(shape(item)) for item in value}
        return sorted(kinds)
    return type(value).__name__
