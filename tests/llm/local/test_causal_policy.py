"""A language model as a policy: its settings, its adapters, and a tether between two of them."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")

import tether
from tests.fit import chi_square
from tests.llm import tiny_models
from tether.llm import CausalPolicy

PROMPTS = np.array(["a", "cat", "what is it?", "cat", "Where are we now", "b"])


@pytest.fixture(scope="module")
def model():
    return tiny_models.with_adapters(tiny_models.llama(), "short", "long", dropout=0.5)


class TestAdapters:
    def policies(self, model, *adapters):
        words = tiny_models.tokenizer()
        return [CausalPolicy(model, words, adapter=each, max_new_tokens=6) for each in adapters]

    def test_one_set_of_weights_makes_several_policies(self, model):
        plain = CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=6)
        safe, short, long = self.policies(model, None, "short", "long")
        actions = safe.sample(PROMPTS, np.random.default_rng(0))
        assert np.array_equal(actions, plain.sample(PROMPTS, np.random.default_rng(0)))
        scores = [each.log_prob(PROMPTS, actions) for each in (plain, safe, short, long)]
        assert np.allclose(scores[0], scores[1], atol=1e-6)
        assert np.abs(scores[2] - scores[1]).min() > 1e-3
        assert np.abs(scores[3] - scores[2]).min() > 1e-3

    def test_the_state_of_the_model_is_restored(self, model):
        model.set_adapter("short")
        model.train()
        learning = [each.requires_grad for each in model.parameters()]
        for each in self.policies(model, None, "long", "short"):
            one = each.log_prob(PROMPTS, each.sample(PROMPTS, np.random.default_rng(0)))
            two = each.log_prob(PROMPTS, each.sample(PROMPTS, np.random.default_rng(0)))
            assert np.array_equal(one, two), "dropout is off, though the model is in training"
        assert model.training
        assert model.active_adapters == ["short"]
        assert learning == [each.requires_grad for each in model.parameters()]
        model.eval()

    def test_both_policies_in_one_pass(self, model):
        prompts = np.tile(PROMPTS, 5)
        for pair in ((None, "long"), ("short", "long"), ("long", None)):
            one, two = self.policies(model, *pair)
            actions = one.sample(prompts, np.random.default_rng(0))
            passes = []
            hook = model.register_forward_pre_hook(lambda *_, passes=passes: passes.append(1))
            expected = one.log_prob(prompts, actions), two.log_prob(prompts, actions)
            apart = len(passes)
            both = one.log_prob_both(two, prompts, actions)
            hook.remove()
            assert len(passes) - apart < apart
            for found, wanted in zip(both, expected, strict=True):
                assert np.allclose(found, wanted, atol=1e-5)

    def test_a_tether_scores_both_at_once(self, model, monkeypatch):
        safe, optimized = self.policies(model, None, "long")
        apart, both = [], []
        alone, together = CausalPolicy.log_prob, CausalPolicy.log_prob_both
        monkeypatch.setattr(CausalPolicy, "log_prob", lambda *a: apart.append(1) or alone(*a))
        monkeypatch.setattr(
            CausalPolicy, "log_prob_both", lambda *a: both.append(1) or together(*a)
        )
        rng = np.random.default_rng(0)
        tethered = tether.Tethered(safe, optimized, 1.0, normalizer_draws=4)
        actions = tethered.sample(PROMPTS, rng)
        tether.make_proposals(safe, optimized, PROMPTS, 2, rng)
        assert len(both) >= 3
        tether.make_log(safe, optimized, PROMPTS, actions, np.zeros(len(actions)))
        tethered.log_prob(PROMPTS, actions)
        assert len(both) >= 7  # one of the log, one of the actions, two of the normalizer
        assert not apart

    def test_policies_of_other_weights_are_scored_one_after_the_other(self, model):
        one = self.policies(model, "short")[0]
        two = CausalPolicy(tiny_models.llama(seed=5), tiny_models.tokenizer(), max_new_tokens=6)
        actions = one.sample(PROMPTS, np.random.default_rng(0))
        both = one.log_prob_both(two, PROMPTS, actions)
        assert not one.shares_weights(two)
        assert np.array_equal(both[0], one.log_prob(PROMPTS, actions))
        assert np.array_equal(both[1], two.log_prob(PROMPTS, actions))

    def test_adapters_that_do_not_mix_are_scored_one_after_the_other(self):
        model = tiny_models.with_adapters(tiny_models.llama(), "tuned", use_dora=True)
        one, two = self.policies(model, None, "tuned")
        assert not one.shares_weights(two)
        actions = one.sample(PROMPTS, np.random.default_rng(0))
        both = one.log_prob_both(two, PROMPTS, actions)
        assert np.array_equal(both[1], two.log_prob(PROMPTS, actions))
        assert not np.allclose(*both)

    def test_bad_adapters(self, model):
        with pytest.raises(ValueError, match=r"adapter must be one of \['long', 'short'\]"):
            self.policies(model, "nobody")
        with pytest.raises(ValueError, match="has no adapters"):
            CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), adapter="short")


def test_a_tether_between_two_models_keeps_its_density():
    """Accept-reject over completions, against the clip density of all of them written out."""
    safe, optimized = (
        CausalPolicy(
            tiny_models.llama(4, seed=seed, scale=0.3), None, max_new_tokens=3, eos_token_id=0
        )
        for seed in (3, 4)
    )
    every = np.array(tiny_models.every_completion(4, 3, [0]))
    prompt = np.array([1, 3, 2])
    here = np.tile(prompt, (len(every), 1))
    beta = 0.8
    kernel = np.minimum(optimized.log_prob(here, every), safe.log_prob(here, every) + np.log(beta))
    log_psi = np.logaddexp.reduce(kernel)
    policy = tether.Tethered(safe, optimized, beta)
    prompts = np.tile(prompt, (4000, 1))
    actions, info = policy.sample_with_info(prompts, np.random.default_rng(0))
    place = (actions[:, None] == every).all(axis=2).argmax(axis=1)
    assert chi_square(place, np.exp(kernel - log_psi)) > 1e-3
    assert info.acceptance == pytest.approx(np.exp(log_psi) / beta, abs=0.03)


def test_calibration_with_prompts_is_contextual_and_goes_end_to_end():
    rng = np.random.default_rng(0)
    model = tiny_models.with_adapters(tiny_models.llama(scale=0.3), "tuned")
    safe, optimized = (
        CausalPolicy(model, tiny_models.tokenizer(), adapter=each, max_new_tokens=4)
        for each in (None, "tuned")
    )
    prompts = rng.choice(PROMPTS, size=60)
    actions = safe.sample(prompts, rng)
    losses = safe.cut_off(actions) * 0.5
    log = tether.make_log(safe, optimized, prompts, actions, losses)
    assert log.contextual
    proposals = tether.make_proposals(safe, optimized, np.unique(prompts), 16, rng)
    found = tether.calibrate(log, proposals, alpha=0.49, bound=0.5)
    policy = tether.Tethered(safe, optimized, found, normalizer_draws=16)
    assert policy.sample(prompts[:5], rng).shape == (5, 4)
    with pytest.raises(ValueError, match="has contexts"):
        tether.calibrate(log, alpha=0.49, bound=0.5)


def test_a_model_without_end_token_needs_one():
    model = tiny_models.llama(end=None)
    model.generation_config.eos_token_id = None
    with pytest.raises(ValueError, match="there is no end-of-sequence token"):
        CausalPolicy(model, None)
    assert CausalPolicy(model, None, eos_token_id=3).end_token_ids.tolist() == [3]
    with pytest.raises(ValueError, match="eos_token_id 57 is outside the vocabulary of 57"):
        CausalPolicy(model, None, eos_token_id=57)


def test_bad_settings():
    model, words = tiny_models.llama(), tiny_models.tokenizer()
    for options, message in (
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be an integer of at least 1, got 0"),
        ({"batch_tokens": 1.5}, "batch_tokens must be an integer"),
    ):
        with pytest.raises(ValueError, match=message):
            CausalPolicy(model, words, **options)
    with pytest.raises(TypeError, match="eos_token_id must be one or several token ids"):
        CausalPolicy(model, words, eos_token_id="end")
    assert "adapter=None" in repr(CausalPolicy(model, words))
