"""What all policies over completions share: texts, lengths and limits."""

import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tether.llm import CausalPolicy


@pytest.fixture(scope="module")
def policy():
    return CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=4)


def test_texts_are_encoded_as_completions(policy):
    actions = policy.completions(["cat", "", "a"])
    assert actions[:, -1].tolist() == [0, -1, -1]
    assert policy.texts(actions) == ["cat", "", "a"]
    with pytest.raises(ValueError, match=r"texts\[0\] has 6 tokens including its end"):
        policy.completions(["mouse"])


def test_a_policy_can_be_shortened_but_not_lengthened(policy):
    assert policy.shortened(4).max_new_tokens == 4
    with pytest.raises(ValueError, match=r"max_new_tokens must be at most 4 to shorten .* got 5"):
        policy.shortened(5)
