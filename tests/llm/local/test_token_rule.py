"""The rule at a token, against sums over the vocabulary that follow the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers", reason="needs tether[llm]")
import torch

from tether.control import Clip, Mix
from tether.llm.local.token_rule import TokenRule

BETAS = np.array([-30.0, -4.0, -1.0, -0.5, 0.0, 0.25, 2.0, 30.0])


def brute_force(rule, safe, optimized, tokens, log_beta):
    """The log-probability of tokens, summed over the vocabulary in numpy."""
    if rule.blend:
        optimized = np.log((1 - rule.blend) * np.exp(optimized) + rule.blend * np.exp(safe))
    family = Clip() if rule.family == "clip" else Mix()
    kernel = np.exp(family.log_kernel(safe, optimized, log_beta))
    return np.log(kernel[np.arange(len(tokens)), tokens] / kernel.sum(axis=1))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    family=st.sampled_from(["clip", "mix"]),
    blend=st.sampled_from([0.0, 0.01, 0.3]),
    spread=st.sampled_from([0.1, 3.0, 30.0]),
    ties=st.booleans(),
)
def test_densities_follow_the_definition(seed, family, blend, spread, ties):
    rng = np.random.default_rng(seed)
    logits = torch.as_tensor(rng.normal(size=(2, 3, 7)) * spread)
    if ties:
        logits = logits.round()
        logits[1] = logits[0] + torch.as_tensor(rng.integers(3, size=(3, 7)))
    safe, optimized = torch.log_softmax(logits, dim=-1)
    tokens = torch.as_tensor(rng.integers(7, size=3))
    rule = TokenRule(family, blend)
    found = rule.log_densities(safe, optimized, tokens, BETAS).numpy()
    for column, log_beta in enumerate(BETAS):
        arrays = safe.numpy(), optimized.numpy(), tokens.numpy(), log_beta
        assert np.allclose(found[:, 2 + column], brute_force(rule, *arrays), atol=1e-9)
        table = rule.log_table(safe, optimized, float(log_beta))
        assert np.allclose(table.exp().sum(1), 1)
        assert np.allclose(table.gather(1, tokens[:, None])[:, 0], found[:, 2 + column], atol=1e-9)
    assert np.allclose(found[:, 0], safe.gather(1, tokens[:, None])[:, 0])
    assert np.array_equal(rule.log_table(safe, optimized, -np.inf), safe)
    assert np.array_equal(rule.log_table(safe, optimized, np.inf), rule.blended(safe, optimized))


def test_tokens_that_a_model_never_writes():
    safe = torch.tensor([[0.5, 0.5, 0.0, 0.0]]).double().log()
    optimized = torch.tensor([[0.0, 0.2, 0.8, 0.0]]).double().log()
    token = torch.tensor([1])
    found = TokenRule("clip").log_densities(safe, optimized, token, np.array([-9.0, 0.0, 9.0]))
    assert np.allclose(found[0, 2:], 0), "the only token that both write"
    never = TokenRule("clip").log_densities(safe, optimized, torch.tensor([0]), np.array([0.0]))
    assert never[0, 2] == -np.inf
    blended = TokenRule("clip", 0.1).log_densities(safe, optimized, token, np.array([-9.0]))
    assert np.isclose(blended[0, 2].exp(), 0.5), "with a blend a small beta is the safe model"
    apart = torch.tensor([[0.0, 0.0, 1.0, 0.0]]).double().log()
    with pytest.raises(ValueError, match="no token is possible under both models"):
        TokenRule("clip").log_densities(safe, apart, token, np.array([0.0]))


def test_the_name_says_what_the_rule_is():
    assert TokenRule("mix").name == "token_mix"
    assert TokenRule("clip", 0.01).name == "token_clip(0.01)"
    with pytest.raises(ValueError, match="family must be"):
        TokenRule("shortlist")
    with pytest.raises(ValueError, match="blend"):
        TokenRule("clip", 1.0)
