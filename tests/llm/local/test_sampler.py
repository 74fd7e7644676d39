"""Sampling: draws have the probabilities of their scores."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
import torch

from tests.fit import chi_square
from tests.llm import tiny_models
from tether.llm import CausalPolicy

PROMPTS = np.array(["a", "cat", "what is it?", "cat", "Where are we now", "b"])


@pytest.fixture(scope="module")
def policy():
    return CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=9)


@pytest.mark.parametrize("make", [tiny_models.llama, tiny_models.neox])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_draws_have_the_probabilities_of_their_scores(make, temperature):
    policy = CausalPolicy(
        make(4, seed=3), None, max_new_tokens=3, temperature=temperature, eos_token_id=0
    )
    every = np.array(tiny_models.every_completion(4, 3, [0]))
    prompt = np.array([1, 3, 2])
    scores = policy.log_prob(np.tile(prompt, (len(every), 1)), every)
    actions = policy.sample(np.tile(prompt, (20_000, 1)), np.random.default_rng(1))
    place = (actions[:, None] == every).all(axis=2)
    assert place.any(axis=1).all()
    assert chi_square(place.argmax(axis=1), np.exp(scores)) > 1e-3


def test_a_row_is_drawn_alone_as_in_a_batch(policy):
    """A row on its own, with neither filling nor company."""
    prompts = np.array(sorted(PROMPTS, key=len)).repeat(6)
    first, rng = policy.shortened(1), np.random.default_rng(5)
    alone = np.concatenate([first.sample([prompt], rng) for prompt in prompts])
    together = first.sample(prompts, np.random.default_rng(5))
    assert np.array_equal(alone, together), "the same numbers draw the same tokens"
    longer = [policy.sample_scored([prompt], rng) for prompt in prompts]
    actions, stated = (np.concatenate(each) for each in zip(*longer, strict=True))
    scores = policy.log_prob(prompts, actions)
    assert np.allclose(scores, stated, atol=1e-5)
    one = tiny_models.one_by_one(policy.model, policy.prompts(prompts[2:3])[0], actions[2])
    assert policy.log_prob(prompts[2:3], actions[2:3])[0] == pytest.approx(one, abs=1e-5)
    assert scores[2] == pytest.approx(one, abs=1e-5)


def test_draws_depend_on_the_generator_alone(policy):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    rng = np.random.default_rng(1)
    first, second = policy.sample(PROMPTS, rng), policy.sample(PROMPTS, rng)
    assert np.array_equal(first, policy.sample(PROMPTS, np.random.default_rng(1)))
    assert not np.array_equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())
    with pytest.raises(TypeError, match="rng must be"):
        policy.sample(PROMPTS, 3)


def test_the_generation_config_is_not_applied():
    """`generate` with its own defaults never says what is not among the best 50; this does."""
    model = tiny_models.llama(400, scale=0.02)  # nearly uniform, so that top_k=50 leaves out 7 in 8
    prompt = torch.tensor([[1, 2]]).repeat(300, 1)
    torch.manual_seed(0)
    given = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=True, max_new_tokens=2,
        pad_token_id=0, top_k=50,
    )[:, 2:].numpy()  # fmt: skip
    model.generation_config.update(
        top_k=3, top_p=0.2, temperature=0.3, repetition_penalty=2.0, do_sample=True
    )
    policy = CausalPolicy(model, None, max_new_tokens=2)
    actions = policy.sample(prompt.numpy(), np.random.default_rng(0))
    assert len(np.unique(given[:, 0])) <= 50
    assert len(np.unique(actions[:, 0])) > 150
    assert np.isfinite(policy.log_prob(prompt.numpy(), actions)).all()
    first = policy.log_prob(np.tile([1, 2], (399, 1)), np.arange(1, 400)[:, None].repeat(2, axis=1))
    assert np.isfinite(first).all(), "no token is impossible"


def test_the_top_k_default_of_generate_shows_in_scores():
    """A sampler with top_k=50 has draws whose mean score is not that of this policy's draws."""
    model = tiny_models.llama(400, scale=0.02)
    policy = CausalPolicy(model, None, max_new_tokens=2)
    prompt = np.tile([1, 2], (400, 1))
    ours = policy.sample(prompt, np.random.default_rng(0))
    torch.manual_seed(0)
    theirs = model.generate(
        torch.tensor(prompt), attention_mask=torch.ones(400, 2), do_sample=True, max_new_tokens=2,
        pad_token_id=0,
    )[:, 2:].numpy()  # fmt: skip
    keep = (theirs != 0).all(axis=1)
    gap = policy.log_prob(prompt[keep], theirs[keep]).mean() - policy.log_prob(prompt, ours).mean()
    assert gap > 0.1
    assert len(np.unique(theirs[:, 0])) <= 50


def test_logits_that_are_not_finite_are_an_error():
    frozen = CausalPolicy(
        tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=4, temperature=1e-40
    )
    with pytest.raises(ValueError, match="by the temperature 1e-40 contain NaN or inf"):
        frozen.sample(["a"], np.random.default_rng(0))
    model = tiny_models.llama()
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    broken = CausalPolicy(model, tiny_models.tokenizer(), max_new_tokens=4)
    with pytest.raises(ValueError, match="cannot sample"):
        broken.sample(["a"], np.random.default_rng(0))
