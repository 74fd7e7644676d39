"""What a tethered gateway deploys: on average at most alpha, through its own run and no HTTP."""

from itertools import product

import numpy as np
import pytest

from tests.llm.chat_server import asked
from tests.scale import scaled
from tests.service.gateway.tethered_gateway import (
    ANSWERS,
    PROBABILITIES,
    QUESTIONS,
    RISKS,
    tethered_settings,
)
from tether.llm import read_answer
from tether.llm.chat import canonical_json
from tether.llm.client import Client
from tether.policies import ShortlistRows
from tether.service.gateway.tethered_run import open_tethered

ALPHA, SIZE, ROWS = 0.15, 3, 240


class World:
    """The upstream, without a connection: `probabilities` of the answers may change."""

    def __init__(self, seed):
        self.rng, self.probabilities = np.random.default_rng(seed), PROBABILITIES

    def post_all(self, requests):
        return [self.response(body.get("n", 1)) for _, body in requests]

    def response(self, count):
        drawn = self.rng.choice(ANSWERS, count, p=self.probabilities)
        choices = [
            {"message": {"role": "assistant", "content": str(each)}, "finish_reason": "stop"}
            for each in drawn
        ]
        return {"choices": choices}

    def losses(self, questions, actions):
        said = [read_answer(each)["message"]["content"] for each in actions]
        risks = [RISKS[question][each] for question, each in zip(questions, said, strict=True)]
        return (self.rng.random(len(risks)) < risks).astype(float)


def deployed_risk(served, probabilities):
    """The exact risk of what is served: over all questions and all sets of candidates."""
    texts = {
        each: canonical_json(
            {"finish_reason": "stop", "message": {"content": each, "role": "assistant"}}
        )
        for each in ANSWERS
    }
    sets = list(product(ANSWERS, repeat=SIZE))
    chance = np.array([np.prod([probabilities[ANSWERS.index(a)] for a in each]) for each in sets])
    candidates = np.array([[texts[a] for a in each] for each in sets], dtype=object)
    policy, risk = served._served.round.policy, 0.0
    for question in QUESTIONS:
        picks = np.full((len(sets), SIZE), 1 / SIZE)
        if hasattr(policy, "pick"):
            contexts = np.array([asked(question)] * len(sets), dtype=object)
            picks = np.exp(policy.pick.log_prob_all(ShortlistRows(contexts, candidates)))
        risks = np.array([[RISKS[question][a] for a in each] for each in sets])
        risk += float(chance @ (picks * risks).sum(axis=1)) / len(QUESTIONS)
    return risk


def repeat(path, seed, monkeypatch, rounds=2, changed=None):
    """The deployed risk after each calibration of one run, and the betas."""
    world = World(seed)
    monkeypatch.setattr(Client, "post_all", lambda client, *given, **_: world.post_all(*given))
    served = open_tethered(
        tethered_settings(path / f"{seed}.db", candidates=SIZE, controller={"alpha": ALPHA}),
        deadline=30,
    )
    risks, betas = [], []
    for number in range(1, rounds + 1):
        questions = world.rng.choice(QUESTIONS, ROWS)
        taken = served.act(np.array([asked(each) for each in questions], dtype=object))
        served.observe(taken.ids.tolist(), {"loss": world.losses(questions, taken.actions)})
        served.begin(number, "enough rows", actor="test")
        served.wait()
        assert not served._begin_failure
        if changed is not None:
            world.probabilities = changed
        risks.append(deployed_risk(served, world.probabilities))
        betas.append(served._served.round.beta)
    served.close()
    return risks, betas


def measure(path, monkeypatch, count, **options):
    made = [repeat(path, seed, monkeypatch, **options) for seed in range(count)]
    risks, betas = (np.array(each) for each in zip(*made, strict=True))
    return risks.mean(axis=0), risks.std(axis=0, ddof=1) / np.sqrt(count), betas


def test_the_risk_is_exact_where_it_is_known(tmp_path, monkeypatch):
    """At beta 0 and of an untethered scorer, by other arithmetic."""
    monkeypatch.setattr(Client, "post_all", None)
    served = open_tethered(tethered_settings(tmp_path / "x.db", candidates=SIZE), deadline=30)
    means = np.mean([[RISKS[each][a] for a in ANSWERS] for each in QUESTIONS], axis=0)
    assert deployed_risk(served, PROBABILITIES) == pytest.approx(PROBABILITIES @ means)
    assert deployed_risk(served, np.array([0.0, 0.0, 1.0])) == pytest.approx(0.4)
    served.close()


@pytest.mark.slow
def test_the_deployed_risk_is_at_most_alpha(tmp_path, monkeypatch):
    count = scaled(12)
    mean, error, betas = measure(tmp_path, monkeypatch, count)
    assert (mean <= ALPHA + 3 * error).all(), (mean, error)
    assert (betas > 0).mean() > 0.8  # it does something
    assert (mean > 0.11).all()  # more than the safe upstream's 0.1025


@pytest.mark.slow
def test_an_upstream_that_has_changed_is_not_covered(tmp_path, monkeypatch):
    """(wrong) The same measurement exceeds alpha if the upstream draws otherwise than logged."""
    changed = np.array([0.2, 0.3, 0.5])
    mean, error, _ = measure(tmp_path, monkeypatch, 8, rounds=1, changed=changed)
    assert mean[0] > ALPHA + 3 * error[0]
