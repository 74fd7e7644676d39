"""When the tethered policy fails, the safe one answers, and it is written down."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny
from tests.llm.loopback import Loopback
from tether.llm import CausalPolicy, OpenAIPolicy, serve

PROMPTS = np.array([[5, 7, 9], [4, -1, -1], [6, 6, 6], [5, 7, -1]])


def local(**options):
    return CausalPolicy(tiny.llama(scale=0.3), None, max_new_tokens=4, eos_token_id=0, **options)


def served(server, **options):
    options = {"retries": 0, "max_new_tokens": 4, "eos_token_id": 0, **options}
    return OpenAIPolicy(server.url, "tuned", **options)


def rng():
    return np.random.default_rng(0)


@pytest.fixture
def server():
    with Loopback({"tuned": tiny.llama(scale=0.3, seed=1)}, context=12) as running:
        yield running


def test_nothing_falls_back_while_all_is_well(server):
    policy = tether.Tethered(local(), served(server), 0.8)
    found = serve(policy, PROMPTS, rng())
    assert not found.from_safe.any()
    assert found.failures == ()
    assert np.array_equal(found.actions, policy.sample(PROMPTS, rng()))
    assert set(found.source) == {"tethered"}


def test_a_server_that_is_gone_leaves_the_safe_answers():
    with Loopback({"tuned": tiny.llama()}) as running:
        policy = tether.Tethered(local(), served(running), 2.0)
    found = serve(policy, PROMPTS, rng())
    assert found.from_safe.all()
    assert set(found.source) == {"safe"}
    assert len(found.failures) == 1
    assert "ConnectError" in str(found)
    assert np.isfinite(local().log_prob(PROMPTS, found.actions)).all()


def test_a_server_that_dies_in_between(server):
    """Half-way through accept-reject: all of this call is the safe policy's, from scratch."""
    policy = tether.Tethered(local(), served(server, concurrency=1), 2.0)
    server.faults = [None, None, None, *["half"] * 50]
    found = serve(policy, PROMPTS, rng())
    assert found.from_safe.all()


def test_one_prompt_that_does_not_fit_takes_no_other_with_it(server):
    long = np.full((5, 10), -1)
    long[:4, :3] = PROMPTS
    long[4] = 6  # ten tokens and four more do not fit the server's context of twelve
    policy = tether.Tethered(local(), served(server), 0.8)
    found = serve(policy, long, rng())
    assert found.from_safe.tolist() == [False, False, False, False, True]
    assert "maximum context length is 12" in found.failures[0]
    assert (found.actions[:, 0] >= 0).all()


def test_a_safe_policy_that_fails_is_an_error():
    with Loopback({"tuned": tiny.llama()}) as running:
        gone = served(running)
    with pytest.raises(RuntimeError, match="the safe policy's sample failed"):
        serve(tether.Tethered(gone, local(), 2.0), PROMPTS, rng())
    with pytest.raises(TypeError, match="safe must be the safe policy"):
        serve(local(), PROMPTS, rng())
    assert not serve(local(), PROMPTS, rng(), safe=local()).from_safe.any()
