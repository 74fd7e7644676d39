"""`tether status` of a run that ramps its policies."""

import json

import numpy as np

import tether
from tests.cli.command_line import one_line, run
from tests.rounds.ramps.ramp_model import AlwaysTakes


def test_status_shows_the_share_and_what_decided_it(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    rng, store = np.random.default_rng(0), tmp_path / "run.db"
    given = {"alpha": 0.2, "store": store, "family": "ramp", "actions_per_step": 100}
    with tether.Controller(AlwaysTakes(0), **given) as controller:
        taken = controller.begin().act(200, rng)
        controller.observe(taken.ids, np.zeros(200))
        round_ = controller.begin(AlwaysTakes(1))
        for _ in range(2):
            taken = round_.act(100, rng)
            controller.observe(taken.ids, np.zeros(100))
    shown = one_line(run("status", store))
    assert "family ramp, steps: 100 actions" in shown
    assert "no optimized policy was given" in shown
    assert "so small that even a policy that always fails stays within" in shown
    assert "100.000%" in shown
    content = json.loads(run("status", store, "--json").output)
    first, second, third = content["rounds"]
    assert (first["share"], first["ramp_share"]) == (0, None)
    assert 0 < second["share"] < third["share"] == 1
    assert second["policy_rows"] == second["rows"] - second["safe_rows"]
    assert third["ramp_share"]["guardrails"]["loss"]["new"]["rows"] == second["policy_rows"]
    assert third["why"] == f"{second['policy_rows']} rows of round 2"
    assert "beta" not in third
    assert "calibration" not in third


def test_steps_that_end_by_hand_are_called_so(tmp_path):
    store = tmp_path / "run.db"
    tether.Controller(AlwaysTakes(0), alpha=0.2, store=store, family="ramp").close()
    assert "family ramp, steps: by hand" in one_line(run("status", store))
