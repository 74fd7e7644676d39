"""A server that mixes up models when it is asked for both at once."""

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import CausalPolicy, ServerError, preflight
from tether.llm.preflight_checks import policy_checks, traffic
from tether.llm.preflight_checks.traffic import traffic_of

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6]])


class MixedUp(Loopback):
    """Answers for the base model with the tuned one's weights while it is told to mix them up."""

    mixing = None

    def answer(self, body):
        kind = "log_prob" if body.get("prompt_logprobs") is not None else "sample_scored"
        return super().answer({**body, "model": "tuned"} if kind == self.mixing else body)


def make_server(kind=Loopback):
    models = {"base": tiny_models.llama(scale=0.3), "tuned": tiny_models.llama(scale=0.3, seed=1)}
    return kind(models)


def checked(server, name, other):
    """The check of a model while another one is sampled."""
    policy, rng = remote_policy(server, name).rescoring(), np.random.default_rng(0)
    drawn = policy.sample(PROMPTS, rng)
    scored = policy.log_prob(PROMPTS, drawn)
    other = remote_policy(server, other)
    return traffic.check_under_traffic(policy, other, PROMPTS, drawn, scored, rng)


def test_a_right_server_passes():
    with make_server() as server:
        found = checked(server, "base", "tuned")
    assert (found.name, found.status) == ("under traffic", "pass"), found
    assert found.value < 1e-4


@pytest.mark.parametrize("mixed", ["log_prob", "sample_scored"])
def test_a_server_that_mixes_models_is_found(monkeypatch, mixed):
    """Also if only its scores are wrong, or only its draws."""
    with make_server(MixedUp) as server:

        @contextmanager
        def mixing(policy, prompts, rng):
            with traffic_of(policy, prompts, rng):
                server.mixing = mixed
                yield
                server.mixing = None

        monkeypatch.setattr(traffic, "traffic_of", mixing)
        found = checked(server, "base", "tuned")
    assert found.status == "fail", found
    assert "another model's weights" in found.advice


def test_only_policies_on_servers_are_checked_so(monkeypatch):
    monkeypatch.setattr(policy_checks, "FIRST_TOKENS_WITHOUT_TABLE", 4)
    with make_server() as server:
        policies = [remote_policy(server, name) for name in ("base", "tuned")]
        result = preflight(*policies, PROMPTS[:1], np.random.default_rng(0), draws=3)
        local = CausalPolicy(server.models["tuned"], None, max_new_tokens=5, eos_token_id=0)
        mixed = preflight(policies[0], local, PROMPTS[:1], np.random.default_rng(0), draws=3)
    assert sum("under traffic" in check.name for check in result.checks) == 2
    assert not any("under traffic" in check.name for check in mixed.checks)


def test_an_error_of_the_traffic_is_raised():
    with make_server() as server:
        policy = remote_policy(server, "missing")
        rng = np.random.default_rng(0)
        with pytest.raises(ServerError, match="404"), traffic_of(policy, PROMPTS, rng):
            pass


def test_what_is_drawn_does_not_depend_on_the_traffic():
    with make_server() as server:
        policy, other = remote_policy(server, "base"), remote_policy(server, "tuned")
        drawn = []
        for _ in range(2):
            rng = np.random.default_rng(0)
            with traffic_of(other, PROMPTS, rng):
                drawn.append([policy.sample(PROMPTS, rng) for _ in range(5)])
    np.testing.assert_array_equal(*drawn)


def test_an_interrupt_does_not_wait_for_the_traffic():
    answer = threading.Event()
    with make_server() as server:
        other = remote_policy(server, "tuned")

        def interrupted():
            with traffic_of(other, PROMPTS, np.random.default_rng(0)):
                server.faults = [answer] * 100  # from now on it does not answer
                while len(server.faults) == 100:
                    time.sleep(0.01)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert server.busy  # with what nobody waits for
        answer.set()
