"""Two models that read the same tokens: which pairs are refused, and that batches do not matter."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm.local.test_token_tether import two_adapters, two_models
from tether.llm import CausalPolicy, TokenTether


def test_models_that_cannot_be_paired_are_refused():
    safe, optimized = two_models()
    with pytest.raises(TypeError, match=r"tether\.llm\.CausalPolicy"):
        TokenTether(safe, tether.Gaussian(0.0))
    with pytest.raises(ValueError, match="same max_new_tokens"):
        TokenTether(safe, optimized.shortened(2))
    with pytest.raises(ValueError, match="cannot share a batch"):
        TokenTether(safe, CausalPolicy(safe.model, None, max_new_tokens=3, temperature=0.5))
    other = CausalPolicy(optimized.model, None, max_new_tokens=3, eos_token_id=1)
    with pytest.raises(ValueError, match="end-of-sequence"):
        TokenTether(safe, other)


@pytest.mark.parametrize("make", [two_models, two_adapters])
def test_a_row_is_scored_alone_as_in_a_batch_with_longer_prompts(make):
    pair, rng = TokenTether(*make(), log_betas=[-1.0, 0.5]), np.random.default_rng(0)
    prompts = np.full((12, 6), -1)
    for row, size in enumerate(rng.integers(1, 7, size=12)):
        prompts[row, :size] = rng.integers(1, 5, size=size)
    actions = pair.tethered(0.5).sample(prompts, rng)
    together = pair.path_scores(prompts, actions)
    alone = np.concatenate(
        [pair.path_scores(prompts[[k]], actions[[k]]) for k in range(len(prompts))]
    )
    assert np.allclose(together, alone, atol=1e-5)
    small = [
        CausalPolicy(each.model, None, adapter=each.adapter, max_new_tokens=3, batch_tokens=20)
        for each in (pair.safe, pair.optimized)
    ]
    assert np.allclose(
        TokenTether(*small, log_betas=[-1.0, 0.5]).path_scores(prompts, actions), alone, atol=1e-5
    )


def test_two_models_and_two_adapters_run_as_one_or_two_lanes():
    assert len(TokenTether(*two_models()).pair.lanes) == 2
    assert len(TokenTether(*two_adapters()).pair.lanes) == 1


class Words:
    """A tokenizer whose words are at other ids."""

    def __init__(self, words):
        self.words = words

    def get_vocab(self):
        return {word: token for token, word in enumerate(self.words)}

    def encode(self, text, *, add_special_tokens):
        return [self.words.index(word) for word in text.split()]

    def decode(self, tokens, *, skip_special_tokens, clean_up_tokenization_spaces):
        return " ".join(self.words[token] for token in tokens)


def test_tokenizers_that_read_an_id_differently_are_refused():
    models = [each.model for each in two_models()]
    safe, same, other = Words("vwxyz"), Words("vwxy"), Words("vwxzy")
    options = {"max_new_tokens": 3, "eos_token_id": 0}
    TokenTether(CausalPolicy(models[0], safe, **options), CausalPolicy(models[1], same, **options))
    with pytest.raises(ValueError, match=r"tokenizers of safe and optimized.*3 is 'y'.*'z'"):
        TokenTether(
            CausalPolicy(models[0], safe, **options), CausalPolicy(models[1], other, **options)
        )
