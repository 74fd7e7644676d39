"""The token-level tether of real tiny models, against all their completions."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch

import tether
from tests.fit import chi_square
from tests.llm import tiny_models
from tether.llm import CausalPolicy, TokenTether

BETAS = np.linspace(-4.0, 2.0, 7)
EVERY = np.array(tiny_models.every_completion(5, 3, [0]))
PROMPT = np.array([2, 3, 1])
SAME = np.tile(PROMPT, (len(EVERY), 1))


def two_models(seeds=(0, 3), dtype=torch.float32):
    models = [tiny_models.llama(5, seed=seed).to(dtype) for seed in seeds]
    return [CausalPolicy(model, None, max_new_tokens=3) for model in models]


def two_adapters():
    model = tiny_models.with_adapters(tiny_models.llama(5), "tuned")
    return [CausalPolicy(model, None, adapter=each, max_new_tokens=3) for each in (None, "tuned")]


def next_token(policy, prefix):
    """The probabilities of the next token, as the policy scores single tokens."""
    single = CausalPolicy(policy.model, None, adapter=policy.adapter, max_new_tokens=1)
    tokens = np.arange(policy.vocabulary_size)[:, None]
    return np.exp(single.log_prob(np.tile(prefix, (len(tokens), 1)), tokens))


def by_definition(safe, optimized, family, action, log_beta):
    """The log-probability of a completion: the product over tokens of the normalized rule."""
    prefix, total = PROMPT.tolist(), 0.0
    for token in action[action >= 0]:
        s, o = next_token(safe, prefix), next_token(optimized, prefix)
        kernel = (
            np.minimum(o, np.exp(log_beta) * s) if family == "clip" else s + np.exp(log_beta) * o
        )
        total += np.log(kernel[token] / kernel.sum())
        prefix.append(int(token))
    return total


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("make", [two_models, two_adapters])
def test_scores_of_all_completions_follow_the_definition_and_sum_to_one(make, family):
    safe, optimized = make()
    pair = TokenTether(safe, optimized, family=family, log_betas=BETAS)
    scores = pair.path_scores(SAME, EVERY)
    assert np.allclose(np.exp(scores).sum(axis=0), 1, atol=1e-5)
    assert np.allclose(scores[:, 0], safe.log_prob(SAME, EVERY), atol=1e-5)
    assert np.allclose(scores[:, 1], optimized.log_prob(SAME, EVERY), atol=1e-5)
    for row in (0, 3, 17, 60, 84):
        for column in (0, 3, 6):
            exact = by_definition(safe, optimized, family, EVERY[row], BETAS[column])
            assert scores[row, 2 + column] == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize(
    "make", [two_models, two_adapters, lambda: two_models(dtype=torch.bfloat16)]
)
def test_draws_have_the_probabilities_of_their_scores(make):
    safe, optimized = make()
    policy = TokenTether(safe, optimized).tethered(0.5)
    scores = policy.log_prob(SAME, EVERY)
    actions, stated = policy.sample_scored(np.tile(PROMPT, (5_000, 1)), np.random.default_rng(1))
    place = (actions[:, None] == EVERY).all(axis=2)
    assert place.any(axis=1).all()
    assert np.allclose(scores[place.argmax(axis=1)], stated, atol=1e-5)
    assert chi_square(place.argmax(axis=1), np.exp(scores)) > 1e-3
    wrong = np.exp(safe.log_prob(SAME, EVERY))
    assert chi_square(place.argmax(axis=1), wrong) < 1e-6, "not those of the safe model"


def test_a_stream_is_the_sample_token_by_token_and_the_ends_are_the_two_models():
    safe, optimized = two_models()
    pair = TokenTether(safe, optimized)
    policy = pair.tethered(0.7)
    for seed in range(5):
        streamed = list(policy.stream(PROMPT[None], np.random.default_rng(seed)))
        sampled = policy.sample(PROMPT[None], np.random.default_rng(seed))[0]
        assert np.array_equal(np.concatenate(streamed), sampled[sampled >= 0])
    stream = policy.stream(PROMPT[None], np.random.default_rng(0))
    next(stream)
    assert not torch.is_inference_mode_enabled(), "the models are free between tokens"
    for beta, model in ((0, safe), (np.inf, optimized)):
        scores = pair.tethered(beta).log_prob(SAME, EVERY)
        assert np.allclose(scores, model.log_prob(SAME, EVERY), atol=1e-5)
        drawn = pair.tethered(beta).sample(SAME, np.random.default_rng(2))
        assert np.array_equal(drawn, model.sample(SAME, np.random.default_rng(2)))


@pytest.mark.parametrize("rule", [{"alpha": 0.05}, {"promise": 0.08}])
def test_calibrated_saved_loaded_served_and_pooled_over_two_rounds(tmp_path, rule):
    safe, optimized = two_models()
    pair = TokenTether(safe, optimized, log_betas=np.linspace(-6, 3, 19))
    rng = np.random.default_rng(0)
    prompts = rng.integers(1, 5, size=(400, 2))
    actions = safe.sample(prompts, rng)
    losses = (actions == 4).any(axis=1)
    name, room = next(iter(rule.items()))
    limit = {name: float(losses.mean()) + room}
    log = pair.make_log(prompts, actions, losses)
    proposals = pair.make_proposals(prompts, rng, draws=20)
    found = tether.calibrate(log, proposals, family=pair.family, **limit)
    assert found.exists
    assert found.log_beta in (-np.inf, *pair.log_betas, np.inf)
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    policy = pair.tethered(loaded)
    assert policy.log_beta == found.log_beta
    with pytest.raises(ValueError, match="polic"):  # another model than was calibrated
        TokenTether(*two_models((0, 4)), log_betas=pair.log_betas).tethered(loaded)
    with pytest.raises(ValueError, match="polic"):  # the two exchanged
        TokenTether(optimized, safe, log_betas=pair.log_betas).tethered(loaded)
    more = policy.sample(prompts, rng)
    mixture = tether.Mixture([safe, policy], [0.5, 0.5])
    every = np.concatenate((prompts, prompts)), np.concatenate((actions, more))
    second = pair.make_log(*every, (every[1] == 4).any(axis=1), logged_by=mixture)
    both = [each.log_prob(*every) for each in (safe, policy)]
    assert np.allclose(second.log_mix, np.logaddexp(*both) - np.log(2), atol=1e-5)


def test_draws_of_one_policy_are_in_rows_of_their_own():
    pair = TokenTether(*two_models(), log_betas=[-1.0, 0.0])
    prompts = np.array([[1, 2], [2, 3], [3, 1], [2, 2], [3, 3]])
    for draws in (4, 32):
        proposals = pair.make_proposals(prompts, np.random.default_rng(0), draws=draws)
        drawn_at = proposals.policy_path.drawn_at
        for level in (-1.0, 0.0, np.inf):
            labels = np.asarray(proposals.context)[drawn_at == level]
            assert len(labels) == len(np.unique(labels)) == min(draws, 5)


def test_pairs_and_betas_that_are_refused():
    safe, optimized = two_models()
    pair = TokenTether(safe, optimized)
    clip = tether.calibrate(tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50), alpha=0.1)
    for beta in (-1.0, clip):
        with pytest.raises(ValueError, match=r"beta|family"):
            pair.tethered(beta)
    longer = CausalPolicy(safe.model, None, max_new_tokens=4)
    for other, error in ((longer, ValueError), ("model", TypeError)):
        with pytest.raises(error, match=r"max_new_tokens|optimized"):
            TokenTether(safe, other)
    words = [tiny_models.tokenizer(), tiny_models.tokenizer(lossy=True)]
    apart = [CausalPolicy(tiny_models.llama(seed=k), each) for k, each in enumerate(words)]
    with pytest.raises(ValueError, match="tokenizers"):
        TokenTether(*apart)
