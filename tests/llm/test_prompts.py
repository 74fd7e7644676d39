"""Prompts: contexts that are not prompts of the model are an error."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tether.llm import CausalPolicy


@pytest.fixture(scope="module")
def policy():
    return CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=4)


def rng():
    return np.random.default_rng(0)


def test_a_text_that_the_tokenizer_changes_is_refused():
    lossy = CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(lossy=True), max_new_tokens=4)
    assert lossy.sample(["cat"], rng()).shape == (1, 4)
    with pytest.raises(ValueError, match=r"does not preserve contexts\[1\]: 'Cat' became '\?at'"):
        lossy.sample(["cat", "Cat"], rng())
    with pytest.raises(ValueError, match=r"does not preserve texts\[0\]"):
        lossy.completions(["Yes"])


def test_prompts_longer_than_the_context_are_refused(policy):
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
        (np.array([[3, 99]]), ValueError, "outside the vocabulary of 57"),
        ([], ValueError, "contexts is empty"),
    ],
)
def test_contexts_that_are_not_prompts_are_refused(policy, contexts, error, message):
    with pytest.raises(error, match=message):
        policy.sample(contexts, rng())


def test_a_frame_of_prompts_is_fine(policy):
    pandas = pytest.importorskip("pandas")
    frame = pandas.Series(["cat", "a"], index=[7, 3])
    assert np.array_equal(policy.sample(frame, rng()), policy.sample(["cat", "a"], rng()))


def test_special_tokens_are_added_only_if_asked_for():
    words = tiny_models.tokenizer()
    plain = CausalPolicy(tiny_models.llama(), words, max_new_tokens=4)
    assert plain.prompts(["<bos>ab"]) == [(1, 2, 3)]
    assert plain.prompts(["ab"]) == plain.prompts(np.array([[2, 3, -1]])) == [(2, 3)]


def test_special_tokens_that_are_present_already_are_refused():
    def asked(**options):
        words = tiny_models.tokenizer(special="<bos> $A", **options)
        return CausalPolicy(tiny_models.llama(), words, max_new_tokens=4, add_special_tokens=True)

    assert asked().prompts(["ab", "a<bos>"]) == [(1, 2, 3), (1, 2, 1)]
    with pytest.raises(ValueError, match=r"contexts\[1\] begins with '<bos>', and add_special"):
        asked().prompts(["ab", "<bos>ab"])
    with pytest.raises(ValueError, match=r"contexts\[1\]: 'Cat' became '<bos>\?at'"):
        asked(lossy=True).prompts(["cat", "Cat"])
    words = tiny_models.tokenizer(special="$A")  # adds nothing, so there is nothing twice
    quiet = CausalPolicy(tiny_models.llama(), words, max_new_tokens=4, add_special_tokens=True)
    assert quiet.prompts(["<bos><bos>a"]) == [(1, 1, 2)]
