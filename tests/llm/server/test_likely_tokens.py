"""Tables of likely tokens from a server, against the same model in this process."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import CausalPolicy
from tether.llm.server.responses import read_likely_tokens

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6]])
ACTIONS = np.array([[3, 0, -1, -1, -1], [7, 7, 8, 9, 4], [0, -1, -1, -1, -1]])


def test_tables_are_those_of_the_model():
    model = tiny_models.llama(scale=0.3)
    with Loopback({"base": model}) as server:
        found = remote_policy(server).token_tables(PROMPTS, ACTIONS)
    local = CausalPolicy(model, None, max_new_tokens=5, eos_token_id=0)
    expected = local.token_tables(PROMPTS, ACTIONS)
    for name in ("row", "position", "tokens"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-5)


def test_a_table_does_not_depend_on_the_token_of_the_row():
    likely = {"7": -0.5, "8": -1.0, "9": -2.0}
    tables = [
        read_likely_tokens(
            {"prompt_logprobs": [None, {token: score, **likely}]}, (1, int(token)), 3
        )
        for token, score in {"5": -9.0, "6": -2.0, "8": -1.0}.items()
    ]
    assert tables[0] == tables[1] == tables[2] == [[(7, -0.5), (8, -1.0), (9, -2.0)]]


def test_fewer_tokens_than_asked_for_are_refused():
    choice = {"prompt_logprobs": [None, {"5": -1.0, "6": -2.0}]}
    with pytest.raises(ValueError, match="returned 2 likely tokens of a position, asked for 3"):
        read_likely_tokens(choice, (1, 5), 3)
