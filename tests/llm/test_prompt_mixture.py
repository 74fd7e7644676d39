"""A mixture over prompts: one distribution over completions."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.fit import chi_square
from tests.llm import tiny_models
from tether.llm import CausalPolicy, PromptMixture


def test_a_mixture_over_prompts_is_one_distribution():
    policy = CausalPolicy(tiny_models.llama(4, seed=3), None, max_new_tokens=3, eos_token_id=0)
    prompts = np.array([[1, 2], [3, 3], [2, 1]])
    mixture = PromptMixture(policy, prompts)
    every = np.array(tiny_models.every_completion(4, 3, [0]))
    apart = np.array([policy.log_prob(np.tile(each, (len(every), 1)), every) for each in prompts])
    scores = mixture.log_prob(None, every)
    assert np.allclose(np.exp(scores), np.exp(apart).mean(axis=0), atol=1e-6)
    actions = mixture.sample(20_000, np.random.default_rng(0))
    place = (actions[:, None] == every).all(axis=2).argmax(axis=1)
    assert chi_square(place, np.exp(scores)) > 1e-3
    with pytest.raises(TypeError, match="draws its own prompts"):
        mixture.sample(prompts, np.random.default_rng(0))


def test_a_number_of_prompts_is_refused():
    policy = CausalPolicy(tiny_models.llama(), None)
    with pytest.raises(TypeError, match="prompts must be texts or rows of token ids, got 4"):
        PromptMixture(policy, 4)
