"""Rounds along a path of policies: two tiny language models, tethered at every token."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny_models
from tether.llm import CausalPolicy, TokenTether
from tether.rounds import Controller, verify_store

BETAS = np.linspace(-5.0, 3.0, 9)


def models(*seeds):
    return [CausalPolicy(tiny_models.llama(5, seed=seed), None, max_new_tokens=3) for seed in seeds]


def harm(actions):
    return (actions == 4).any(axis=1).astype(float)


def prompts(count, rng):
    return rng.integers(1, 5, size=(count, 2))


def run_of(safe, store="sqlite://", **options):
    options = {"alpha": 0.75, "alarm_risk": 0.95, "draws": 8, "calibration_share": 1.0, **options}
    return Controller(safe, store=store, **{"family": "token_clip", **options})


def safe_round(run, rng, count=150):
    taken = run.begin().act(prompts(count, rng), rng)
    run.observe(taken.ids, harm(taken.actions))


def test_two_rounds_have_the_exact_mixture_and_the_beta_of_a_calibration_by_hand():
    safe, first, second = models(0, 3, 4)
    rng = np.random.default_rng(0)
    pairs = [TokenTether(safe, each, log_betas=BETAS) for each in (first, second)]
    run = run_of(safe)
    safe_round(run, rng)
    began = run.begin(pairs[0])
    assert began.calibration.exists
    assert began.calibration.family == "token_clip"
    taken = began.act(prompts(150, rng), rng)
    run.observe(taken.ids, harm(taken.actions))
    again = run.begin(pairs[1])

    rows = run._rows
    served = began.policy
    assert np.allclose(rows.log_prob[150:], served.log_prob(rows.contexts[150:], taken.actions))
    mixture = tether.Mixture([safe, served], [150, 150])
    log = pairs[1].make_log(rows.contexts, rows.actions, rows.losses[:, 0], logged_by=mixture)
    stream = np.random.default_rng([0, again.number, 7919])
    proposals = pairs[1].make_proposals(rows.contexts, stream, draws=8, logged_by=mixture)
    by_hand = tether.calibrate(log, proposals, alpha=0.75, family="token_clip")
    assert again.calibration.log_beta == by_hand.log_beta
    assert again.calibration.binding.risk == pytest.approx(by_hand.binding.risk, abs=1e-5)
    assert again.beta == by_hand.beta


def test_a_run_goes_on_after_a_restart_with_the_pairs_passed_in_and_is_verified(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "run.db"
    safe, first, second = models(0, 3, 4)
    pair = TokenTether(safe, first, log_betas=BETAS)
    with run_of(safe, path) as run:
        safe_round(run, rng)
        began = run.begin(pair, name="first")
        taken = began.act(prompts(60, rng), rng)
        run.observe(taken.ids, harm(taken.actions))
    safe, first, second = models(0, 3, 4)
    pair = TokenTether(safe, first, log_betas=BETAS)
    with run_of(safe, path) as lost, pytest.raises(ValueError, match="'first', which is not ava"):
        lost.begin(TokenTether(safe, second, log_betas=BETAS))
    other = TokenTether(safe, second, log_betas=BETAS)
    with run_of(safe, path, policies={"first": other}) as run:
        with pytest.raises(ValueError, match="not the 'first' of this store"):
            run.begin(other)
    with run_of(safe, path, policies={"first": pair}) as run:
        assert run.round.beta == began.beta
        again = run.begin(other, name="second")
        taken = again.act(prompts(40, rng), rng)
        run.observe(taken.ids, harm(taken.actions))
        assert run.begin(other, name="third").calibration is not None
    assert verify_store(path).ok
