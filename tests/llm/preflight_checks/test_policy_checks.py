"""Checks on one policy find what is wrong with it, and nothing else."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback
from tests.llm.preflight_checks.faulty_policies import (
    PROMPTS,
    SampledHotter,
    TopFive,
    make_pair,
)
from tether.llm import CausalPolicy, OpenAIPolicy
from tether.llm.preflight_checks.policy_checks import (
    check_distinct_draws,
    check_ends,
    check_round_trip,
    check_sampler_against_scorer,
    draw_and_check_first_tokens,
)


def test_repeats_within_a_call_and_from_call_to_call():
    rng = np.random.default_rng(0)
    actions, scores = rng.integers(3, 50_000, (64, 40)), np.full(64, -120.0)
    assert check_distinct_draws(actions, scores, 16, 8).status == "pass"
    actions[1], actions[17] = actions[0], actions[16]
    assert check_distinct_draws(actions, scores, 16, 8).status == "fail"
    likely = np.full(64, np.log(0.5))  # two completions: all are soon repeats
    actions = rng.integers(2, size=(4, 16))
    assert check_distinct_draws(actions.reshape(-1, 1), likely, 16, 8).status == "pass"
    actions[:, 8:] = actions[:, :8]
    assert check_distinct_draws(actions.reshape(-1, 1), likely, 16, 8).status == "fail"


def test_a_truncated_sampler_is_found_from_the_scores_of_its_draws_alone():
    """As on a server, where the scores of all other tokens are not to be had."""
    for kind, expected in ((CausalPolicy, "pass"), (TopFive, "fail"), (SampledHotter, "fail")):
        policy = make_pair(kind, 0.3)[0]
        policy.vocabulary_size = None
        check = draw_and_check_first_tokens(policy.shortened(1), PROMPTS, np.random.default_rng(0))
        assert check.status == expected, check
        assert "768 draws, scores of drawn tokens known" in check.measured


def test_a_server_that_ignores_sampling_settings_is_found():
    class Stubborn(Loopback):
        def kept(self, raw, setting):
            return super().kept(raw, {**setting, "top_k": 5})

    with Stubborn({"base": tiny_models.llama(scale=0.3)}) as server:
        policy = OpenAIPolicy(server.url, "base", eos_token_id=0, max_new_tokens=1)
        check = draw_and_check_first_tokens(policy, np.array([[5, 7, 9]]), np.random.default_rng(0))
    assert check.status == "fail", check


def test_what_cannot_be_measured_is_a_warning():
    check = check_sampler_against_scorer(np.full(3, np.nan), np.zeros(3))
    assert (check.status, np.isnan(check.value)) == ("warn", True)
    safe, _ = make_pair()
    unnamed = CausalPolicy(safe.model, None, max_new_tokens=5)
    assert check_round_trip(unnamed, np.array([[3, 0, -1, -1, -1]])).status == "warn"


def test_text_that_becomes_other_tokens_is_a_warning():
    words = tiny_models.tokenizer(lossy=True)
    policy = CausalPolicy(tiny_models.llama(), words, max_new_tokens=2)
    kept = words.convert_tokens_to_ids(["a", "b", "<bos>"])
    assert check_round_trip(policy, np.array([kept[:2], [kept[0], 0]])).status == "pass"
    check = check_round_trip(policy, np.array([kept[:2], [tiny_models.SIZE - 1, 0]]))
    assert (check.status, check.value) == ("warn", 0.5)


def test_completions_that_never_end_are_a_warning():
    policy = make_pair()[0]
    asked, actions = PROMPTS[:2], np.array([[3, 4, 5, 6, 7], [8, 4, 5, 6, 7]])
    check = check_ends(policy, asked, actions, policy.log_prob(asked, actions))
    assert (check.status, check.value) == ("warn", 1.0)
    assert "2 of 2 completions were cut off" in check.measured
    assert "max_new_tokens" in check.advice
