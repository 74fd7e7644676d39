"""Tables of likely tokens, against one pass over each prefix by itself."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")

import torch

from tests.llm import tiny_models
from tether.llm import CausalPolicy
from tether.llm.token_tables import TABLE_TOKENS


@pytest.mark.parametrize("batch_tokens", [8, 4096])
def test_tables_are_those_of_the_model(batch_tokens):
    model = tiny_models.llama(scale=0.3)
    policy = CausalPolicy(model, None, max_new_tokens=5, eos_token_id=0, batch_tokens=batch_tokens)
    prompts = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6]])
    actions = np.array([[3, 0, -1, -1, -1], [7, 7, 8, 9, 4], [0, -1, -1, -1, -1]])
    tables = policy.token_tables(prompts, actions)
    assert tables.row.tolist() == [0, 0, 1, 1, 1, 1, 1, 2]
    assert tables.position.tolist() == [0, 1, 0, 1, 2, 3, 4, 0]
    for row, position, tokens, log_probs in zip(
        tables.row, tables.position, tables.tokens, tables.log_probs, strict=True
    ):
        seen = [token for token in prompts[row] if token >= 0] + actions[row, :position].tolist()
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([seen]), use_cache=False).logits[0, -1]
        expected = torch.log_softmax(logits.double(), -1).numpy()
        assert np.array_equal(np.sort(tokens), np.sort(np.argsort(-expected)[:TABLE_TOKENS]))
        np.testing.assert_allclose(log_probs, expected[tokens], atol=1e-5)
        assert np.all(np.diff(log_probs) <= 0)
