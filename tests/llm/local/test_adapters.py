"""Adapters: a policy speaks with its own and no other, or it is refused."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
import torch
from peft import LoraConfig, get_peft_model

import tether
from tests.llm import tiny_models
from tests.llm.tiny_models import lora, policy
from tether.llm import CausalPolicy

PROMPTS = np.array(["cat", "what", "abc", "cat"])


@pytest.fixture(scope="module")
def expected():
    return tiny_models.completions_and_scores(PROMPTS)


class TestUnusableAdapters:
    @pytest.fixture
    def model(self):
        return tiny_models.with_adapters(tiny_models.llama(), "short", "long")

    def test_merged_adapters_are_refused(self, model, expected):
        policies = [policy(model, each) for each in (None, "short", "long")]
        model.merge_adapter(["long"])
        for each in policies:
            with pytest.raises(ValueError, match=r"the adapters \['long'\] are merged"):
                each.log_prob(PROMPTS, expected[0])
        with pytest.raises(ValueError, match="are merged"):
            policy(model, "short")
        with pytest.raises(ValueError, match="are merged"):
            policies[0].log_prob_both(policies[1], PROMPTS, expected[0])

    def test_disabled_adapters_are_refused(self, model, expected):
        safe, short = policy(model), policy(model, "short")
        before = short.log_prob(PROMPTS, expected[0])
        model.base_model.disable_adapter_layers()
        with pytest.raises(ValueError, match="adapters are disabled, and adapter is 'short'"):
            short.log_prob(PROMPTS, expected[0])
        with pytest.raises(ValueError, match="adapters are disabled"):
            safe.log_prob_both(short, PROMPTS, expected[0])
        assert np.allclose(safe.log_prob(PROMPTS, expected[0]), expected[1], atol=1e-5)
        with pytest.raises(ValueError, match="adapters are disabled"):  # and they stay so
            short.log_prob(PROMPTS, expected[0])
        model.base_model.enable_adapter_layers()
        assert np.array_equal(short.log_prob(PROMPTS, expected[0]), before)

    @pytest.mark.parametrize(
        ("options", "message"),
        [({"bias": "all"}, "bias='all'"), ({"init_lora_weights": "pissa"}, "weights='pissa'")],
    )
    def test_adapters_that_change_the_model_itself(self, options, message):
        model = get_peft_model(tiny_models.llama(), lora(**options))
        with pytest.raises(ValueError, match=f"adapter=None is not the model .*{message}"):
            policy(model)
        assert policy(model, "default").sample(PROMPTS, np.random.default_rng(0)).shape == (4, 4)

    def test_adapters_activated_by_tokens_are_refused(self):
        model = get_peft_model(
            tiny_models.llama(), lora(alora_invocation_tokens=[3], task_type="CAUSAL_LM")
        )
        with pytest.raises(TypeError, match="is activated by tokens"):
            policy(model, "default")


class TestTheModelIsRestored:
    @pytest.mark.parametrize("adapters", [(None,), ("long",), ("short",), (None, "long")])
    def test_every_flag_is_restored(self, expected, adapters):
        options = {"modules_to_save": ["lm_head"]} if adapters[1:] == () else {}
        model = tiny_models.with_adapters(
            tiny_models.llama(), "short", "long", dropout=0.5, **options
        )
        for each in model.parameters():
            each.requires_grad_(False)
        next(model.parameters()).requires_grad_(True)
        model.train()
        model.base_model.model.model.layers[0].eval()
        policies = [policy(model, each) for each in adapters]

        def state():
            return (
                [each.training for each in model.modules()],
                [each.requires_grad for each in model.parameters()],
                [vars(each).get("_active_adapter") for each in model.modules()],
                [vars(each).get("_disable_adapters") for each in model.modules()],
                (model.active_adapter, model.active_adapters, model.base_model.active_adapter),
            )

        before = state()
        if len(policies) == 2:
            policies[0].log_prob_both(policies[1], PROMPTS, expected[0])
        else:
            policies[0].sample(PROMPTS, np.random.default_rng(0))
        assert state() == before
        hook = model.register_forward_pre_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            policies[-1].sample(PROMPTS, np.random.default_rng(0))
        hook.remove()
        assert state() == before


class TestSharing:
    """Both policies in one pass only where they are asked alike."""

    @pytest.mark.parametrize(
        "options",
        [
            {"temperature": 0.5},
            {"eos_token_id": [0, 5]},
            {"add_special_tokens": True},
            {"max_new_tokens": 5},
        ],
    )
    def test_policies_with_different_settings_do_not_share_a_pass(self, options):
        model = tiny_models.with_adapters(tiny_models.llama(), "tuned")
        words = tiny_models.tokenizer(special="<bos> $A")
        safe = CausalPolicy(model, words, max_new_tokens=4)
        settings = {"max_new_tokens": 4, **options}
        other = CausalPolicy(model, words, adapter="tuned", **settings)
        assert safe.shares_weights(CausalPolicy(model, words, adapter="tuned", max_new_tokens=4))
        assert not safe.shares_weights(other)
        if "max_new_tokens" in options:
            return
        actions = np.array([[7, 8, 0, -1], [9, 7, 8, 9], [0, -1, -1, -1], [9, 0, -1, -1]])
        both = safe.log_prob_both(other, PROMPTS, actions)
        assert np.array_equal(both[0], safe.log_prob(PROMPTS, actions))
        assert np.array_equal(both[1], other.log_prob(PROMPTS, actions))

    @pytest.mark.parametrize(
        "options",
        [
            {"modules_to_save": ["norm"]},
            {"target_parameters": ["mlp.gate_proj.weight"], "target_modules": []},
        ],
    )
    def test_adapters_that_peft_cannot_mix_do_not_share_a_pass(self, expected, options):
        config = LoraConfig(r=2, **{"target_modules": ["q_proj"], **options})
        model = tiny_models.trained(get_peft_model(tiny_models.llama(), config))
        safe, other = policy(model), policy(model, "default")
        assert not safe.shares_weights(other)
        both = safe.log_prob_both(other, PROMPTS, expected[0])
        assert np.allclose(both[0], expected[1], atol=1e-5)
        assert np.array_equal(both[1], other.log_prob(PROMPTS, expected[0]))


class TestAfterAFailure:
    """What was left on the model by a pass that failed has no say in the next."""

    @pytest.mark.parametrize("error", [torch.OutOfMemoryError("none left"), KeyboardInterrupt()])
    def test_scores_are_right_after_a_shared_pass_failed(self, expected, error):
        model = tiny_models.with_adapters(tiny_models.llama(), "long")
        safe, tuned = policy(model), policy(model, "long")
        before = [each.log_prob(PROMPTS, expected[0]) for each in (safe, tuned)]
        part = model.get_base_model().model.layers[-1].mlp

        def fail(*_):
            raise error

        part.forward = fail
        with pytest.raises(type(error)):
            safe.log_prob_both(tuned, PROMPTS[:2], expected[0][:2])
        del part.forward
        for each, right in zip((safe, tuned), before, strict=True):
            assert np.allclose(each.log_prob(PROMPTS, expected[0]), right, atol=1e-6)
        served = tether.Tethered(safe, tuned, 1.0).sample(PROMPTS, np.random.default_rng(0))
        assert len(served) == len(PROMPTS)


class TestLowPrecisionOfATrainer:
    """A trainer's autocast changes no score, whether it is around the call or left on the model."""

    def test_a_model_prepared_by_accelerate_has_the_same_scores(self, expected):
        accelerate = pytest.importorskip("accelerate", reason="needs tether[smollm]")
        model = tiny_models.llama()
        plain = policy(model)
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(mixed_precision="bf16", cpu=True)
        prepared = accelerator.prepare(model)
        forward = prepared.forward
        assert "_original_forward" in vars(model)
        assert np.array_equal(plain.log_prob(PROMPTS, expected[0]), expected[1])
        assert prepared.forward is forward
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)

    def test_autocast_around_the_call_has_no_effect(self, expected):
        plain = policy(tiny_models.llama())
        with torch.autocast("cpu", torch.bfloat16):
            assert np.array_equal(plain.log_prob(PROMPTS, expected[0]), expected[1])


def test_adapters_that_train_tokens_do_not_share_a_pass(expected):
    model = tiny_models.with_adapters(tiny_models.llama(), "plain")
    model.add_adapter("tokens", lora(trainable_token_indices=[3, 4]))
    safe, tuned = policy(model), policy(model, "plain")
    assert not safe.shares_weights(tuned)
    both = safe.log_prob_both(tuned, PROMPTS, expected[0])
    assert np.allclose(both[0], expected[1], atol=1e-5)
