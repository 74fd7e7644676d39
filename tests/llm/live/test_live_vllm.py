"""Policies on a live vLLM 0.32: right servers pass, broken ones are found (make test-vllm)."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm.live.editing_proxy import EditingProxy
from tests.llm.live.vllm_server import END, PROGRAM, VLLM, make_models
from tether.llm import CausalPolicy, OpenAIPolicy, preflight

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="TETHER_VLLM names no vLLM")

PROMPTS = np.random.default_rng(0).integers(3, 300, size=(3, 5))
LENGTH = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models")
    make_models(made)
    return made


@pytest.fixture(scope="module")
def server(folder):
    with VLLM(folder) as running:
        yield running


def policy(server, model, **options):
    usual = {"eos_token_id": END, "max_new_tokens": LENGTH, "deadline": 60}
    return OpenAIPolicy(server.url, model, **{**usual, **options})


def failed(result):
    return [check.name for check in result.checks if check.status == "fail"]


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
        drawn, stated = policy(server, name).sample_scored(PROMPTS, np.random.default_rng(0))
        scored = policy(server, name).rescoring().log_prob(PROMPTS, drawn)
        expected = mine.log_prob(PROMPTS, drawn)
        np.testing.assert_allclose(scored, expected, atol=1e-3)
        np.testing.assert_allclose(stated, expected, atol=1e-3)


def test_two_right_servers_pass(folder, server):
    with VLLM(folder) as other:  # one adapter is asked for at each: nothing is mixed
        result = preflight(
            policy(server, "base"), policy(other, "tuned"), PROMPTS, np.random.default_rng(0)
        )
    assert result.passed, str(result)


def test_one_server_that_mixes_adapters_in_a_batch_is_found(server):
    """The processor's build of vLLM 0.32 answers for the base model with an adapter's weights.

    It does so if two adapters are loaded.
    """
    result = preflight(
        policy(server, "base"), policy(server, "tuned"), PROMPTS, np.random.default_rng(0)
    )
    assert failed(result) == ["safe: under traffic"], str(result)


BROKEN = {
    "temperature": ({"temperature": 0.9}, "sampling settings"),
    "top_p": ({"top_p": 0.9}, "sampling settings"),
    "top_k": ({"top_k": 20}, "sampling settings"),
    "min_p": ({"min_p": 0.1}, "sampling settings"),
    "repetition": ({"repetition_penalty": 1.5}, "sampling settings of all tokens"),
    "frequency": ({"frequency_penalty": 2.0}, "sampling settings of all tokens"),
    "seed": ({"seed": 7}, "distinct seeds"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_server_is_found(server, fault):
    changes, name = BROKEN[fault]

    def edit(body):
        if body.get("prompt_logprobs") is None:  # draws alone: scores are right
            body.update(changes)

    with EditingProxy(server, edit) as broken:
        length = {"max_new_tokens": 40}  # penalties need tokens that come back
        result = preflight(
            policy(broken, "base", **length),
            policy(broken, "tuned", **length),
            PROMPTS,
            np.random.default_rng(0),
        )
    found = {each.removeprefix("safe: ").removeprefix("optimized: ") for each in failed(result)}
    assert found & {name, "sampling settings"}, str(result)
    if fault in ("repetition", "frequency"):
        assert name in found, str(result)


def test_exchanged_policies_are_found_by_a_log(server):
    rng = np.random.default_rng(0)
    base, tuned = policy(server, "base"), policy(server, "tuned")
    prompts = np.repeat(PROMPTS, 8, axis=0)
    logged = prompts, base.sample(prompts, rng)
    result = preflight(tuned, base, PROMPTS, rng, logged=logged)
    assert "logged by the safe policy" in failed(result), str(result)


def test_an_adapter_that_is_exchanged_under_its_name_is_found(folder, server):
    used = policy(server, "tuned", probe_seconds=0.0)
    drawn = used.sample(PROMPTS, np.random.default_rng(0))
    load, unload = "load_lora_adapter", "unload_lora_adapter"
    try:
        assert server.post(unload, {"lora_name": "tuned"})[0] == 200
        other = {"lora_name": "tuned", "lora_path": str(folder / "other")}
        assert server.post(load, other)[0] == 200
        with pytest.raises(ValueError, match="another model as 'tuned'"):
            used.log_prob(PROMPTS, drawn)
    finally:
        server.post(unload, {"lora_name": "tuned"})
        server.post(load, {"lora_name": "tuned", "lora_path": str(folder / "tuned")})
    used.log_prob(PROMPTS, drawn)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--override-generation-config", '{"max_new_tokens": 4}'),
            "max_new_tokens in the model's generation_config",
        ),
        (("--logprobs-mode", "raw_logits"), "raw_logits"),
    ],
)
def test_settings_of_a_server_that_make_it_useless_are_named(folder, options, message):
    prompts = np.repeat(PROMPTS, 20, axis=0)
    with VLLM(folder, *options) as running:
        used = policy(running, "base", probe_seconds=None)
        with pytest.raises(ValueError, match=message):
            used.sample(prompts, np.random.default_rng(0))
