"""`tether threshold`."""

import json

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import tether
from tests.cli.command_line import run

RNG = np.random.default_rng(12)
ITEMS = np.repeat([f"q{i}" for i in range(200)], 4)
SCORES = RNG.random(800)
TRUE = RNG.random(800) < SCORES
COLUMNS = ["--score", "s", "--label", "y", "--item", "q"]


@pytest.fixture(params=["parquet", "csv"])
def path(request, tmp_path):
    table = pyarrow.table({"q": ITEMS, "s": SCORES, "y": TRUE})
    file = tmp_path / f"claims.{request.param}"
    if request.param == "csv":
        pyarrow.csv.write_csv(table, file)
    else:
        pyarrow.parquet.write_table(table, file)
    return file


def call(*arguments):
    return run("threshold", *arguments)


@pytest.mark.parametrize("method", ["gcrc", "crc", "monotonized_crc", "ltt"])
def test_it_prints_and_saves_what_the_library_finds(path, method, tmp_path):
    out = tmp_path / "found.json"
    done = call(path, "--alpha", 0.25, *COLUMNS, "--method", method, "--out", out)
    assert done.exit_code == 0
    claims = tether.Claims.from_table(SCORES, TRUE, ITEMS)
    found = getattr(tether, method)(claims, alpha=0.25)
    assert done.stdout.strip().startswith(str(found))
    assert "saved in" in done.stdout
    assert tether.Selection.load(out).threshold == found.threshold


def test_loss_and_confidence(path):
    options = ["--loss", "any_false", "--method", "ltt", "--confidence", 0.7]
    done = call(path, "--alpha", 0.5, *COLUMNS, *options)
    assert done.exit_code == 0
    assert "any_false" in done.stdout
    assert "confidence 0.7" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--alpha", 2], "alpha must be above 0 and below 1, got 2.0"),
        (["--alpha", 0.1, "--score", "z"], "score: there is no column 'z'"),
        (["--alpha", 0.1, "--label", "s"], "expected a label of 0 or 1"),
        (["--alpha", 0.1, "--score", "q"], "scores must hold real numbers"),
        (["--alpha", 0.1, "--method", "x"], "--method must be one of 'gcrc'"),
        (["--alpha", 0.1, "--loss", "x"], "--loss must be one of 'fdr'"),
        (["--alpha", 0.1, "--confidence", 0.9], "--confidence is for --method ltt"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(path, arguments, message):
    done = call(path, *COLUMNS, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_and_unreadable_files(tmp_path):
    done = call(tmp_path / "no.parquet", "--alpha", 0.1, *COLUMNS)
    assert done.exit_code == 2
    assert "there is no file" in done.stderr
    (tmp_path / "bad.parquet").write_text("not a table")
    done = call(tmp_path / "bad.parquet", "--alpha", 0.1, *COLUMNS)
    assert done.exit_code == 2
    assert "cannot be read" in done.stderr


def test_exit_code_three_when_no_threshold_passes(path):
    done = call(path, "--alpha", 0.0001, *COLUMNS)
    assert done.exit_code == 3


def test_it_prints_json(path):
    done = call(path, "--alpha", 0.25, *COLUMNS, "--json")
    assert json.loads(done.stdout)["alpha"] == 0.25


def test_missing_values_are_named(tmp_path):
    table = pyarrow.table({"q": [1, 1], "s": [0.5, None], "y": [True, False]})
    pyarrow.parquet.write_table(table, tmp_path / "claims.parquet")
    done = call(tmp_path / "claims.parquet", "--alpha", 0.1, *COLUMNS)
    assert done.exit_code == 2
    assert "column 's' has 1 missing value(s)" in done.stderr
