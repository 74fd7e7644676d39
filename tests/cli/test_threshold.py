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
    assert done.exit_code == (3 if method == "crc" else 0)  # fdr is not monotone
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
        (["--alpha", 0.1, "--label", "s"], "--score and --label both name 's'"),
        (["--alpha", 0.1, "--score", "q"], "--score: column 'q' must hold real numbers"),
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
    assert (
        "no useful promise: about 9,999 items are needed before a threshold passes" in done.stdout
    )
    done = call(path, "--alpha", 0.001, *COLUMNS, "--method", "ltt")
    assert done.exit_code == 3
    assert "no useful promise: more items are needed" in done.stdout


def test_exit_code_three_when_crc_promises_nothing(path):
    """Losses that are not monotone: a threshold is found, and nothing is promised for it."""
    done = call(path, "--alpha", 0.25, *COLUMNS, "--method", "crc")
    assert done.exit_code == 3
    assert "promise     no useful promise: none: the losses are not monotone" in done.stdout
    assert "not monotone, however many items there are: use --method gcrc" in done.stdout
    done = call(path, "--promise", 0.25, *COLUMNS, "--method", "crc")
    assert done.exit_code == 3
    assert "not monotone, however many items there are: use --method gcrc" in done.stdout
    assert "items are needed" not in done.stdout
    done = call(path, "--alpha", 0.25, *COLUMNS, "--method", "crc", "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["useful"] is False
    done = call(path, "--alpha", 0.5, *COLUMNS, "--method", "crc", "--loss", "any_false")
    assert done.exit_code == 0


def test_a_promise_as_the_target(path):
    done = call(path, "--promise", 0.25, *COLUMNS, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["target"] == 0.25
    assert found["alpha"] <= found["promise"] <= 0.25
    claims = tether.Claims.from_table(SCORES, TRUE, ITEMS)
    assert found["threshold"] == tether.gcrc(claims, promise=0.25).threshold
    for arguments in ([], ["--alpha", 0.1, "--promise", 0.1]):
        done = call(path, *COLUMNS, *arguments)
        assert done.exit_code == 2
        assert "exactly one of --promise and --alpha" in done.stderr


def test_groups_are_a_column_of_the_table(tmp_path):
    group = np.where(np.arange(200) % 3 == 0, "hard", "easy")
    order = RNG.permutation(800)
    table = pyarrow.table(
        {"q": ITEMS[order], "s": SCORES[order], "y": TRUE[order], "g": np.repeat(group, 4)[order]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "claims.parquet")
    done = call(tmp_path / "claims.parquet", "--alpha", 0.3, *COLUMNS, "--group", "g", "--json")
    assert done.exit_code == 0
    for name, part in json.loads(done.stdout)["groups"].items():
        inside = np.repeat(group == name, 4)
        alone = tether.Claims.from_table(SCORES[inside], TRUE[inside], ITEMS[inside])
        assert part["threshold"] == tether.gcrc(alone, alpha=0.3).threshold
    done = call(tmp_path / "claims.parquet", "--alpha", 0.001, *COLUMNS, "--group", "g")
    assert done.exit_code == 3
    assert "no useful promise: (pooled): about 999 items" in done.stdout


def test_it_prints_json(path):
    done = call(path, "--alpha", 0.25, *COLUMNS, "--json")
    assert json.loads(done.stdout)["alpha"] == 0.25


def test_missing_values_are_named(tmp_path):
    table = pyarrow.table({"q": [1, 1], "s": [0.5, None], "y": [True, False]})
    pyarrow.parquet.write_table(table, tmp_path / "claims.parquet")
    done = call(tmp_path / "claims.parquet", "--alpha", 0.1, *COLUMNS)
    assert done.exit_code == 2
    assert "column 's' has 1 missing value(s)" in done.stderr


@pytest.mark.filterwarnings("always::tether.AssumptionWarning")
def test_warnings_of_the_library_are_one_line_beside_the_result_and_not_said_twice(tmp_path):
    rng = np.random.default_rng(0)
    scores, items = rng.random(400).round(9), np.repeat(np.arange(100), 4)
    labels = (rng.random(400) < scores).astype(int)
    path = tmp_path / "claims.csv"
    rows = [f"{i},{s},{y}" for i, s, y in zip(items, scores, labels, strict=True)]
    path.write_text("\n".join(["q,s,true", *rows, *rows]) + "\n")
    columns = ("--score", "s", "--label", "true", "--item", "q", "--promise", 0.2)
    done = run("threshold", path, *columns)
    assert done.exit_code == 0, done.output
    assert " ".join(done.stderr.split()).startswith(
        "warning: all claims of 100 of 100 items occur more"
    )
    assert ".py" not in done.stderr
    inverted = [f"{i},{-s},{y}" for i, s, y in zip(items, scores, labels, strict=True)]
    path.write_text("\n".join(["q,s,true", *inverted]) + "\n")
    done = run("threshold", path, *columns)
    assert "are labels or scores inverted?" in " ".join(done.stdout.split())
    assert done.stderr == ""
    done = run("threshold", path, *columns, "--json")
    assert " ".join(done.stderr.split()).startswith("warning: are labels or scores inverted?")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_words_as_labels_are_told_what_is_accepted(tmp_path, suffix):
    path = tmp_path / f"claims.{suffix}"
    table = pyarrow.table({"q": ITEMS, "s": SCORES, "y": np.where(TRUE, "yes", "no")})
    (pyarrow.csv.write_csv if suffix == "csv" else pyarrow.parquet.write_table)(table, path)
    done = call(path, "--alpha", 0.25, *COLUMNS)
    assert done.exit_code == 2
    told = " ".join(done.stderr.split())
    assert "--label: column 'y' must hold true and false, or 1 and 0" in told
    assert "== 'WORD'" in told
    if suffix == "parquet":
        done = call(tmp_path, "--alpha", 0.25, *COLUMNS)
        assert done.exit_code == 2
        assert "--label: column 'y' must hold true and false" in " ".join(done.stderr.split())


@pytest.mark.parametrize("method", ["gcrc", "all"])
def test_a_threshold_that_keeps_nothing_is_no_success(tmp_path, method):
    table = pyarrow.table({"q": ITEMS, "s": np.full(800, 0.5), "y": TRUE})
    pyarrow.parquet.write_table(table, tmp_path / "claims.parquet")
    options = (tmp_path / "claims.parquet", *COLUMNS, "--method", method)
    done = call(*options, "--alpha", 0.25)
    assert done.exit_code == 3, done.output
    assert "keeps nothing" in done.stdout
    if method == "gcrc":
        assert "no useful promise: the threshold keeps none of these claims" in done.stdout
    assert call(*options, "--alpha", 0.6).exit_code == 0


@pytest.mark.filterwarnings("default::tether.AssumptionWarning")
def test_inverted_labels_have_an_exit_code_although_a_threshold_passes(tmp_path):
    path = tmp_path / "claims.csv"
    table = pyarrow.table({"q": ITEMS, "s": SCORES, "y": ~TRUE, "z": TRUE})
    pyarrow.csv.write_csv(table, path)
    columns = ("--score", "s", "--item", "q", "--promise", 0.25)
    inverted = run("threshold", path, *columns, "--label", "y", "--json")
    assert json.loads(inverted.stdout)["exists"], inverted.output
    assert inverted.exit_code == 3
    assert run("threshold", path, *columns, "--label", "z").exit_code == 0
    compared = run("threshold", path, *columns, "--label", "y", "--method", "all")
    assert compared.exit_code == 3


@pytest.mark.filterwarnings("default::tether.AssumptionWarning")
@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_kind_have_an_exit_code_although_a_threshold_passes(tmp_path, label):
    path = tmp_path / "claims.csv"
    table = pyarrow.table({"q": ITEMS, "s": SCORES, "y": np.full(len(SCORES), label)})
    pyarrow.csv.write_csv(table, path)
    columns = ("--score", "s", "--item", "q", "--label", "y", "--promise", 0.25)
    done = run("threshold", path, *columns)
    assert done.exit_code == 3
    assert "are these the labels?" in " ".join(done.output.split())
