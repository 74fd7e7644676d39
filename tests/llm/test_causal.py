"""Sampling and scoring: the probabilities are those of the draws, whatever the batches are."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch

import tether
from tests.fit import chi_square
from tests.llm import tiny
from tether.llm import CausalPolicy, PromptMixture

PROMPTS = np.array(["a", "cat", "what is it?", "cat", "Where are we now", "b"])


@pytest.fixture(scope="module")
def policy():
    return CausalPolicy(tiny.llama(), tiny.tokenizer(), max_new_tokens=9)


@pytest.fixture(scope="module")
def drawn(policy):
    """Prompts and completions of very different lengths."""
    prompts = np.tile(PROMPTS, 8)
    return prompts, policy.sample(prompts, np.random.default_rng(0))


@pytest.mark.parametrize("ends", [[0], [0, 3]])
@pytest.mark.parametrize("make", [tiny.llama, tiny.neox])
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
    every = np.array(tiny.every_completion(5, 4, ends))
    for prompt in ([1, 2, 4], [2]):
        scores = policy.log_prob(np.tile(prompt, (len(every), 1)), every)
        assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)
        cut = policy.cut_off(every)
        assert 0.01 < np.exp(scores[cut]).sum() < 0.99


@pytest.mark.parametrize("make", [tiny.llama, tiny.neox])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_draws_have_the_probabilities_of_their_scores(make, temperature):
    policy = CausalPolicy(
        make(4, seed=3), None, max_new_tokens=3, temperature=temperature, eos_token_id=0
    )
    every = np.array(tiny.every_completion(4, 3, [0]))
    prompt = np.array([1, 3, 2])
    scores = policy.log_prob(np.tile(prompt, (len(every), 1)), every)
    actions = policy.sample(np.tile(prompt, (20_000, 1)), np.random.default_rng(1))
    place = (actions[:, None] == every).all(axis=2)
    assert place.any(axis=1).all()
    assert chi_square(place.argmax(axis=1), np.exp(scores)) > 1e-3


def test_scores_are_those_of_the_model_asked_token_by_token(policy, drawn):
    prompts, actions = drawn
    assert len(set(map(tuple, actions.tolist()))) > 30
    assert {1, 9} <= set((actions >= 0).sum(axis=1)), "completions of one and of all tokens"
    expected = [
        tiny.one_by_one(policy.model, policy.prompts([prompt])[0], action)
        for prompt, action in zip(prompts, actions, strict=True)
    ]
    assert np.allclose(policy.log_prob(prompts, actions), expected, atol=2e-5)


@pytest.mark.parametrize("make", [tiny.gpt2, tiny.neox])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_filling_temperature_and_positions_are_right(make, temperature):
    """GPT-2 has learned positions, and so shows if filling is counted; rotary ones forgive it."""
    policy = CausalPolicy(make(), tiny.tokenizer(), max_new_tokens=5, temperature=temperature)
    for prompts in (PROMPTS, np.unique(PROMPTS)):  # with prompts that are shared, and without
        actions = policy.sample(prompts, np.random.default_rng(0))
        expected = [
            tiny.one_by_one(policy.model, policy.prompts([prompt])[0], action, temperature)
            for prompt, action in zip(prompts, actions, strict=True)
        ]
        assert np.allclose(policy.log_prob(prompts, actions), expected, atol=2e-5)
        stated = policy.sample_scored(prompts, np.random.default_rng(0))[1]
        assert np.allclose(stated, expected, atol=2e-5)


@pytest.mark.parametrize("batch_tokens", [1, 40, 10**6])
def test_batches_change_nothing(policy, drawn, batch_tokens):
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


def test_one_row_is_drawn_alone_as_it_is_in_company(policy):
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
    one = tiny.one_by_one(policy.model, policy.prompts(prompts[2:3])[0], actions[2])
    assert policy.log_prob(prompts[2:3], actions[2:3])[0] == pytest.approx(one, abs=1e-5)
    assert scores[2] == pytest.approx(one, abs=1e-5)


def test_the_generator_decides_and_is_used_up(policy):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    rng = np.random.default_rng(1)
    first, second = policy.sample(PROMPTS, rng), policy.sample(PROMPTS, rng)
    assert np.array_equal(first, policy.sample(PROMPTS, np.random.default_rng(1)))
    assert not np.array_equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())
    with pytest.raises(TypeError, match="rng must be"):
        policy.sample(PROMPTS, 3)


def test_what_the_generation_config_says_is_not_applied():
    """`generate` with its own defaults never says what is not among the best 50; this does."""
    model = tiny.llama(400, scale=0.02)  # nearly uniform, so that top_k=50 leaves out 7 in 8
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


def test_the_top_k_default_of_generate_is_told_apart_by_its_scores():
    """A sampler with top_k=50 has draws whose mean score is not that of this policy's draws."""
    model = tiny.llama(400, scale=0.02)
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


def test_weights_of_half_precision_are_scored_in_single_precision():
    exact = CausalPolicy(tiny.llama(), tiny.tokenizer(), max_new_tokens=9)
    rough = CausalPolicy(tiny.llama().to(torch.bfloat16), tiny.tokenizer(), max_new_tokens=9)
    actions = rough.sample(PROMPTS, np.random.default_rng(2))
    scores = rough.log_prob(PROMPTS, actions)
    assert scores.dtype == np.float64
    assert np.allclose(scores, exact.log_prob(PROMPTS, actions), rtol=0.05, atol=0.5)
    prompt = rough.prompts(["cat"])[0]
    with torch.no_grad():
        logits = rough.model(input_ids=torch.tensor([prompt])).logits[0, -1].float()
    single = CausalPolicy(rough.model, rough.tokenizer, max_new_tokens=1)
    every = np.arange(len(tiny.LETTERS))
    first = single.log_prob(["cat"] * len(every), every[:, None])
    assert np.allclose(first, torch.log_softmax(logits, -1).numpy(), atol=1e-6)
    assert np.exp(first).sum() == pytest.approx(1, abs=1e-6)


@pytest.fixture(scope="module")
def model():
    return tiny.with_adapters(tiny.llama(), "short", "long", dropout=0.5)


class TestAdapters:
    def policies(self, model, *adapters):
        words = tiny.tokenizer()
        return [CausalPolicy(model, words, adapter=each, max_new_tokens=6) for each in adapters]

    def test_one_set_of_weights_makes_several_policies(self, model):
        plain = CausalPolicy(tiny.llama(), tiny.tokenizer(), max_new_tokens=6)
        safe, short, long = self.policies(model, None, "short", "long")
        actions = safe.sample(PROMPTS, np.random.default_rng(0))
        assert np.array_equal(actions, plain.sample(PROMPTS, np.random.default_rng(0)))
        scores = [each.log_prob(PROMPTS, actions) for each in (plain, safe, short, long)]
        assert np.allclose(scores[0], scores[1], atol=1e-6)
        assert np.abs(scores[2] - scores[1]).min() > 1e-3
        assert np.abs(scores[3] - scores[2]).min() > 1e-3

    def test_the_model_is_left_as_it_was(self, model):
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
        two = CausalPolicy(tiny.llama(seed=5), tiny.tokenizer(), max_new_tokens=6)
        actions = one.sample(PROMPTS, np.random.default_rng(0))
        both = one.log_prob_both(two, PROMPTS, actions)
        assert not one.shares_weights(two)
        assert np.array_equal(both[0], one.log_prob(PROMPTS, actions))
        assert np.array_equal(both[1], two.log_prob(PROMPTS, actions))

    def test_adapters_that_do_not_mix_are_scored_one_after_the_other(self):
        model = tiny.with_adapters(tiny.llama(), "tuned", use_dora=True)
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
            CausalPolicy(tiny.llama(), tiny.tokenizer(), adapter="short")


def test_a_tether_between_two_models_keeps_its_density():
    """Accept-reject over completions, against the clip density of all of them written out."""
    safe, optimized = (
        CausalPolicy(tiny.llama(4, seed=seed, scale=0.3), None, max_new_tokens=3, eos_token_id=0)
        for seed in (3, 4)
    )
    every = np.array(tiny.every_completion(4, 3, [0]))
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
    model = tiny.with_adapters(tiny.llama(scale=0.3), "tuned")
    safe, optimized = (
        CausalPolicy(model, tiny.tokenizer(), adapter=each, max_new_tokens=4)
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


def test_a_mixture_over_prompts_is_one_distribution():
    policy = CausalPolicy(tiny.llama(4, seed=3), None, max_new_tokens=3, eos_token_id=0)
    prompts = np.array([[1, 2], [3, 3], [2, 1]])
    mixture = PromptMixture(policy, prompts)
    every = np.array(tiny.every_completion(4, 3, [0]))
    apart = np.array([policy.log_prob(np.tile(each, (len(every), 1)), every) for each in prompts])
    scores = mixture.log_prob(None, every)
    assert np.allclose(np.exp(scores), np.exp(apart).mean(axis=0), atol=1e-6)
    actions = mixture.sample(20_000, np.random.default_rng(0))
    place = (actions[:, None] == every).all(axis=2).argmax(axis=1)
    assert chi_square(place, np.exp(scores)) > 1e-3
    with pytest.raises(TypeError, match="draws its own prompts"):
        mixture.sample(prompts, np.random.default_rng(0))
