"""The controller checks its arguments before anything is stored."""

import os

import numpy as np
import pytest

import tether
from tether.rounds import Controller, StoreError, read_history


def test_arguments_are_checked():
    safe = tether.Gaussian(0.0)
    for options, words in [
        ({"alpha": 0}, "alpha must be above 0 and below 1, got 0"),
        ({"alpha": 2.0}, "alpha must be above 0 and below 1"),
        ({"alpha": 0.1, "calibration_share": 0}, "calibration_share must be above 0"),
        ({"alpha": 0.1, "missing": "drop"}, "missing must be one of 'wait'"),
        ({"alpha": 0.1, "against": "best"}, "against must be one of 'safe'"),
        ({"alpha": 0.1, "alarm_risk": 0.05}, "alarm_risk must be at least alpha = 0.1, got 0.05"),
        (
            {"alpha": 0.1, "min_observed_share": 1.5},
            "min_observed_share must be above 0 and at most 1",
        ),
        ({"alpha": 0.1, "family": "clop"}, "family"),
    ]:
        with pytest.raises(ValueError, match=words):
            Controller(safe, store="sqlite://", **options)
    with pytest.raises(ValueError, match="store must be SQLite or PostgreSQL"):
        Controller(safe, alpha=0.1, store="mysql://somewhere/db")
    run = Controller(safe, alpha=0.1, store="sqlite://")
    with pytest.raises(TypeError, match="optimized must be a policy"):
        run.begin(3.0)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        run.begin().act(3, 0)
    with pytest.raises(ValueError, match="contexts must be at least 1"):
        run.round.act(0, np.random.default_rng(0))
    assert tether.Controller is Controller
    assert repr(run) == "Controller(alpha=0.1, store='sqlite://')"
    assert run.round.number == 1
    assert len(run.training_rows()) == len(run.pending()) == 0


def test_a_store_must_be_a_path_or_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for store in ("", " ", None, 3):
        with pytest.raises(ValueError, match="store must be a path or a database URL"):
            Controller(tether.Gaussian(0.0), alpha=0.1, store=store)
    assert os.listdir(tmp_path) == []


def test_a_server_that_loses_what_it_confirmed_is_named(postgres_url):
    """The server of these tests is in a hurry."""
    with pytest.warns(UserWarning, match="runs with fsync=off: a crash of the machine"):
        Controller(tether.Gaussian(0.0), alpha=0.1, store=postgres_url).close()


@pytest.mark.parametrize("fallback", [None, "safe"])
def test_a_closed_run_does_nothing_more(store_url, tmp_path, fallback):
    spool = None if fallback is None else tmp_path / "spool"
    rng = np.random.default_rng(0)
    with Controller(
        tether.Gaussian(0.0), store=store_url, alpha=0.1, fallback=fallback, spool=spool
    ) as run:
        round_ = run.begin()
        taken = round_.act(3, rng)
    run.close()  # again: nothing happens
    for call in (
        run.begin,
        run.pending,
        run.training_rows,
        run.history,
        lambda: run.round,
        lambda: round_.act(1, rng),
        lambda: round_.act(1, rng, key="a"),
        lambda: round_.record(None, [0.5], rng),
        lambda: round_.observe(taken.ids, np.zeros(3)),
        lambda: run.observe(taken.ids, np.zeros(3)),
        lambda: run.withdraw(taken.ids, "never"),
        lambda: run.halt("why"),
        lambda: run.resume("why"),
        lambda: run.retire(1, "why"),
    ):
        with pytest.raises(StoreError, match="the run is closed"):
            call()
    assert len(read_history(store_url).rounds) == 1
