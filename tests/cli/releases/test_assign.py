"""`tether release assign`."""

import csv
import io
import json

import pytest

import tether
from tests.cli.command_line import one_line, run
from tests.cli.releases.conftest import KEYS


def test_keys_are_assigned_as_the_class_assigns_them(store, keys_file):
    done = run("release", "assign", store, "--file", keys_file)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.output)))
    assert [row["key"] for row in rows] == KEYS
    assert {row["system"] for row in rows} == {"old", "new"}
    with tether.Release(store) as release:
        assert release.assign(KEYS) == [row["system"] for row in rows]
        assert sum(step.old.rows + step.new.rows for step in release.history().steps) == 300
    assert run("release", "assign", store, *KEYS[:3]).output.splitlines() == [
        "key,system",
        *(f"{row['key']},{row['system']}" for row in rows[:3]),
    ]


def test_json_lines_have_odd_keys_exactly_and_csv_shows_no_control_characters(store, tmp_path):
    odd = ['a,"b"', "\x1b[31m", "007", "é\u202e"]
    done = run("release", "assign", store, *odd, "--json")
    assert [json.loads(line)["key"] for line in done.output.splitlines()] == odd
    shown = run("release", "assign", store, *odd)
    assert "\x1b" not in shown.output
    assert "\u202e" not in shown.output
    assert '"a,""b""",' in shown.output
    (tmp_path / "keys.jsonl").write_text(done.output)
    again = run("release", "assign", store, "--file", tmp_path / "keys.jsonl", "--json")
    assert again.output == done.output


def test_keys_of_a_file_are_not_numbers(store, tmp_path):
    (tmp_path / "keys.csv").write_text("key\n007\n7\n1e3\n")
    done = run("release", "assign", store, "--file", tmp_path / "keys.csv")
    assert [line.split(",")[0] for line in done.output.splitlines()[1:]] == ["007", "7", "1e3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name either keys or a --file of them"),
        (["a", "--file", "keys.csv"], "name either keys or a --file of them"),
        ([""], "a key must have 1 to 500 bytes, got ''"),
        (["x" * 501], "a key must have 1 to 500 bytes"),
        (["--file", "nothing.csv"], "there is no file nothing.csv"),
        (["--file", "old.csv"], "--file old.csv must have a column 'key'"),
        (["--file", "rollout.db"], "must end in .parquet, .csv, .csv.gz or .jsonl"),
    ],
)
def test_wrong_arguments(store, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    done = run("release", "assign", store, *words)
    assert done.exit_code == 2
    assert message in one_line(done)
    assert "key,system" not in done.output


def test_a_store_that_is_no_release(tmp_path):
    assert "there is no store" in one_line(run("release", "assign", tmp_path / "no.db", "ann"))
    with tether.Controller(tether.Gaussian(0.0, 1.0), alpha=0.1, store=tmp_path / "run.db"):
        pass
    done = run("release", "assign", tmp_path / "run.db", "ann")
    assert done.exit_code == 2
    assert "run.db holds" in one_line(done)
