"""Scoring: exact log-probabilities of completions, however they are batched."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
import torch

from tests.llm import tiny_models
from tether.llm import CausalPolicy

PROMPTS = np.array(["a", "cat", "what is it?", "cat", "Where are we now", "b"])


@pytest.fixture(scope="module")
def policy():
    return CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=9)


@pytest.fixture(scope="module")
def drawn(policy):
    """Prompts and completions of very different lengths."""
    prompts = np.tile(PROMPTS, 8)
    return prompts, policy.sample(prompts, np.random.default_rng(0))


@pytest.mark.parametrize("ends", [[0], [0, 3]])
@pytest.mark.parametrize("make", [tiny_models.llama, tiny_models.neox])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_probabilities_of_all_completions_sum_to_one(make, ends, temperature):
    policy = CausalPolicy(
        make(5, scale=0.1),
        None,
        max_new_tokens=4,
        temperature=temperature,
        eos_token_id=ends,
        batch_tokens=512,
    )
    every = np.array(tiny_models.every_completion(5, 4, ends))
    for prompt in ([1, 2, 4], [2]):
        scores = policy.log_prob(np.tile(prompt, (len(every), 1)), every)
        assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)
        cut = policy.cut_off(every)
        assert 0.01 < np.exp(scores[cut]).sum() < 0.99


def test_scores_equal_those_computed_token_by_token(policy, drawn):
    prompts, actions = drawn
    assert len(set(map(tuple, actions.tolist()))) > 30
    assert {1, 9} <= set((actions >= 0).sum(axis=1)), "completions of one and of all tokens"
    expected = [
        tiny_models.one_by_one(policy.model, policy.prompts([prompt])[0], action)
        for prompt, action in zip(prompts, actions, strict=True)
    ]
    assert np.allclose(policy.log_prob(prompts, actions), expected, atol=2e-5)


@pytest.mark.parametrize("make", [tiny_models.gpt2, tiny_models.neox])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_padding_temperature_and_positions_are_right(make, temperature):
    """GPT-2 has learned positions, and so shows if filling is counted; rotary ones forgive it."""
    policy = CausalPolicy(
        make(), tiny_models.tokenizer(), max_new_tokens=5, temperature=temperature
    )
    for prompts in (PROMPTS, np.unique(PROMPTS)):  # with prompts that are shared, and without
        actions = policy.sample(prompts, np.random.default_rng(0))
        expected = [
            tiny_models.one_by_one(policy.model, policy.prompts([prompt])[0], action, temperature)
            for prompt, action in zip(prompts, actions, strict=True)
        ]
        assert np.allclose(policy.log_prob(prompts, actions), expected, atol=2e-5)
        stated = policy.sample_scored(prompts, np.random.default_rng(0))[1]
        assert np.allclose(stated, expected, atol=2e-5)


@pytest.mark.parametrize("batch_tokens", [1, 40, 10**6])
def test_scores_do_not_depend_on_batches(policy, drawn, batch_tokens):
    prompts, actions = drawn
    other = CausalPolicy(
        policy.model, policy.tokenizer, max_new_tokens=9, batch_tokens=batch_tokens
    )
    assert np.allclose(
        other.log_prob(prompts, actions), policy.log_prob(prompts, actions), atol=1e-5
    )
    order = np.random.default_rng(3).permutation(len(prompts))
    assert np.allclose(
        other.log_prob(prompts[order], actions[order]),
        policy.log_prob(prompts, actions)[order],
        atol=1e-5,
    )


def test_weights_of_half_precision_are_scored_in_single_precision():
    exact = CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=9)
    rough = CausalPolicy(
        tiny_models.llama().to(torch.bfloat16), tiny_models.tokenizer(), max_new_tokens=9
    )
    actions = rough.sample(PROMPTS, np.random.default_rng(2))
    scores = rough.log_prob(PROMPTS, actions)
    assert scores.dtype == np.float64
    assert np.allclose(scores, exact.log_prob(PROMPTS, actions), rtol=0.05, atol=0.5)
    prompt = rough.prompts(["cat"])[0]
    with torch.no_grad():
        logits = rough.model(input_ids=torch.tensor([prompt])).logits[0, -1].float()
    single = CausalPolicy(rough.model, rough.tokenizer, max_new_tokens=1)
    every = np.arange(len(tiny_models.LETTERS))
    first = single.log_prob(["cat"] * len(every), every[:, None])
    assert np.allclose(first, torch.log_softmax(logits, -1).numpy(), atol=1e-6)
    assert np.exp(first).sum() == pytest.approx(1, abs=1e-6)


def test_logits_that_are_not_finite_are_an_error():
    frozen = CausalPolicy(
        tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=4, temperature=1e-40
    )
    with pytest.raises(ValueError, match="by the temperature 1e-40 contain NaN or inf"):
        frozen.log_prob(["a"], np.array([[3, 4, 0, -1]]))
    model = tiny_models.llama()
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    broken = CausalPolicy(model, tiny_models.tokenizer(), max_new_tokens=4)
    with pytest.raises(ValueError, match="scores are NaN for 1 of 1"):
        broken.log_prob(["a"], np.array([[3, 4, 0, -1]]))
