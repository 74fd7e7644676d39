"""The token-level tether of real tiny models, against all their completions."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
import torch

import tether
from tests.fit import chi_square
from tests.llm import tiny_models
from tests.progress_reporter import Counted
from tether._core import progress
from tether.control import Acting
from tether.llm import CausalPolicy, TokenTether

BETAS = np.linspace(-4.0, 2.0, 7)
EVERY = np.array(tiny_models.every_completion(5, 3, [0]))
PROMPT = np.array([2, 3, 1])


def two_models(**options):
    options = {"max_new_tokens": 3, **options}
    models = tiny_models.llama(5), tiny_models.llama(5, seed=3)
    return [CausalPolicy(model, None, **options) for model in models]


def two_adapters():
    pytest.importorskip("peft")
    model = tiny_models.with_adapters(tiny_models.llama(5), "tuned")
    return [CausalPolicy(model, None, adapter=each, max_new_tokens=3) for each in (None, "tuned")]


def tables(policy, prefix):
    """The log-probabilities of the next token, one pass without cache or batch."""
    options = {}
    if policy.adapter is not None:
        policy.model.set_adapter(policy.adapter)
    elif hasattr(policy.model, "disable_adapter"):
        with policy.model.disable_adapter(), torch.no_grad():
            logits = policy.model(input_ids=torch.tensor([prefix]), **options).logits[0, -1]
        return torch.log_softmax(logits.double(), -1).numpy()
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([prefix]), **options).logits[0, -1]
    return torch.log_softmax(logits.double(), -1).numpy()


def by_definition(safe, optimized, family, action, log_beta):
    """The log-probability of a completion: the product over tokens of the normalized rule."""
    prefix, total = PROMPT.tolist(), 0.0
    for token in action[action >= 0]:
        s, o = (np.exp(tables(each, prefix)) for each in (safe, optimized))
        beta = np.exp(log_beta)
        kernel = np.minimum(o, beta * s) if family == "clip" else s + beta * o
        total += np.log(kernel[token] / kernel.sum())
        prefix.append(int(token))
    return total


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("make", [two_models, two_adapters])
def test_scores_of_all_completions_follow_the_definition_and_sum_to_one(make, family):
    safe, optimized = make()
    pair = TokenTether(safe, optimized, family=family, log_betas=BETAS)
    contexts = np.tile(PROMPT, (len(EVERY), 1))
    log = pair.make_log(contexts, EVERY, np.zeros(len(EVERY)))
    assert np.allclose(np.exp(log.policy_path.log_density).sum(axis=0), 1, atol=1e-5)
    assert np.allclose(log.log_safe, safe.log_prob(contexts, EVERY), atol=1e-5)
    assert np.allclose(log.log_optimized, optimized.log_prob(contexts, EVERY), atol=1e-5)
    for row in (0, 3, 17, 60, 84):
        for column in (0, 3, 6):
            exact = by_definition(safe, optimized, family, EVERY[row], BETAS[column])
            assert log.policy_path.log_density[row, column] == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("make", [two_models, two_adapters])
def test_draws_have_the_probabilities_of_their_scores(make):
    pair = TokenTether(*make())
    policy = pair.tethered(0.5)
    scores = policy.log_prob(np.tile(PROMPT, (len(EVERY), 1)), EVERY)
    prompts = np.tile(PROMPT, (5_000, 1))
    actions, stated = policy.sample_scored(prompts, np.random.default_rng(1))
    place = (actions[:, None] == EVERY).all(axis=2)
    assert place.any(axis=1).all()
    assert np.allclose(scores[place.argmax(axis=1)], stated, atol=1e-5)
    assert chi_square(place.argmax(axis=1), np.exp(scores)) > 1e-3
    other = make()[0].log_prob(np.tile(PROMPT, (len(EVERY), 1)), EVERY)
    assert chi_square(place.argmax(axis=1), np.exp(other)) < 1e-6, "not those of the safe model"


def test_a_stream_is_the_sample_token_by_token():
    policy = TokenTether(*two_models()).tethered(0.7)
    for seed in range(5):
        streamed = list(policy.stream(PROMPT[None], np.random.default_rng(seed)))
        sampled = policy.sample(PROMPT[None], np.random.default_rng(seed))[0]
        assert np.array_equal(np.concatenate(streamed), sampled[sampled >= 0])


def test_a_stream_leaves_the_models_free_between_tokens():
    safe, optimized = two_models()
    stream = (
        TokenTether(safe, optimized).tethered(0.7).stream(PROMPT[None], np.random.default_rng(0))
    )
    next(stream)
    assert not torch.is_inference_mode_enabled()
    safe.sample(PROMPT[None], np.random.default_rng(0))
    stream.close()


def test_the_ends_are_the_two_models():
    safe, optimized = two_models()
    pair, contexts = TokenTether(safe, optimized), np.tile(PROMPT, (len(EVERY), 1))
    for beta, model in ((0, safe), (np.inf, optimized)):
        scores = pair.tethered(beta).log_prob(contexts, EVERY)
        assert np.allclose(scores, model.log_prob(contexts, EVERY), atol=1e-5)
        drawn = pair.tethered(beta).sample(contexts, np.random.default_rng(2))
        assert np.array_equal(drawn, model.sample(contexts, np.random.default_rng(2)))


def test_calibrated_saved_loaded_and_served_over_two_rounds(tmp_path):
    safe, optimized = two_models()
    pair, rng = (
        TokenTether(safe, optimized, log_betas=np.linspace(-6, 3, 19)),
        np.random.default_rng(0),
    )
    prompts = rng.integers(1, 5, size=(400, 2))

    def loss(actions):
        return (actions == 4).any(axis=1)

    actions = safe.sample(prompts, rng)
    log = pair.make_log(prompts, actions, loss(actions))
    proposals = pair.make_proposals(prompts, rng, draws=20)
    alpha = float(loss(actions).mean()) + 0.05
    found = tether.calibrate(log, proposals, alpha=alpha, family=pair.family)
    assert found.exists
    found.save(tmp_path / "found.json")
    policy = pair.tethered(tether.Calibration.load(tmp_path / "found.json"))
    assert policy.log_beta == found.log_beta
    more = policy.sample(prompts, rng)
    mixture = tether.Mixture([safe, policy], [0.5, 0.5])
    every = np.concatenate((prompts, prompts)), np.concatenate((actions, more))
    second = pair.make_log(*every, loss(every[1]), logged_by=mixture)
    column = pair.log_betas.tolist().index(found.log_beta)
    both = second.log_safe, second.policy_path.log_density[:, column]
    assert np.allclose(second.log_mix, np.logaddexp(*both) - np.log(2), atol=1e-5)
    proposals = pair.make_proposals(prompts, rng, draws=20, logged_by=mixture)
    again = tether.calibrate(second, proposals, alpha=alpha, family=pair.family)
    assert again.exists


def test_draws_of_one_policy_are_in_rows_of_their_own():
    """Also where fewer rows are given than draws are asked for."""
    pair = TokenTether(*two_models(), log_betas=[-1.0, 0.0])
    distinct = np.array([[1, 2], [2, 3], [3, 1], [2, 2], [3, 3]])
    repeated = np.repeat([[1, 2]], 5, axis=0)
    rng = np.random.default_rng(0)
    for prompts, draws in ((distinct, 4), (distinct, 32), (repeated, 32)):
        proposals = pair.make_proposals(prompts, rng, draws=draws)
        drawn_at = proposals.policy_path.drawn_at
        assert len(drawn_at) == 3 * min(draws, 5)
        for level in (-1.0, 0.0, np.inf):
            labels = proposals.context[drawn_at == level]
            assert len(labels) == min(draws, 5)
            assert len(np.unique(labels)) == (len(labels) if prompts is distinct else 1)


def test_draws_and_scores_report_their_progress():
    pair, reporter = TokenTether(*two_models(), log_betas=[-1.0, 0.0]), Counted()
    prompts = np.array([[1, 2], [2, 3], [3, 1]])
    with progress.reported_to(reporter):
        actions = pair.tethered(1.0).sample(prompts, np.random.default_rng(0))
        pair.path_scores(prompts, actions)
    tokens = (actions >= 0).sum()
    assert reporter.steps == {"drawing completions": [3, 3], "scoring completions": [tokens] * 2}


def test_tables_of_likely_tokens_are_those_of_the_tethered_model():
    safe, optimized = two_models()
    policy = TokenTether(safe, optimized).tethered(0.5)
    tables = policy.token_tables(np.tile(PROMPT, (len(EVERY), 1)), EVERY)
    scores = np.zeros(len(EVERY))
    for row, position, tokens, values in zip(
        tables.row, tables.position, tables.tokens, tables.log_probs, strict=True
    ):
        assert np.exp(values).sum() == pytest.approx(1, abs=1e-6)
        scores[row] += values[tokens == EVERY[row, position]][0]
    assert np.allclose(scores, policy.log_prob(np.tile(PROMPT, (len(EVERY), 1)), EVERY), atol=1e-5)


def test_a_beta_of_another_family_is_refused():
    safe, optimized = two_models()
    pair = TokenTether(safe, optimized)
    log = tether.Log([0.0] * 50, [0.0] * 50, [0.0] * 50)
    with pytest.raises(ValueError, match="was calibrated for family 'clip'"):
        pair.tethered(tether.calibrate(log, alpha=0.1))
    with pytest.raises(ValueError, match="beta"):
        pair.tethered(-1.0)


def test_a_confidence_over_two_rounds_needs_the_policies_that_acted():
    safe, optimized = two_models()
    pair, rng = TokenTether(safe, optimized, log_betas=BETAS), np.random.default_rng(3)
    policy, prompts = pair.tethered(0.3), rng.integers(1, 5, size=(300, 2))
    actions = np.concatenate((safe.sample(prompts, rng), policy.sample(prompts, rng)))
    contexts = np.concatenate((prompts, prompts))
    mixture = tether.Mixture([safe, policy], [0.5, 0.5])
    losses = (actions == 4).any(axis=1)
    logged = [each.log_prob(contexts, actions) for each in (safe, policy)]
    acting = Acting(np.where(np.arange(600) < 300, *logged))
    proposals = pair.make_proposals(prompts, rng, draws=4, logged_by=mixture)
    settings = {"alpha": 0.9, "confidence": 0.9, "family": pair.family}
    log = pair.make_log(contexts, actions, losses, logged_by=mixture)
    with pytest.raises(ValueError, match="confidence needs acting"):
        tether.calibrate(log, proposals, **settings)
    log = pair.make_log(contexts, actions, losses, logged_by=mixture, acting=acting)
    found = tether.calibrate(log, proposals, **settings)
    assert found.exists
    assert found.promise == 0.9


def test_models_in_bfloat16_draw_what_they_score_in_higher_precision():
    safe, optimized = (
        CausalPolicy(tiny_models.llama(5, seed=seed).bfloat16(), None, max_new_tokens=3)
        for seed in (0, 3)
    )
    contexts = np.tile(PROMPT, (len(EVERY), 1))
    prompts, rng = np.tile(PROMPT, (5_000, 1)), np.random.default_rng(4)
    for policy in (safe, TokenTether(safe, optimized).tethered(0.5)):
        scores = policy.log_prob(contexts, EVERY)
        assert np.exp(scores).sum() == pytest.approx(1, abs=1e-4), "bfloat16 has steps of 1 %"
        actions, stated = policy.sample_scored(prompts, rng)
        place = (actions[:, None] == EVERY).all(axis=2).argmax(axis=1)
        assert np.allclose(scores[place], stated, atol=1e-5)
        assert chi_square(place, np.exp(scores)) > 1e-3
    log = TokenTether(safe, optimized, log_betas=BETAS).make_log(contexts, EVERY, np.zeros(85))
    assert np.allclose(np.exp(log.policy_path.log_density).sum(axis=0), 1, atol=1e-4)
