"""Betas are computed again from the store: no wrong one passes, whatever else agrees with it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import tether
from tests.rounds.forged_stores import link_again
from tests.rounds.worlds import WORLDS, World, one_round
from tether.rounds import Controller, calibrate_round, verify_store


def problems(path):
    return [each.text for each in verify_store(path).problems if each.name == "calibrations"]


def make_run(path, world, rounds=4, rows=250, **settings):
    given = {"alpha": 0.3, "alarm_risk": 0.95} | settings
    rng = np.random.default_rng(0)
    with Controller(world.safe(), store=path, **given) as run:
        for number in range(1, rounds + 1):
            one_round(run, world, number, rows, rng)
        assert any(each.beta > 0 for each in run.history().rounds)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(4)"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_true_betas_are_found_again(world, family, tmp_path):
    make_run(tmp_path / "run.db", world, family=family)
    assert problems(tmp_path / "run.db") == []


@pytest.mark.parametrize(
    "settings",
    [
        {"against": "last"},
        {"confidence": 0.8},
        {"alpha": None, "promise": 0.3},
        {"test_weight": "analytic", "ratio_error": 1.1},
        {"missing": "exclude", "blend": 0.0},
    ],
    ids=lambda settings: "-".join(settings),
)
@pytest.mark.parametrize("kind", ["tables", "marginal"])
def test_true_betas_are_found_again_with_other_settings(kind, settings, tmp_path):
    make_run(tmp_path / "run.db", World(kind), **settings)
    assert problems(tmp_path / "run.db") == []


def test_late_losses_withdrawals_and_retired_rounds(tmp_path):
    """Each round is computed from what was known when it began."""
    world, rng = World("marginal"), np.random.default_rng(1)
    path = tmp_path / "run.db"
    with Controller(
        world.safe(), store=path, alpha=0.3, alarm_risk=0.95, missing="worst_case"
    ) as run:
        late = []
        for number in range(1, 6):
            round_ = run.begin(world.optimized(number) if number > 1 else None)
            taken = round_.act(200, rng)
            losses = world.losses(None, taken.actions)
            run.observe(taken.ids[:180], losses[:180])
            run.withdraw(taken.ids[195:], "never carried out")
            late.append((taken.ids[180:195], losses[180:195]))
            if number == 3:
                run.retire(2, "a drill")
            if number == 4:
                for ids, known in late[:2]:
                    run.observe(ids, known)
    assert problems(path) == []


def test_a_calibration_on_other_losses_is_found(tmp_path, monkeypatch):
    """Everything in the store agrees with the wrong beta but the rows themselves."""
    calibrate = calibrate_round.calibrate

    def on_lower_losses(log, *arguments, **options):
        columns = {name: log.rows.columns[name] for name in ("log_safe", "log_optimized")}
        lower = {name: 0.2 * loss for name, loss in log.loss.items()}
        return calibrate(tether.Log(lower, **columns), *arguments, **options)

    path, world = tmp_path / "run.db", World("marginal")
    with monkeypatch.context() as patch:
        patch.setattr(calibrate_round, "calibrate", on_lower_losses)
        make_run(path, world, rounds=2)
    (problem,) = problems(path)
    assert problem.startswith("round 2: log_beta is")


@pytest.mark.parametrize("rule", ["alpha", "promise"])
def test_a_forged_beta_or_promise_is_found_also_with_a_new_chain(rule, tmp_path):
    path = tmp_path / "run.db"
    make_run(path, World("tables"), rounds=3, **{"alpha": None, rule: 0.15})

    def forge(change):
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT calibration, log_beta FROM tether_rounds WHERE number = 3"
            before = connection.execute(query).fetchone()
            content = json.loads(before[0])
            log_beta = change(content) or before[1]
            statement = "UPDATE tether_rounds SET calibration = ?, log_beta = ? WHERE number = 3"
            connection.execute(statement, [json.dumps(content), log_beta])
            connection.commit()
            link_again(path)
            found = problems(path)
            connection.execute(statement, before)
            connection.commit()
        link_again(path)
        return found

    def larger(content):
        content["log_beta"] += 1.0
        for each in content["losses"].values():
            each["log_beta"] += 1.0
        return content["log_beta"]

    def lower_promise(content):
        content["losses"]["loss"]["promise"] *= 0.8

    assert "log_beta is" in forge(larger)[0]
    assert "the promise of 'loss'" in forge(lower_promise)[0]
    assert forge(lambda content: None) == []
