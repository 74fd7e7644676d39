"""What a run is asked for: an alpha, a promise, or either with a confidence."""

import numpy as np
import pytest

import tether
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller, calibrate_round, read_history, verify_store
from tether.rounds.round_log import RoundLog


def start(world, store="sqlite://", **asked):
    return Controller(world.safe(), store=store, alarm_risk=0.95, **asked)


def rounds_of(run, world, rng, count=4, rows=400):
    return [one_round(run, world, number, rows, rng)[0] for number in range(1, count + 1)]


@pytest.mark.parametrize("kind", ["tables", "marginal", "in contexts"])
def test_a_promise_is_a_soft_chain_whose_draw_is_recorded(kind, tmp_path):
    """The same run has the same draws, in every process; another seed has others."""
    world, served = World(kind), {}
    for name, seed in (("one", 0), ("same", 0), ("other", 7)):
        with start(world, tmp_path / f"{name}.db", promise=0.25, seed=seed) as run:
            rounds_of(run, world, np.random.default_rng(0), count=3)
        assert verify_store(tmp_path / f"{name}.db").ok
        history = read_history(tmp_path / f"{name}.db")
        assert history.target == "promise"
        served[name] = []
        for found in (record.calibration for record in history.rounds[1:]):
            assert found.rule == "promise"
            assert found.promise == (0.25 if found.exists else 1.0)
            assert found.log_beta == found.chain.log_beta
            served[name].append(found.chain.uniform)
        assert any(record.beta > 0 for record in history.rounds)
    assert served["one"] == served["same"] != served["other"]


def test_a_promise_below_the_safe_risk_serves_hardly_anything():
    world = World("tables")
    run = start(world, promise=0.01)
    last = rounds_of(run, world, np.random.default_rng(1), count=2)[-1]
    assert last.calibration.chain.shares.max() < 0.05


def test_a_certificate_weighs_rows_by_who_acted(monkeypatch):
    """The densities that are passed on are those stored with the actions."""
    logs = []

    def noted(log, *arguments, **options):
        logs.append(log)
        return tether.calibrate(log, *arguments, **options)

    monkeypatch.setattr(calibrate_round, "calibrate", noted)
    world = World("tables")
    run = start(world, alpha=0.3, confidence=0.8)
    made = rounds_of(run, world, np.random.default_rng(2), rows=1500)
    assert all(each.calibration.confidence == 0.8 for each in made[1:])
    assert any(each.beta > 0 for each in made[1:-1])
    run._refresh()
    rows = run._rows
    stored = rows.log_prob[np.flatnonzero(rows.calibration)][: len(logs[-1])]
    np.testing.assert_allclose(logs[-1].acting.log_logged, stored, atol=1e-9)
    assert logs[0].acting is None  # the safe policy alone has acted
    assert (logs[-1].acting.log_logged != logs[-1].log_mix).any()


def test_a_certificate_allows_for_the_error_of_the_acting_density(monkeypatch):
    """Its share of the mixture does not dilute the error of a density that is divided by."""
    pairs = []

    def both(*arguments, acting=False):
        made = [RoundLog(*arguments, acting=each) for each in (False, True)]
        pairs.append(
            [each.make({"loss": np.zeros(len(arguments[0]))}).ratio_error for each in made]
        )
        return made[acting]

    monkeypatch.setattr(calibrate_round, "RoundLog", both)
    world = World("in contexts")
    rounds_of(start(world, alpha=0.3, normalizer_draws=64), world, np.random.default_rng(3))
    assert all(1 <= mixture <= acting for mixture, acting in pairs)
    assert any(mixture < acting for mixture, acting in pairs)


def test_a_promise_of_no_use_is_said_to_be_so():
    world, rng = World("marginal"), np.random.default_rng(4)
    run = start(world, alpha=0.03, calibration_share=1)
    taken = run.begin().act(36, rng)
    run.observe(taken.ids, np.zeros(36))
    found = run.begin(world.optimized(2))
    assert found.calibration.exists
    assert not found.calibration.useful
    assert found.note.startswith("no useful promise")


def test_exactly_one_target_and_it_is_kept(tmp_path):
    world = World("marginal")
    for asked in ({}, {"alpha": 0.1, "promise": 0.1}):
        with pytest.raises(TypeError, match="exactly one of alpha"):
            start(world, **asked)
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1"):
        start(world, alpha=0.1, confidence=1.5)
    start(world, tmp_path / "run.db", promise=0.2, confidence=0.9, ratio_error=1.1).close()
    history = read_history(tmp_path / "run.db")
    assert (history.target, history.limits["loss"].alpha, history.confidence) == (
        "promise",
        0.2,
        0.9,
    )
    for other in ({"alpha": 0.2, "confidence": 0.9, "ratio_error": 1.1}, {"promise": 0.2}):
        with pytest.raises(ValueError, match="was created with"):
            start(world, tmp_path / "run.db", **other)
