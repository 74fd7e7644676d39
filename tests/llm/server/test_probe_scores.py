"""A model that is exchanged under the same name is found."""

import pickle

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm.server.probe_scores import PROBE_TOLERANCE, ProbeScores

PROMPTS = np.random.default_rng(0).integers(3, 15, size=(40, 3))


def test_a_model_that_is_exchanged_is_found_when_it_is_used_next():
    models = {"base": tiny_models.llama(scale=0.3)}
    with Loopback(models) as server:
        policy = remote_policy(server, probe_seconds=0.0)
        drawn = policy.sample([[4, 5]], np.random.default_rng(0))
        policy.check_unchanged()
        models["base"] = tiny_models.llama(scale=0.3, seed=1)
        patient = remote_policy(server, probe_seconds=1e9)
        for use in (
            policy.check_unchanged,
            lambda: policy.sample([[4, 5]], np.random.default_rng(0)),
            lambda: policy.log_prob([[4, 5]], drawn),
            pickle.loads(pickle.dumps(policy)).check_unchanged,
        ):
            with pytest.raises(ValueError, match="another model as 'base'"):
                use()
        patient.log_prob([[4, 5]], drawn)  # first used with the new model
        models["base"] = tiny_models.llama(scale=0.3)
        patient.log_prob([[4, 6]], drawn)  # not compared yet
        with pytest.raises(ValueError, match="another model"):
            patient.check_unchanged()


def test_comparisons_are_made_when_they_are_due():
    now, asked = [0.0], []

    def score():
        asked.append(now[0])
        return np.zeros(2)

    probes = ProbeScores("base", 60.0, clock=lambda: now[0])
    for now[0] in (0.0, 30.0, 60.0, 61.0, 100.0, 200.0):
        probes.compare_if_due(score)
    assert asked == [0.0, 61.0, 200.0]
    ProbeScores("base", None).compare_if_due(score)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("first", "now", "is_same"),
    [
        (-3.0, -3.0 + 0.9 * PROBE_TOLERANCE, True),
        (-3.0, -3.0 + 1.1 * PROBE_TOLERANCE, False),
        (-np.inf, -np.inf, True),
        (-np.inf, -3.0, False),
        (-3.0, -np.inf, False),
    ],
)
def test_what_counts_as_a_change(first, now, is_same):
    probes = ProbeScores("base", None)
    probes.compare(lambda: np.array([-1.0, first]))
    if is_same:
        probes.compare(lambda: np.array([-1.0, now]))
        return
    with pytest.raises(ValueError, match="moved by up to"):
        probes.compare(lambda: np.array([-1.0, now]))


def test_the_begin_of_a_round_compares_although_no_comparison_is_due():
    models = {"base": tiny_models.llama(scale=0.3)}
    with Loopback(models) as server:
        safe = remote_policy(server, probe_seconds=1e9)
        safe.check_unchanged()
        rng = np.random.default_rng(0)
        run = tether.Controller(tether.Shortlist(safe, size=2), alpha=0.5, store="sqlite://")
        taken = run.begin().act(PROMPTS, rng)
        run.observe(taken.ids, np.zeros(len(PROMPTS)))
        server.models["base"] = tiny_models.llama(scale=0.3, seed=1)
        with pytest.raises(ValueError, match="another model as 'base'"):
            run.begin(lambda contexts, candidates: candidates[..., 0].astype(float))
        server.models["base"] = tiny_models.llama(scale=0.3)
        run.begin(lambda contexts, candidates: candidates[..., 0].astype(float))
