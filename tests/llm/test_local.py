"""Local models as policies, against one pass per token and all short completions."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch
from transformers import MambaConfig, MambaForCausalLM

from tests.fit import chi_square
from tests.llm import tiny_models
from tether.llm import CausalPolicy, TokenTether

TEXTS = np.array(["a", "cat", "what is it?", "cat", "Where are we now", "b"])
PROMPT = np.array([2, 3, 1])
EVERY = np.array(tiny_models.every_completion(5, 3, [0]))


def policies(model, *adapters, **options):
    return [tiny_models.policy(model, each, max_new_tokens=6, **options) for each in adapters]


@pytest.mark.parametrize("make", [tiny_models.llama, tiny_models.neox, tiny_models.gpt2])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_are_one_pass_per_token_in_any_batch(make, temperature):
    model = make()
    rng = np.random.default_rng(0)
    prompts = np.tile(TEXTS, 3)
    whole = tiny_models.policy(model, temperature=temperature)
    actions, stated = whole.sample_scored(prompts, rng)
    scores = whole.log_prob(prompts, actions)
    ids = whole.prompts(prompts)
    exact = [
        tiny_models.one_by_one(model, *each, temperature) for each in zip(ids, actions, strict=True)
    ]
    assert np.allclose(scores, exact, atol=1e-4)
    assert np.allclose(stated, exact, atol=1e-4)
    small, seen = tiny_models.policy(model, temperature=temperature, batch_tokens=60), []
    hook = model.register_forward_pre_hook(
        lambda module, _, given: seen.append(given["input_ids"].shape), with_kwargs=True
    )
    assert np.allclose(small.log_prob(prompts, actions), exact, atol=1e-4)
    hook.remove()
    assert len(seen) > 2
    assert all(rows == 1 or rows * length <= 60 for rows, length in seen)


def test_all_completions_sum_to_one_and_are_drawn_as_they_are_scored():
    policy = CausalPolicy(tiny_models.llama(5), None, max_new_tokens=3)
    scores = policy.log_prob(np.tile(PROMPT, (len(EVERY), 1)), EVERY)
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)
    drawn = policy.sample(np.tile(PROMPT, (5_000, 1)), np.random.default_rng(1))
    place = (drawn[:, None] == EVERY).all(axis=2)
    assert place.any(axis=1).all()
    assert chi_square(place.argmax(axis=1), np.exp(scores)) > 1e-3


@pytest.mark.parametrize("options", [{}, {"use_dora": True}])
def test_one_set_of_weights_makes_several_policies_and_is_restored(options):
    model = tiny_models.with_adapters(tiny_models.llama(), "short", "long", dropout=0.5, **options)
    plain = tiny_models.policy(tiny_models.llama(), max_new_tokens=6)
    safe, short, long = policies(model, None, "short", "long")
    model.set_adapter("short")
    model.train()
    actions = safe.sample(TEXTS, np.random.default_rng(0))
    assert np.array_equal(actions, plain.sample(TEXTS, np.random.default_rng(0)))
    scores = [each.log_prob(TEXTS, actions) for each in (plain, safe, short, long)]
    assert np.allclose(scores[0], scores[1], atol=1e-6)
    assert min(np.abs(scores[2] - scores[1]).min(), np.abs(scores[3] - scores[2]).min()) > 1e-3
    assert model.training
    assert model.active_adapters == ["short"]
    (warm,) = policies(model, "short", temperature=2.0)
    for pair in ((safe, long), (short, long), (long, safe), (warm, short)):
        both = TokenTether(*pair, log_betas=[0.0]).path_scores(TEXTS, actions)
        expected = [each.log_prob(TEXTS, actions) for each in pair]
        assert np.allclose(both[:, :2].T, expected, atol=1e-5)


def test_a_policy_is_its_weights():
    model = tiny_models.with_adapters(tiny_models.llama(), "tuned")
    safe, tuned = policies(model, None, "tuned")
    actions = safe.sample(TEXTS, np.random.default_rng(0))
    first = tuned.log_prob(TEXTS, actions), tuned.fingerprint, safe.fingerprint
    again = policies(tiny_models.with_adapters(tiny_models.llama(), "tuned"), None, "tuned")
    assert (again[1].fingerprint, again[0].fingerprint) == first[1:]
    assert safe.fingerprint != tuned.fingerprint
    tiny_models.trained(model)  # the adapter alone
    safe.log_prob(TEXTS, actions)
    with pytest.raises(ValueError, match="adapter 'tuned' changed since"):
        tuned.log_prob(TEXTS, actions)
    assert policies(model, "tuned")[0].fingerprint != first[1]
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1e-3
    for use in (lambda: safe.sample(TEXTS, np.random.default_rng(0)), lambda: safe.fingerprint):
        with pytest.raises(ValueError, match="weights changed since this policy was made"):
            use()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
def test_arguments_models_and_adapters_that_would_be_scored_wrongly_are_refused():
    wrong = {"temperature": 0.0, "max_new_tokens": 0, "batch_tokens": 1.5, "eos_token_id": 999}
    for argument, value in wrong.items():
        with pytest.raises(ValueError, match=argument):
            CausalPolicy(tiny_models.llama(), None, **{argument: value})
    recurrent = MambaForCausalLM(MambaConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1))
    policy = CausalPolicy(recurrent, None, eos_token_id=0, max_new_tokens=2)
    with pytest.raises(TypeError, match="recurrent"):
        policy.sample([[3, 4]], np.random.default_rng(0))
    for model in ("gpt2", torch.compile(tiny_models.llama())):
        with pytest.raises(TypeError, match=r"model (must|is)"):
            CausalPolicy(model, None)
    model = tiny_models.with_adapters(tiny_models.llama(), "tuned")
    with pytest.raises(ValueError, match="adapter must be one of"):
        tiny_models.policy(model, "other")
    with pytest.raises(ValueError, match="only a PeftModel"):
        tiny_models.policy(model.get_base_model())
    model.merge_adapter()
    with pytest.raises(ValueError, match="merged"):
        tiny_models.policy(model)
    biased = tiny_models.with_adapters(tiny_models.llama(), "tuned", bias="all")
    with pytest.raises(ValueError, match="adapter=None is not the model before tuning"):
        tiny_models.policy(biased)
    long = tiny_models.policy(tiny_models.llama(positions=8))
    with pytest.raises(ValueError, match="max_new_tokens"):
        long.sample(["a long one"], np.random.default_rng(0))


def test_rows_that_are_no_completions():
    policy = tiny_models.policy(tiny_models.llama())
    for action, problem in (
        ([3, -1, 4, 0], "-1 only after"),
        ([3, 0, 4, -1], "nothing after"),
        ([3, 4, -1, -1], "shorter than max_new_tokens"),
        ([3, 999, 0, -1], "token ids below"),
    ):
        with pytest.raises(ValueError, match=f"actions.*{problem}"):
            policy.log_prob(["cat"], [action])


def test_texts_are_completions_if_the_tokenizer_preserves_them():
    policy = tiny_models.policy(tiny_models.llama())
    assert policy.texts(policy.completions(["cat", ""])) == ["cat", ""]
    assert policy.cut_off([[3, 4, 5, 6], [3, 4, 5, 0]]).tolist() == [True, False]
    lossy = CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(lossy=True), max_new_tokens=4)
    with pytest.raises(ValueError, match="does not preserve"):
        lossy.sample(["CAT"], np.random.default_rng(0))
    for contexts in ([""], 3, [[1.5]]):
        with pytest.raises((TypeError, ValueError), match="contexts"):
            policy.sample(contexts, np.random.default_rng(0))
