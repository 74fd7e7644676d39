"""`tether calibrate --missing worst_case`: what Python does with `fillna(bound)`."""

import json

import numpy as np
import pandas as pd
import pytest

import tether
from tests.cli.command_line import one_line, run

RNG = np.random.default_rng(3)
ROWS = 1500
pytestmark = pytest.mark.filterwarnings("always::tether.AssumptionWarning")
ITEM = RNG.choice(3, p=[0.5, 0.3, 0.2], size=ROWS)
TABLE = pd.DataFrame(
    {
        "segment": RNG.choice(["new", "member"], size=ROWS),
        "complaint": (RNG.random(ROWS) < 0.02 + 0.1 * (ITEM == 2)).astype(float),
        "delay": RNG.random(ROWS),
        "log_safe": np.log(np.array([0.5, 0.3, 0.2])[ITEM]),
        "log_optimized": np.log(np.array([0.3, 0.3, 0.4])[ITEM]),
    }
)
TABLE.loc[RNG.random(ROWS) < 0.02, "complaint"] = np.nan
TABLE.loc[:4, "delay"] = np.nan
GAPS = int(TABLE.complaint.isna().sum())
OPTIONS = ("--loss", "complaint", "--no-context", "--alpha", 0.12)


@pytest.fixture(params=["csv", "parquet", "boolean.csv", "boolean.parquet", "folder"])
def table(request, tmp_path):
    """The table in a file; its losses as numbers or as truth values, and in parts."""
    frame = TABLE.copy()
    if "boolean" in request.param:
        frame["complaint"] = frame.complaint.map({1.0: True, 0.0: False})
    if request.param.endswith("csv"):
        path = tmp_path / f"log.{request.param}"
        frame.to_csv(path, index=False)
        return path
    folder = tmp_path / "parts"
    folder.mkdir()
    path = folder / "log.parquet"
    frame.to_parquet(path, index=False)
    return folder if request.param == "folder" else path


def test_missing_losses_are_an_error_that_names_the_option(table):
    done = run("calibrate", table, *OPTIONS)
    assert done.exit_code == 2
    assert "as the largest possible one, with --missing worst_case, or leave" in one_line(done)


def test_missing_losses_count_as_the_bound(table, tmp_path):
    expected = tether.calibrate(
        tether.Log.from_frame(
            TABLE.assign(complaint=TABLE.complaint.fillna(1.0)), loss="complaint", context=None
        ),
        alpha=0.12,
    )
    assert expected.beta > 0
    out = tmp_path / "found.json"
    worst = ("--missing", "worst_case")
    done = run("calibrate", table, *OPTIONS, *worst, "--json", "--out", out)
    assert done.exit_code == 0, done.output
    assert float(json.loads(done.stdout)["beta"]) == pytest.approx(expected.beta, rel=1e-6)
    if table.is_file():
        assert f"{GAPS} of 1,500 losses of 'complaint' are missing and count as 1" in one_line(done)
        done = run("verify", out, "--log", table, *OPTIONS[:3], *worst)
        assert done.exit_code == 0, done.output


def test_each_loss_has_its_own_bound(tmp_path):
    TABLE.to_csv(tmp_path / "log.csv", index=False)
    losses = ("--loss", "complaint", "--loss", "delay", "--no-context")
    limits = ("--alpha", "complaint=0.12", "--alpha", "delay=1.9")
    bounds = ("--bound", "complaint=1", "--bound", "delay=2")
    out = tmp_path / "found.json"
    worst = ("--missing", "worst_case")
    done = run("calibrate", tmp_path / "log.csv", *losses, *limits, *bounds, *worst, "--out", out)
    assert "5 of 1,500 losses of 'delay' are missing and count as 2" in one_line(done)
    assert run("verify", out, "--log", tmp_path / "log.csv", *losses, *worst).exit_code == 0


def test_other_words_are_refused(tmp_path):
    TABLE.to_csv(tmp_path / "log.csv", index=False)
    done = run("calibrate", tmp_path / "log.csv", *OPTIONS, "--missing", "exclude")
    assert done.exit_code == 2
    assert "--missing must be worst_case, got 'exclude'" in one_line(done)
