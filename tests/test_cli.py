"""The command line, as a script would use it."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tether
from tests.control.example_logs import gaussian_columns
from tether.cli.app import app

COLUMNS = {"safe": "log_safe", "optimized": "log_optimized"}


@pytest.fixture
def files(tmp_path):
    made = gaussian_columns(np.random.default_rng(0), 800, 300)
    log = pd.DataFrame({"loss": made["loss"], **{to: made[of] for of, to in COLUMNS.items()}})
    draws = pd.DataFrame({to: made[f"draw_{of}"] for of, to in COLUMNS.items()})
    log.assign(delay=np.linspace(0, 0.4, 800)).to_parquet(tmp_path / "log.parquet")
    log.to_csv(tmp_path / "log.csv", index=False)
    log.to_csv(tmp_path / "log.csv.gz", index=False)
    draws.to_csv(tmp_path / "draws.csv", index=False)
    draws.assign(context="a").to_parquet(tmp_path / "contexts.parquet")
    (tmp_path / "broken.parquet").write_text("not parquet")
    (tmp_path / "log.txt").write_text("")
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_calibrate_says_what_the_library_says(files):
    for name in ("log.parquet", "log.csv", "log.csv.gz"):
        out = files / "found.json"
        done = run(
            "calibrate", files / name, "--alpha", 0.1, "--proposals", files / "draws.csv",
            "--out", out,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        saved = tether.Calibration.load(out)
        found = tether.calibrate(
            tether.Log.from_frame(pd.read_parquet(files / "log.parquet")),
            tether.Proposals.from_frame(pd.read_csv(files / "draws.csv")),
            alpha=0.1,
        )
        assert saved.beta == pytest.approx(found.beta)
        assert f"beta = {found.beta:.4g}" in done.output
        assert "saved in" in done.output


def test_calibrate_prints_json(files):
    done = run("calibrate", files / "log.csv", "--alpha", 0.1, "--json")
    content = json.loads(done.output)
    assert content["family"] == "clip"
    assert content["test_weight"] == "analytic"


def test_several_losses_and_a_number_as_test_weight(files):
    done = run(
        "calibrate", files / "log.parquet", "--loss", "loss", "--loss", "delay",
        "--alpha", "loss=0.1", "--alpha", "delay=0.25", "--test-weight", 3, "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    content = json.loads(done.output)
    assert [each["alpha"] for each in content["constraints"]] == [0.1, 0.25]
    assert content["test_weight"] == 3.0


def test_nothing_passes_is_its_own_exit_code(files):
    done = run("calibrate", files / "log.csv", "--alpha", 0.01)
    assert done.exit_code == 3
    assert "serve the safe policy only" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["calibrate", "none.csv", "--alpha", 0.1], "there is no file"),
        (["calibrate", "log.txt", "--alpha", 0.1], "must end in .parquet, .csv or .csv.gz"),
        (["calibrate", "broken.parquet", "--alpha", 0.1], "cannot be read"),
        (["calibrate", "log.csv", "--alpha", "much"], "alpha must be a number, got 'much'"),
        (["calibrate", "log.csv", "--alpha", 2], "alpha must be above 0 and below 1, got 2.0"),
        (["calibrate", "log.csv", "--alpha", 0.1, "--alpha", 0.2], "must be NAME=VALUE"),
        (["calibrate", "log.csv", "--alpha", 0.1, "--loss", "cost"], "no column 'cost'"),
        (["calibrate", "log.csv", "--alpha", 0.1, "--family", "knot"], "got 'knot'"),
        (["calibrate", "log.csv", "--alpha", 0.1, "--family", "mix"], "needs proposals"),
        (["calibrate", "log.csv", "--alpha", 0.1, "--context", "who"], "no column 'who'"),
        (
            ["calibrate", "log.csv", "--alpha", 0.1, "--proposals", "contexts.parquet"],
            "the proposals has contexts but the log has none",
        ),
        (["plan", "--alpha", 0, "--safe-risk", 0.1], "alpha must be above 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(files, words, message):
    there = [files / word if str(word).endswith((".csv", ".txt", ".parquet")) else word
             for word in words]  # fmt: skip
    done = run(*there)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_plan(files):
    done = run("plan", "--alpha", 0.1, "--safe-risk", 0.05)
    assert done.exit_code == 0
    assert "18 rows at least" in done.output
    done = run("plan", "--alpha", 0.1, "--safe-risk", 0.05, "--rows", 500, "--json")
    assert json.loads(done.output)["betas"][0][0] == 500


def test_demo_and_thresholds_are_at_hand():
    assert "biopsy" in run("demo", "--help").output
    assert "--score" in run("gcrc", "--help").output


@pytest.mark.parametrize("lacking", ["typer", "rich", "pyarrow"])
def test_without_its_extra_the_command_says_what_to_install(lacking):
    code = f"import sys; sys.modules[{lacking!r}] = None; import tether.__main__ as m; m.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'tether[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "tether", "plan", "--alpha", "0.1", "--safe-risk", "0.05"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "18 rows" in done.stdout


def test_help_and_missing_options():
    assert run("--help").exit_code == 0
    assert run("calibrate").exit_code == 2
    assert run("nonsense").exit_code == 2
