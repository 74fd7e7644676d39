"""Every experiment in small, on generated stand-ins: without data files and without a network."""

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import data

ROOT = Path(__file__).parents[2]

SMALL = {
    "nonmonotone": [],
    "interpolation": [],
    "medical_qa": ["splits=2", "learned_splits=1", "sources_splits=2"],
    "active_learning": ["seeds=2"],
    "bayesian_optimization": ["seeds=2", "rounds=2", "alphas=[0.4]"],
    "routing": ["splits=2"],
    "logged_bandit": [],
    "ehrlich": ["rounds=1", "particles=800", "pairs=600", "sft_epochs=1", "first_sample=200"],
}


@pytest.fixture(autouse=True)
def no_files(monkeypatch, tmp_path):
    """No data files, an empty cache, and a download that fails."""
    monkeypatch.delenv("TETHER_DATA", raising=False)
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))

    def refuse(address, timeout):
        raise AssertionError(f"{address} is asked for")

    monkeypatch.setattr(data, "urlopen", refuse)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.filterwarnings("ignore")
def test_a_quick_run_writes_its_tables_and_figures(name, tmp_path, capsys):
    main = importlib.import_module(f"experiments.{name}.__main__").main
    chosen = [word for each in SMALL[name] for word in ("--set", each)]
    main(["--quick", "--out", str(tmp_path / "out"), *chosen])
    printed = capsys.readouterr().out
    uses_data = name in ("medical_qa", "active_learning", "routing", "logged_bandit")
    assert ("stand-in is used" in printed) == uses_data
    written = list((tmp_path / "out").iterdir())
    tables = [path for path in written if path.suffix == ".csv"]
    assert tables
    assert any(path.suffix == ".svg" for path in written)
    for path in tables:
        with path.open(encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) > 0


def test_several_processes_give_the_tables_of_one(tmp_path):
    for count in "12":
        options = ["--quick", "--out", str(tmp_path / count), "--set", f"processes={count}"]
        command = [sys.executable, "-W", "ignore", "-m", "experiments.active_learning", *options]
        command += ["--set", "seeds=1"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    one, two = ((tmp_path / each / "summary.csv").read_text() for each in "12")
    assert one == two


def test_risk_is_held_where_contexts_have_a_normalizer_each(tmp_path):
    from experiments.routing.__main__ import main

    main(["--quick", "--out", str(tmp_path), "--set", "alphas=[0.05]"])
    with (tmp_path / "routing.csv").open(encoding="utf-8") as file:
        found = {row["method"]: float(row["risk"]) for row in csv.DictReader(file)}
    for method in ("clip", "mix", "budgeted_clip(8)", "no router"):
        assert found[method] < 0.06
