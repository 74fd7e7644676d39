"""Completions: rows that a policy cannot produce are an error."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tether.llm import CausalPolicy


@pytest.fixture(scope="module")
def policy():
    return CausalPolicy(tiny_models.llama(), tiny_models.tokenizer(), max_new_tokens=4)


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
def test_rows_that_are_not_completions_are_refused(policy, row, message):
    good = [3, 4, 0, -1]
    with pytest.raises(ValueError, match=message) as raised:
        policy.log_prob(["a", "b"], np.array([good, row]))
    assert "actions[1]" in str(raised.value)


def test_actions_of_another_shape_or_dtype_are_refused(policy):
    with pytest.raises(ValueError, match=r"max_new_tokens = 4 token ids .* got shape \(1, 3\)"):
        policy.log_prob(["a"], np.array([[3, 4, 0]]))
    with pytest.raises(TypeError, match="must hold token ids, got an array of dtype float64"):
        policy.log_prob(["a"], np.array([[3.0, 4, 0, -1]]))
    with pytest.raises(ValueError, match="actions has 1 row but contexts has 2"):
        policy.log_prob(["a", "b"], np.array([[3, 4, 0, -1]]))


def test_texts_that_are_not_completions_are_refused(policy):
    with pytest.raises(TypeError, match="texts must be a sequence of strings, got 'ca"):
        policy.completions("cat")
    with pytest.raises(ValueError, match=r"texts\[1\] contains an end-of-sequence token \(0\)"):
        policy.completions(["a", "a<end>"])
    mute = CausalPolicy(policy.model, None, max_new_tokens=4)
    with pytest.raises(ValueError, match=r"texts\[0\] is a text but tokenizer is None"):
        mute.completions(["cat"])
    with pytest.raises(ValueError, match="tokenizer is None"):
        mute.texts([[3, 4, 0, -1]])
    with pytest.raises(ValueError, match="tokenizer is None"):
        mute.prompts(["cat"])
