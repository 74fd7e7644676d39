"""Where nothing passes, `tether calibrate` prints a `tether plan` that says how many rows would."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import tether
from tests.cli.command_line import one_line, run

RNG = np.random.default_rng(4)
ROWS = 800
ITEM = RNG.choice(3, p=[0.5, 0.3, 0.2], size=ROWS)
TABLE = pd.DataFrame(
    {
        "loss": (RNG.permutation(ROWS) < 24).astype(float),  # 3 %
        "propensity": np.array([0.5, 0.3, 0.2])[ITEM],
        "new": np.array([0.3, 0.3, 0.4])[ITEM],
    }
)
COLUMNS = ("--no-context", "--propensity", "propensity", "--probability", "new")


def calibrated(tmp_path, *options, table=TABLE):
    table.to_csv(tmp_path / "log.csv", index=False)
    return run("calibrate", tmp_path / "log.csv", *COLUMNS, *options)


@pytest.mark.parametrize(
    "options",
    [
        ("--promise", 0.035),
        ("--alpha", 0.031),
        ("--promise", 0.035, "--family", "mix", "--min-propensity", 0.2),
        ("--promise", 0.07, "--bound", 2.0),
    ],
)
def test_the_command_that_is_printed_says_how_many_rows(tmp_path, options):
    losses = TABLE.assign(loss=2 * TABLE.loss) if "--bound" in options else TABLE
    done = calibrated(tmp_path, *options, table=losses)
    assert done.exit_code == 3, done.output
    command = shlex.split(done.stdout.strip().splitlines()[-1])
    assert command[:2] == ["tether", "plan"]
    answer = run(*command[1:], "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    log = tether.Log(losses.loss, np.log(losses.propensity), np.log(losses.new))
    measured = tether.plan(log, promise=0.5)
    for name in ("safe_risk", "optimized_risk", "log_ratio_spread"):
        assert found[name] == pytest.approx(getattr(measured, name), rel=1e-3)
    as_json = json.loads(calibrated(tmp_path, *options, "--json", table=losses).stdout)
    assert shlex.split(as_json["plan_command"]) == command


@pytest.mark.parametrize("promise", [0.2, 0.01])
def test_there_is_none_where_a_beta_passes_or_rows_do_not_help(tmp_path, promise):
    done = calibrated(tmp_path, "--promise", promise)
    assert "tether plan --" not in done.output


def test_a_confidence_is_planned_for(tmp_path):
    done = calibrated(tmp_path, "--promise", 0.035, "--confidence", 0.9)
    assert "tether plan --promise 0.035 --confidence 0.9 --safe-risk" in done.output


def test_there_is_none_for_a_log_that_refutes_itself(tmp_path):
    table = pd.DataFrame({"loss": TABLE.loss, "log_safe": np.log(TABLE.propensity)})
    for added, is_refuted in ((0.0, False), (0.6, True)):
        table.assign(log_optimized=np.log(TABLE.new) + added).to_csv(tmp_path / "log.csv")
        done = run("calibrate", tmp_path / "log.csv", "--no-context", "--promise", 0.035)
        assert done.exit_code == 3, done.output
        assert ("a calibration on this log does not hold" in one_line(done)) == is_refuted
        assert ("tether plan --" in done.output) != is_refuted
