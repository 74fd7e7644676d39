"""Preflight on a live vLLM: a right server passes, broken ones are found with the right reason."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm.live.editing_proxy import EditingProxy
from tests.llm.live.live_policies import LENGTH, PROGRAM, PROMPTS, live_policy
from tether.llm import preflight

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="TETHER_VLLM names no vLLM")


def failed(result):
    """What failed of either policy: the names of checks, without that of the policy."""
    names = {check.name for check in result.checks if check.status == "fail"}
    return {name.removeprefix("safe: ").removeprefix("optimized: ") for name in names}


def test_two_right_servers_pass(base_server, tuned_server):
    result = preflight(
        live_policy(base_server, "base"),
        live_policy(tuned_server, "tuned"),
        PROMPTS,
        np.random.default_rng(0),
    )
    assert result.passed, str(result)
    assert "a fallback needs a second server" not in str(result)


def test_a_server_that_mixes_up_weights_in_a_batch_is_found_under_traffic(server):
    """The processor's build of vLLM 0.32 does so; every other check passes there."""
    result = preflight(
        live_policy(server, "base"), live_policy(server, "tuned"), PROMPTS, np.random.default_rng(0)
    )
    assert failed(result) == {"under traffic"}, str(result)
    assert "a fallback needs a second server" in str(result)


SETTINGS = {"sampling settings", "sampling settings of all tokens"}
IMPOSSIBLE = {
    "mean ratio under the safe policy",
    "mean ratio under the optimized policy",
    "KL(optimized ‖ safe)",
    "KL(safe ‖ optimized)",
}
"""What may fail as well where draws are not what is scored."""
BROKEN = {
    "temperature": ({"temperature": 0.9}, SETTINGS, 40),
    "top_p": ({"top_p": 0.9}, SETTINGS, 40),
    "top_k": ({"top_k": 20}, SETTINGS, LENGTH),
    "min_p": ({"min_p": 0.1}, SETTINGS, LENGTH),
    "repetition penalty": ({"repetition_penalty": 1.5}, SETTINGS - {"sampling settings"}, 40),
    "frequency penalty": ({"frequency_penalty": 2.0}, SETTINGS - {"sampling settings"}, 40),
    "one seed": ({"seed": 7}, {"distinct seeds"}, LENGTH),
}
"""What a server changes in requests for draws, what must fail, and tokens in a completion."""


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_server_is_found_with_the_right_reason(base_server, tuned_server, fault):
    changes, reasons, length = BROKEN[fault]

    def edit(body):
        body.update(changes)

    with EditingProxy(base_server, edit) as safe, EditingProxy(tuned_server, edit) as optimized:
        result = preflight(
            live_policy(safe, "base", max_new_tokens=length),
            live_policy(optimized, "tuned", max_new_tokens=length),
            PROMPTS,
            np.random.default_rng(0),
        )
    found = failed(result)
    assert found & reasons, str(result)
    if fault != "one seed":  # the same draws again and again look like anything
        # a repetition penalty acts on tokens of the prompt, and so on first tokens, too
        assert found <= reasons | SETTINGS | IMPOSSIBLE, str(result)


def test_draws_of_another_adapter_are_found(server):
    with EditingProxy(server, lambda body: body.update(model="tuned")) as broken:
        result = preflight(
            live_policy(broken, "base"),
            live_policy(broken, "tuned"),
            PROMPTS,
            np.random.default_rng(0),
        )
    assert "sampler against scorer" in failed(result), str(result)


def test_answers_from_a_cache_are_found(server):
    cache = {}

    def remembered(body, answer):
        return cache.setdefault(str({**body, "seed": None}), answer)

    with EditingProxy(server, answered=remembered) as broken:
        result = preflight(
            live_policy(broken, "base"),
            live_policy(broken, "tuned"),
            PROMPTS,
            np.random.default_rng(0),
            draws=4,
        )
    assert "distinct seeds" in failed(result), str(result)


def test_draws_after_another_template_are_found(server):
    def with_begin(body):
        body["prompt"] = [1, *body["prompt"]]

    with (
        EditingProxy(server, with_begin) as broken,
        pytest.raises(ValueError, match="read other token ids than were sent"),
    ):
        live_policy(broken, "base").sample(PROMPTS, np.random.default_rng(0))

    def silent(_, answer):  # a server that does not say what it read
        for choice in answer["choices"]:
            choice["prompt_token_ids"] = None
        return answer

    with EditingProxy(server, with_begin, silent) as broken:
        result = preflight(
            live_policy(broken, "base"),
            live_policy(broken, "tuned"),
            PROMPTS,
            np.random.default_rng(0),
        )
    assert "sampler against scorer" in failed(result), str(result)


def test_a_server_that_ends_completions_early_is_found(server):
    def shorter(body):
        body["max_tokens"] = min(body["max_tokens"], 4)

    with (
        EditingProxy(server, shorter) as broken,
        pytest.raises(ValueError, match=r"after 4 of 12 tokens .* max_new_tokens in the model's"),
    ):
        preflight(
            live_policy(broken, "base"),
            live_policy(broken, "tuned"),
            PROMPTS,
            np.random.default_rng(0),
        )


def test_exchanged_policies_are_found_by_a_log(server):
    rng = np.random.default_rng(0)
    base, tuned = live_policy(server, "base"), live_policy(server, "tuned")
    prompts = np.repeat(PROMPTS, 8, axis=0)
    logged = prompts, base.sample(prompts, rng)
    result = preflight(tuned, base, PROMPTS, rng, logged=logged)
    assert "logged by the safe policy" in failed(result), str(result)
    result = preflight(base, tuned, PROMPTS, rng, logged=logged)
    assert "logged by the safe policy" not in failed(result), str(result)
