"""Exchanges recorded from a running vLLM: exactly these requests are sent, these responses read."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openai", reason="needs tether[api]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm.loopback_server import Loopback
from tether.llm import OpenAIPolicy

FOLDER = Path(__file__).parent / "contracts"


class Replay(Loopback):
    """Answers every request with a contract's response."""

    def __init__(self, name):
        super().__init__({})
        self.written = json.loads((FOLDER / f"{name}.json").read_text())

    def answer(self, path, body):
        return self.written["status"], self.written["response"]

    def policy(self):
        options = {"eos_token_id": 2, "max_new_tokens": 4, "probe_seconds": None}
        return OpenAIPolicy(self.url, "tuned", **options)


@pytest.mark.parametrize("name", ["sample", "cut_off", "several"])
def test_draws(name):
    with Replay(name) as server:
        written = server.written
        expected = written.get("actions") or [written["action"]]
        log_probs = written.get("log_probs") or [written["log_prob"]]
        prompts = [[5, 7, 9]] * len(expected)
        actions, stated = server.policy().sample_scored(prompts, np.random.default_rng(0))
        [sent] = server.requests
    assert sorted(actions.tolist()) == sorted(expected)
    assert np.allclose(sorted(stated), sorted(log_probs), rtol=0, atol=1e-12)
    assert 0 <= sent.pop("seed") < 2**63
    written["request"].pop("seed")
    assert sent == written["request"]


def test_scores():
    with Replay("score") as server:
        written = server.written
        scores = server.policy().log_prob([[5, 7, 9]] * 2, np.array(written["actions"]))
        assert server.requests == [written["request"]]
    assert np.allclose(scores, np.array(written["log_probs"], float), rtol=0, atol=1e-12)


def test_a_refusal_is_reported_and_not_repeated():
    with Replay("refused") as server:
        with pytest.raises(ValueError, match=r"status 400: .*maximum context length"):
            server.policy().sample([[5, 7, 9]], np.random.default_rng(0))
        assert len(server.requests) == 1
