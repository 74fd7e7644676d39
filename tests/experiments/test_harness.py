"""Settings, results and their folder."""

import math

import numpy as np
import pytest

from experiments import harness


@pytest.fixture
def script(tmp_path):
    home = tmp_path / "throw"
    home.mkdir()
    (home / "config.toml").write_text("seed = 1\nthrows = 1000\n\n[quick]\nthrows = 10\n")
    return str(home / "__main__.py")


def test_quick_settings_override_and_go_to_their_own_folder(script, tmp_path):
    full, quick = harness.begin(script, []), harness.begin(script, ["--quick"])
    assert (full["throws"], quick["throws"]) == (1000, 10)
    assert full["seed"] == quick["seed"] == 1
    assert (full.out, quick.out) == (tmp_path / "throw/results", tmp_path / "throw/quick")


def test_a_setting_can_be_given_and_must_exist(script, tmp_path, capsys):
    task = harness.begin(script, ["--set", "throws=7", "--out", str(tmp_path / "o")])
    assert (task["throws"], task.out) == (7, tmp_path / "o")
    for wrong, said in (("throw=7", "no such setting"), ("throws", "not KEY=VALUE")):
        with pytest.raises(SystemExit):
            harness.begin(script, ["--set", wrong])
        assert said in capsys.readouterr().err


def test_tables_and_the_run_are_written(script, capsys):
    task = harness.begin(script, ["--quick"])
    path = task.table("risk", [{"alpha": 0.1, "risk": 1 / 3}, {"alpha": 0.2, "risk": np.nan}])
    assert path.read_text() == "alpha,risk\n0.1,0.333333\n0.2,nan\n"
    task.close()
    assert "python -m experiments.throw --quick" in (task.out / "run.txt").read_text()
    assert "seconds" in capsys.readouterr().out


def test_mean_and_error_leave_out_what_is_missing():
    mean, error = harness.mean_and_error([1.0, 2.0, 3.0, math.nan])
    assert (mean, error) == (2.0, pytest.approx(1 / math.sqrt(3)))
    assert harness.mean_and_error([5.0])[0] == 5.0
    assert all(map(math.isnan, harness.mean_and_error([])))


def test_pairs_are_compared_within_seeds():
    ours, theirs = {1: 2.0, 2: 3.0, 3: 5.0, 4: 9.0}, {1: 1.0, 2: 2.0, 3: 3.0, 5: 1.0}
    found = harness.paired(ours, theirs)
    assert found["ratio"] == pytest.approx(10 / 6)
    assert found["difference"] == pytest.approx(4 / 3)
    assert found["difference_error"] == pytest.approx(1 / 3)
    assert found["p"] == pytest.approx(0.0572, abs=1e-3)
