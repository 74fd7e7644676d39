"""Bad input: an error that says what is wrong, never a number."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
import torch

from tests.llm import tiny
from tether.llm import CausalPolicy, PromptMixture


@pytest.fixture(scope="module")
def policy():
    return CausalPolicy(tiny.llama(), tiny.tokenizer(), max_new_tokens=4)


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([3, 4, -1, -1], "shorter than max_new_tokens"),
        ([3, 0, 4, 5], "nothing after the end-of-sequence token"),
        ([3, -1, 4, 0], "-1 only after its end"),
        ([-1, -1, -1, -1], "shorter than max_new_tokens"),
        ([3, 99, 4, 5], "token ids below 57"),
        ([3, -7, 4, 5], "token ids below 57"),
    ],
)
def test_rows_that_are_no_completions(policy, row, message):
    good = [3, 4, 0, -1]
    with pytest.raises(ValueError, match=message) as told:
        policy.log_prob(["a", "b"], np.array([good, row]))
    assert "actions[1]" in str(told.value)


def test_actions_of_another_shape_or_kind(policy):
    with pytest.raises(ValueError, match=r"max_new_tokens = 4 token ids .* got shape \(1, 3\)"):
        policy.log_prob(["a"], np.array([[3, 4, 0]]))
    with pytest.raises(TypeError, match="must hold token ids, got an array of dtype float64"):
        policy.log_prob(["a"], np.array([[3.0, 4, 0, -1]]))
    with pytest.raises(ValueError, match="actions has 1 rows but contexts has 2"):
        policy.log_prob(["a", "b"], np.array([[3, 4, 0, -1]]))


def test_a_tokenizer_that_does_not_round_trip():
    lossy = CausalPolicy(tiny.llama(), tiny.tokenizer(lossy=True), max_new_tokens=4)
    assert lossy.sample(["cat"], rng()).shape == (1, 4)
    with pytest.raises(ValueError, match=r"does not give contexts\[1\] back: 'Cat' became '\?at'"):
        lossy.sample(["cat", "Cat"], rng())
    with pytest.raises(ValueError, match=r"does not give answers\[0\] back"):
        lossy.completions(["Yes"])


def test_texts_from_elsewhere(policy):
    actions = policy.completions(["cat", "", "a"])
    assert actions[:, -1].tolist() == [0, -1, -1]
    assert policy.texts(actions) == ["cat", "", "a"]
    with pytest.raises(ValueError, match=r"answers\[0\] has 6 tokens with its end, more than"):
        policy.completions(["mouse"])


def test_a_model_without_an_end():
    model = tiny.llama(end=None)
    model.generation_config.eos_token_id = None
    with pytest.raises(ValueError, match="there is no end-of-sequence token"):
        CausalPolicy(model, None)
    assert CausalPolicy(model, None, eos_token_id=3).ends.tolist() == [3]
    with pytest.raises(ValueError, match="eos_token_id 57 is outside of the vocabulary of 57"):
        CausalPolicy(model, None, eos_token_id=57)


def test_texts_that_are_no_completions(policy):
    with pytest.raises(TypeError, match="answers must be texts, one for each completion, got 'ca"):
        policy.completions("cat")
    with pytest.raises(ValueError, match=r"answers\[1\] has an end-of-sequence token \(0\) in it"):
        policy.completions(["a", "a<end>"])
    mute = CausalPolicy(policy.model, None, max_new_tokens=4)
    with pytest.raises(ValueError, match=r"answers\[0\] is a text, and there is no tokenizer"):
        mute.completions(["cat"])
    with pytest.raises(ValueError, match="there is no tokenizer"):
        mute.texts([[3, 4, 0, -1]])
    with pytest.raises(ValueError, match="there is no tokenizer"):
        mute.prompts(["cat"])


def test_a_policy_is_not_lengthened(policy):
    assert policy.shortened(4).max_new_tokens == 4
    with pytest.raises(ValueError, match=r"max_new_tokens must be at most 4 to shorten .* got 5"):
        policy.shortened(5)


def test_prompts_longer_than_the_context(policy):
    longest = "a" * 60
    assert policy.sample([longest], rng()).shape == (1, 4)
    with pytest.raises(ValueError, match=r"contexts\[1\] has 61 tokens, and at most 60 leave room"):
        policy.sample(["a", longest + "a"], rng())


@pytest.mark.parametrize(
    ("contexts", "error", "message"),
    [
        (3, TypeError, "contexts must be prompts"),
        ([""], ValueError, r"contexts\[0\] has no tokens"),
        (np.array([[1.5, 2]]), TypeError, "a text or a row of token ids"),
        (np.array([[3, 99]]), ValueError, "outside of the vocabulary of 57"),
        ([], ValueError, "contexts is empty"),
    ],
)
def test_contexts_that_are_no_prompts(policy, contexts, error, message):
    with pytest.raises(error, match=message):
        policy.sample(contexts, rng())


def test_a_frame_of_prompts_is_fine(policy):
    pandas = pytest.importorskip("pandas")
    frame = pandas.Series(["cat", "a"], index=[7, 3])
    assert np.array_equal(policy.sample(frame, rng()), policy.sample(["cat", "a"], rng()))


def test_special_tokens_are_added_only_if_asked_for():
    words = tiny.tokenizer()
    plain = CausalPolicy(tiny.llama(), words, max_new_tokens=4)
    assert plain.prompts(["<bos>ab"]) == [(1, 2, 3)]
    assert plain.prompts(["ab"]) == plain.prompts(np.array([[2, 3, -1]])) == [(2, 3)]


def test_special_tokens_that_are_there_already_or_change_the_text():
    def asked(**options):
        words = tiny.tokenizer(special="<bos> $A", **options)
        return CausalPolicy(tiny.llama(), words, max_new_tokens=4, add_special_tokens=True)

    assert asked().prompts(["ab", "a<bos>"]) == [(1, 2, 3), (1, 2, 1)]
    with pytest.raises(ValueError, match=r"contexts\[1\] begins with '<bos>', and add_special"):
        asked().prompts(["ab", "<bos>ab"])
    with pytest.raises(ValueError, match=r"contexts\[1\] back: 'Cat' became '<bos>\?at'"):
        asked(lossy=True).prompts(["cat", "Cat"])
    words = tiny.tokenizer(special="$A")  # adds nothing, so there is nothing twice
    quiet = CausalPolicy(tiny.llama(), words, max_new_tokens=4, add_special_tokens=True)
    assert quiet.prompts(["<bos><bos>a"]) == [(1, 1, 2)]


def test_temperatures_that_leave_no_numbers():
    frozen = CausalPolicy(tiny.llama(), tiny.tokenizer(), max_new_tokens=4, temperature=1e-40)
    with pytest.raises(ValueError, match="over the temperature of 1e-40 hold NaN or inf"):
        frozen.sample(["a"], rng())
    with pytest.raises(ValueError, match="over the temperature of 1e-40 hold NaN or inf"):
        frozen.log_prob(["a"], np.array([[3, 4, 0, -1]]))


def test_weights_that_are_not_numbers():
    model = tiny.llama()
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    broken = CausalPolicy(model, tiny.tokenizer(), max_new_tokens=4)
    with pytest.raises(ValueError, match="nothing to draw from"):
        broken.sample(["a"], rng())
    with pytest.raises(ValueError, match="scores are not numbers for 1 of 1"):
        broken.log_prob(["a"], np.array([[3, 4, 0, -1]]))


def test_models_of_another_kind():
    from peft import PromptTuningConfig, get_peft_model
    from transformers import T5Config, T5ForConditionalGeneration

    small = {"vocab_size": 9, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    with pytest.raises(TypeError, match="model must be a decoder, got an encoder-decoder: t5"):
        CausalPolicy(T5ForConditionalGeneration(T5Config(**small)), None)
    soft = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with pytest.raises(TypeError, match="put tokens before the prompt"):
        CausalPolicy(get_peft_model(tiny.llama(), soft), None, adapter="default")


def test_bad_settings():
    model, words = tiny.llama(), tiny.tokenizer()
    for options, message in (
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be a whole number of at least 1, got 0"),
        ({"batch_tokens": 1.5}, "batch_tokens must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            CausalPolicy(model, words, **options)
    with pytest.raises(TypeError, match="eos_token_id must be a token id"):
        CausalPolicy(model, words, eos_token_id="end")
    with pytest.raises(TypeError, match="prompts must be"):
        PromptMixture(CausalPolicy(model, words), 4)
    assert "adapter=None" in repr(CausalPolicy(model, words))
