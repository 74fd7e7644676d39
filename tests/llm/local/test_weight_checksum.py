"""Weights: a policy is what it was made of, or it is refused."""

import copy
import pickle

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch
from peft import get_peft_model

from tests.llm import tiny_models
from tests.llm.tiny_models import lora, policy

PROMPTS = np.array(["cat", "what", "abc", "cat"])


@pytest.fixture(scope="module")
def expected():
    return tiny_models.completions_and_scores(PROMPTS)


class TestAModelThatIsTunedAfterItsPolicyWasMade:
    """The safe policy never turns into the optimized one."""

    @pytest.mark.parametrize("used", [False, True])
    def test_wrapping_the_model_with_adapters_is_refused(self, expected, used):
        base = tiny_models.llama()
        safe = policy(base)
        if used:
            safe.log_prob(PROMPTS, expected[0])
        tuned = tiny_models.trained(get_peft_model(base, lora()))
        with pytest.raises(ValueError, match=r"LlamaForCausalLM.* contains adapters .* PeftMod"):
            safe.log_prob(PROMPTS, expected[0])
        with pytest.raises(ValueError, match="contains adapters"):
            policy(base)
        scores = policy(tuned).log_prob(PROMPTS, expected[0])
        assert np.allclose(scores, expected[1], atol=1e-5)

    @pytest.mark.parametrize("used", [False, True])
    def test_merging_adapters_into_the_weights_is_refused(self, expected, used):
        base = tiny_models.llama()
        safe = policy(base)
        if used:
            safe.log_prob(PROMPTS, expected[0])
        merged = tiny_models.trained(get_peft_model(base, lora())).merge_and_unload()
        assert merged is base
        with pytest.raises(ValueError, match="weights changed since this policy was made"):
            safe.sample(PROMPTS, np.random.default_rng(0))
        assert np.isfinite(policy(merged).log_prob(PROMPTS, expected[0])).all()

    def test_after_unloading_adapters_the_policy_is_usable_again(self, expected):
        base = tiny_models.llama()
        safe = policy(base)
        assert tiny_models.trained(get_peft_model(base, lora())).unload() is base
        assert np.array_equal(safe.log_prob(PROMPTS, expected[0]), expected[1])

    def test_an_adapter_that_was_unloaded_is_refused(self):
        model = tiny_models.trained(get_peft_model(tiny_models.llama(), lora()))
        optimized = policy(model, "default")
        model.unload()
        with pytest.raises(ValueError, match="no weights of adapter 'default'"):
            optimized.sample(PROMPTS, np.random.default_rng(0))

    def test_an_adapter_added_by_transformers_is_refused(self):
        model = tiny_models.llama()
        safe = policy(model)
        model.add_adapter(lora(), "tuned")
        for each in (lambda: policy(model), lambda: safe.sample(PROMPTS, np.random.default_rng(0))):
            with pytest.raises(ValueError, match="contains adapters"):
                each()

    def test_a_change_of_one_bit_is_detected(self, expected):
        model = tiny_models.llama()
        safe = policy(model)
        with torch.no_grad():
            weight = model.model.layers[1].mlp.up_proj.weight
            weight[3, 4] = torch.nextafter(weight[3, 4], torch.tensor(9.0))
        with pytest.raises(ValueError, match="weights changed"):
            safe.log_prob(PROMPTS, expected[0])

    def test_reloading_moving_and_copying_are_not_changes(self, expected):
        model = tiny_models.llama()
        safe = policy(model)
        model.load_state_dict({name: each.clone() for name, each in model.state_dict().items()})
        model.to("cpu").train()
        for each in model.parameters():
            each.data = each.data.clone()
        for asked in (safe, copy.deepcopy(safe), pickle.loads(pickle.dumps(safe))):
            assert np.array_equal(asked.log_prob(PROMPTS, expected[0]), expected[1])

    @pytest.mark.parametrize("kind", [torch.bfloat16, torch.int8])
    def test_weights_of_any_dtype_and_offset_are_read(self, kind):
        from tether.llm.local.weight_checksum import _checksum

        whole = torch.arange(40).to(kind)
        odd = whole[1:38]  # begins and ends between words
        before = _checksum([whole, odd, torch.empty(0), torch.empty(2, device="meta")])
        assert before == _checksum([whole.clone(), odd.clone()])
        for place in (0, 20, 36):
            other = odd.clone()
            other[place] += 1
            assert _checksum([whole, other]) != before


class TestTraining:
    def test_an_adapter_may_be_trained_until_its_policy_is_used(self, expected):
        model = get_peft_model(tiny_models.llama(), lora(), adapter_name="tuned")
        safe, optimized = policy(model), policy(model, "tuned")
        tiny_models.trained(model)
        scores = optimized.log_prob(PROMPTS, expected[0])
        assert not np.allclose(scores, expected[1], atol=0.1)
        tiny_models.trained(model)
        for use in (
            lambda: optimized.log_prob(PROMPTS, expected[0]),
            lambda: optimized.shortened(2).sample(PROMPTS, np.random.default_rng(0)),
            lambda: safe.log_prob_both(optimized, PROMPTS, expected[0]),
        ):
            with pytest.raises(ValueError, match="'tuned' changed since this policy was first use"):
                use()
        assert np.allclose(safe.log_prob(PROMPTS, expected[0]), expected[1], atol=1e-5)
        again = policy(model, "tuned").log_prob(PROMPTS, expected[0])
        assert not np.allclose(again, scores, atol=0.1)

    def test_other_adapters_and_modules_to_save_do_not_matter(self, expected):
        options = {"modules_to_save": ["lm_head"], "trainable_token_indices": [3, 4]}
        model = tiny_models.trained(
            get_peft_model(tiny_models.llama(), lora(**options), adapter_name="one")
        )
        safe, one = policy(model), policy(model, "one")
        before = one.log_prob(PROMPTS, expected[0])
        assert np.allclose(safe.log_prob(PROMPTS, expected[0]), expected[1], atol=1e-5)
        model.add_adapter("two", lora())
        model.set_adapter("two")
        tiny_models.trained(model)
        assert np.allclose(one.log_prob(PROMPTS, expected[0]), before, atol=1e-5)
        assert np.allclose(safe.log_prob(PROMPTS, expected[0]), expected[1], atol=1e-5)


@pytest.mark.parametrize("what", ["rows", "layers"])
def test_weights_in_another_order_are_a_change(expected, what):
    model = tiny_models.llama()
    plain = policy(model)
    actions = plain.sample(PROMPTS, np.random.default_rng(0))
    with torch.no_grad():
        if what == "rows":
            table = model.get_input_embeddings().weight
            table.copy_(table.flip(0))
        else:
            one, two = (each.self_attn.q_proj.weight for each in model.model.layers[:2])
            kept = one.clone()
            one.copy_(two)
            two.copy_(kept)
    with pytest.raises(ValueError, match="weights changed since this policy was made"):
        plain.log_prob(PROMPTS, actions)
