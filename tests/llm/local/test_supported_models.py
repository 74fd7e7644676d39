"""Models that would be scored wrongly are refused by name; the others are scored as they are."""

import inspect

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
import torch
import transformers

from tests.llm import tiny_models
from tether.llm import CausalPolicy

PROMPTS = np.array(["a", "cat", "what is it?", "cat"])


SMALL = {
    "vocab_size": tiny_models.SIZE,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
    "eos_token_id": 0,
    "bos_token_id": 1,
    "pad_token_id": None,
}


SHARED = {**SMALL, "num_key_value_heads": 1}


def made(name, **options):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**options)
    kind = getattr(transformers, f"{name}ForCausalLM", None)
    return (kind or getattr(transformers, f"{name}LMHeadModel"))(config).eval()


def asked(model, **options):
    settings = {"max_new_tokens": 5, "eos_token_id": 0, **options}
    return CausalPolicy(model, tiny_models.tokenizer(), **settings)


def rng():
    return np.random.default_rng(0)


def right(policy, model):
    actions, stated = policy.sample_scored(PROMPTS, rng())
    wanted = [
        tiny_models.one_by_one(model, policy.prompts([prompt])[0], action)
        for prompt, action in zip(PROMPTS, actions, strict=True)
    ]
    assert np.allclose(stated, wanted, atol=1e-4)
    assert np.allclose(policy.log_prob(PROMPTS, actions), wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Mistral", {**SHARED, "sliding_window": 4}),
        ("OPT", {"vocab_size": tiny_models.SIZE, "hidden_size": 16, "word_embed_proj_dim": 16,
                 "ffn_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "init_std": 0.5,
                 "max_position_embeddings": 64}),
        ("Bloom", {"vocab_size": tiny_models.SIZE, "hidden_size": 16, "n_layer": 2, "n_head": 2,
                   "initializer_range": 0.5}),
        ("Bert", {**SMALL, "pad_token_id": 1, "is_decoder": True}),
    ],
)  # fmt: skip
def test_sliding_windows_and_positions_of_many_kinds(name, options):
    model = made(name, **options)
    right(asked(model), model)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("FalconH1", {**SHARED, "mamba_d_ssm": 16, "mamba_n_heads": 2, "mamba_d_head": 8,
                      "mamba_d_state": 4, "mamba_n_groups": 1},
         r"FalconH1ForCausalLM \(falcon_h1\) returns a DynamicCache of LinearAttentionAndFull"),
        ("Lfm2", {**SHARED, "layer_types": ["conv", "full_attention"]},
         "returns a DynamicCache of .*LinearAttentionLayer"),
        ("MiniMax", {**SHARED, "layer_types": ["full_attention", "linear_attention"],
                     "num_local_experts": 2, "block_size": 4}, "returns a MiniMaxCache of"),
        ("Mamba", {"vocab_size": tiny_models.SIZE, "hidden_size": 16, "num_hidden_layers": 2,
                   "state_size": 4}, r"MambaForCausalLM \(mamba\) returns no cache"),
        ("OpenAIGPT", {"vocab_size": tiny_models.SIZE, "n_embd": 16, "n_layer": 2, "n_head": 2,
                       "n_positions": 64}, "returns no cache"),
        ("Bert", {**SMALL, "pad_token_id": 1, "is_decoder": False}, "returns no cache"),
        ("Roberta", {**SMALL, "pad_token_id": 1, "is_decoder": True, "type_vocab_size": 1},
         r"RobertaForCausalLM \(roberta\) numbers positions in its own way"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_models_that_cannot_run_in_batches_are_refused(name, options, message):
    policy = asked(made(name, **options))
    for _ in range(2):  # a refusal is not forgotten
        with pytest.raises(TypeError, match=message):
            policy.sample(PROMPTS, rng())
    with pytest.raises(TypeError, match=message):
        policy.log_prob(["cat"], np.array([[3, 4, 0, -1, -1]]))


def test_a_compiled_model_has_its_positions_and_its_adapters():
    """Compiled by name: the wrapper is real, and what it wraps runs as written, which is faster."""
    pytest.importorskip("peft", reason="needs tether[llm]")
    tuned = tiny_models.with_adapters(tiny_models.llama(), "tuned")
    with torch.compiler.set_stance("force_eager"):
        for model, adapter in ((tiny_models.gpt2(), None), (tuned, None), (tuned, "tuned")):
            compiled = torch.compile(model, backend="eager")
            assert "position_ids" not in inspect.signature(compiled.forward).parameters
            plain, other = asked(model, adapter=adapter), asked(compiled, adapter=adapter)
            actions = plain.sample(PROMPTS, rng())
            wanted = plain.log_prob(PROMPTS, actions)
            assert np.allclose(other.log_prob(PROMPTS, actions), wanted, atol=1e-5)


class Around(torch.nn.Module):
    """Something that hides what the model takes."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def get_output_embeddings(self):
        return self.inner.get_output_embeddings()

    def forward(self, *arguments, **options):
        return self.inner(*arguments, **options)


def test_what_is_not_a_causal_language_model_is_refused():
    with pytest.raises(TypeError, match=r"loaded \(Auto.*\), got 'gpt2'"):
        asked("gpt2")
    with pytest.raises(TypeError, match="with a head that predicts tokens, got LlamaModel"):
        asked(tiny_models.llama().model)
    with pytest.raises(TypeError, match="with a head that predicts tokens, got Linear"):
        asked(torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"Around does not name \['attention_mask', 'input_ids'\]"):
        asked(Around(tiny_models.llama()))


def longrope(original):
    return {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4,
            "rope_theta": 1e4, "original_max_position_embeddings": original}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options", "length"),
    [
        ("Llama", SHARED, 64),
        ("GPT2", {"vocab_size": tiny_models.SIZE, "n_embd": 16, "n_layer": 1, "n_head": 2,
                  "n_positions": 24}, 24),
        ("Mpt", {"vocab_size": tiny_models.SIZE, "d_model": 16, "n_layers": 1, "n_heads": 2,
                 "max_seq_len": 16}, 16),
        ("Phi3", {**SHARED, "rope_parameters": longrope(20),
                  "original_max_position_embeddings": 20}, 20),
        ("Llama", {**SHARED, "max_position_embeddings": 18, "rope_parameters":
                   {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}}, 18),
        ("Bloom", {"vocab_size": tiny_models.SIZE, "hidden_size": 16, "n_layer": 1,
                   "n_head": 2}, None),
    ],
)  # fmt: skip
def test_the_context_length_is_found_and_respected(name, options, length):
    policy = asked(made(name, **options))
    assert policy.context_length == length
    if length is None:
        assert policy.sample(["a" * 100], rng()).shape == (1, 5)
        return
    fits, too_long = "a" * (length - 5), "a" * (length - 4)
    actions = policy.sample(["cat", fits], rng())
    alone = policy.log_prob(["cat"], actions[:1])
    assert policy.log_prob(["cat", fits], actions)[0] == pytest.approx(alone[0], abs=1e-4)
    with pytest.raises(ValueError, match=f"at most {length - 5} leave room"):
        policy.sample([too_long], rng())
    longer = asked(made(name, **options), max_new_tokens=length)
    with pytest.raises(ValueError, match=f"max_new_tokens = {length} leaves no room for a prompt"):
        longer.sample(["cat"], rng())


def test_the_context_length_is_found_in_a_nested_configuration():
    texts = {**SHARED, "head_dim": 8, "max_position_embeddings": 16, "sliding_window": 8}
    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
              "num_attention_heads": 2, "image_size": 28, "patch_size": 14}  # fmt: skip
    config = transformers.Gemma3Config(
        text_config=texts, vision_config=vision, mm_tokens_per_image=4, image_token_index=50,
        boi_token_index=51, eoi_token_index=52,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Gemma3ForConditionalGeneration(config).eval()
    policy = asked(model)
    assert policy.context_length == 16
    right(policy, model)
    with pytest.raises(ValueError, match="at most 11 leave room"):
        policy.sample(["a" * 12], rng())


def test_encoder_decoders_and_prompt_tuning_are_refused():
    from peft import PromptTuningConfig, get_peft_model
    from transformers import T5Config, T5ForConditionalGeneration

    small = {"vocab_size": 9, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    with pytest.raises(TypeError, match="model must be a decoder, got an encoder-decoder: t5"):
        CausalPolicy(T5ForConditionalGeneration(T5Config(**small)), None)
    soft = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with pytest.raises(TypeError, match="prepend virtual tokens"):
        CausalPolicy(get_peft_model(tiny_models.llama(), soft), None, adapter="default")
