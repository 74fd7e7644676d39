"""Policies on a live vLLM 0.32: its scores, another adapter under a name, and what ends it."""

from threading import Event

import numpy as np
import pytest

pytest.importorskip("openai", reason="needs tether[api]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm.live.live_policies import END, LENGTH, PROGRAM, PROMPTS, live_policy
from tether.llm import CausalPolicy, ServerError
from tether.llm.client import answering

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="TETHER_VLLM names no vLLM")


def test_scores_are_those_of_transformers(folder, server):
    import peft
    from transformers import LlamaForCausalLM

    base = LlamaForCausalLM.from_pretrained(folder / "base").eval()
    model = peft.PeftModel.from_pretrained(base, folder / "tuned", adapter_name="tuned").eval()
    options = {"eos_token_id": END, "max_new_tokens": LENGTH}
    local = {
        "base": CausalPolicy(model, None, **options),
        "tuned": CausalPolicy(model, None, adapter="tuned", **options),
    }
    for name, mine in local.items():
        drawn, stated = live_policy(server, name).sample_scored(PROMPTS, np.random.default_rng(0))
        scored = live_policy(server, name).log_prob(PROMPTS, drawn)
        expected = mine.log_prob(PROMPTS, drawn)
        np.testing.assert_allclose(scored, expected, atol=1e-3)
        np.testing.assert_allclose(stated, expected, atol=1e-3)


def test_an_adapter_that_is_exchanged_under_its_name_is_found(exchanging_server):
    server = exchanging_server
    used = live_policy(server, "tuned", probe_seconds=0.0)
    drawn = used.sample(PROMPTS, np.random.default_rng(0))
    server.unload("tuned")
    server.load("tuned", "other")
    try:
        with pytest.raises(ValueError, match="no longer serves the model that was 'tuned'"):
            used.log_prob(PROMPTS, drawn)
    finally:
        server.unload("tuned")
        server.load("tuned")
    used.log_prob(PROMPTS, drawn)


def test_a_completion_that_the_context_cuts_off_is_named(server):
    prompt = 3 + np.arange(125)[None]  # of 128 tokens
    with pytest.raises(ValueError, match=r"after 3 of 12 tokens .* its context is full"):
        live_policy(server, "base").sample(prompt, np.random.default_rng(0))


def test_an_abandoned_call_leaves_the_server_usable(server):
    used = live_policy(server, "base", max_new_tokens=100)
    before = used.sample(PROMPTS, np.random.default_rng(0))
    end = Event()
    end.set()
    many = np.repeat(PROMPTS, 300, axis=0)
    with answering(end), pytest.raises(ServerError, match="was abandoned"):
        used.sample(many, np.random.default_rng(1))
    np.testing.assert_array_equal(before, used.sample(PROMPTS, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--override-generation-config", '{"max_new_tokens": 4}'), "it has a limit"),
        (("--logprobs-mode", "raw_logits"), "raw_logits"),
    ],
)
def test_settings_of_a_server_that_make_it_useless_are_named(folder, options, message):
    from tests.llm.live.vllm_server import VLLM

    prompts = np.repeat(PROMPTS, 20, axis=0)
    with VLLM(folder, *options) as running:
        used = live_policy(running, "base", probe_seconds=None)
        with pytest.raises(ValueError, match=message):
            used.sample(prompts, np.random.default_rng(0))
