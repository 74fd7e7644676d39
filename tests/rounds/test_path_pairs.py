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
    assert again.calibration.risk == pytest.approx(by_hand.risk, abs=1e-5)
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


def test_a_blend_is_part_of_what_rounds_calibrate_store_and_serve(tmp_path):
    rng, path = np.random.default_rng(3), tmp_path / "run.db"
    safe, first = models(0, 3)
    pair = TokenTether(safe, first, log_betas=BETAS, blend=0.05)
    with run_of(safe, path, family=pair.family) as run:
        safe_round(run, rng)
        began = run.begin(pair, name="first")
        taken = began.act(prompts(60, rng), rng)
        run.observe(taken.ids, harm(taken.actions))
    with run_of(safe, path, family=pair.family, policies={"first": pair}) as run:
        assert run.round.beta == began.beta
        assert run.begin(pair, name="again").calibration.rows == 210
        served = pair.tethered(began.calibration)
        assert np.allclose(run._rows.log_prob[150:], served.log_prob(taken.contexts, taken.actions))
    assert verify_store(path).ok


def test_rounds_with_a_confidence_use_the_policy_that_acted():
    rng = np.random.default_rng(2)
    safe, first = models(0, 3)
    pair = TokenTether(safe, first, log_betas=BETAS)
    run = run_of(safe, alpha=0.9, alarm_risk=0.97, confidence=0.8)
    safe_round(run, rng, 200)
    began = run.begin(pair)
    assert began.calibration.exists
    taken = began.act(prompts(100, rng), rng)
    run.observe(taken.ids, harm(taken.actions))
    assert run.begin(pair, name="again").calibration.confidence == 0.8


def test_draws_whose_contexts_are_not_those_of_the_rows_are_refused(monkeypatch):
    rng, (safe, first) = np.random.default_rng(4), models(0, 3)
    pair, run = TokenTether(safe, first, log_betas=BETAS), run_of(safe)
    safe_round(run, rng)
    drawn = pair.make_proposals(prompts(20, rng), rng, draws=4)
    parts = {"log_mix": None, "policy_path": drawn.policy_path}
    for context in (None, np.arange(len(drawn))):
        other = tether.Proposals(drawn.log_safe, drawn.log_optimized, context=context, **parts)
        monkeypatch.setattr(pair, "make_proposals", lambda *_, other=other, **__: other)
        with pytest.raises(ValueError, match="must state the contexts"):
            run.begin(pair)


def test_what_does_not_fit_a_run_along_a_path_is_refused():
    safe, first = models(0, 3)
    run = run_of(safe)
    with pytest.raises(TypeError, match=r"tether\.llm\.TokenTether"):
        run.begin(first)
    with pytest.raises(ValueError, match="'token_mix', but the run is of family 'token_clip'"):
        run.begin(TokenTether(safe, first, family="mix"))
    with pytest.raises(ValueError, match="own safe policy"):
        run.begin(TokenTether(models(0)[0], first))
    for options, message in (
        ({"against": "last"}, "against must be 'safe'"),
        ({"test_weight": "analytic"}, "analytic"),
    ):
        with pytest.raises(ValueError, match=message):
            run_of(safe, **options)
    with pytest.raises(ValueError, match=r"not a tether\.Shortlist"):
        run_of(tether.Shortlist(safe, first, size=4))
    plain = Controller(safe, store="sqlite://", alpha=0.5)
    with pytest.raises(TypeError, match="optimized"):
        plain.begin(TokenTether(safe, first))
