"""Settings, results and their folder."""

import math

import numpy as np
import pytest

from experiments import harness


def test_settings_and_what_is_written(tmp_path, capsys):
    (tmp_path / "throw").mkdir()
    (tmp_path / "throw/config.toml").write_text("seed = 1\nthrows = 1000\n[quick]\nthrows = 10\n")
    script = str(tmp_path / "throw/__main__.py")
    full, quick = harness.begin(script, []), harness.begin(script, ["--quick"])
    assert [(each["throws"], each["seed"]) for each in (full, quick)] == [(1000, 1), (10, 1)]
    assert (full.out, quick.out) == (tmp_path / "throw/results", tmp_path / "throw/quick")
    task = harness.begin(script, ["--set", "throws=7", "--out", str(tmp_path / "o")])
    assert (task["throws"], task.out) == (7, tmp_path / "o")
    for wrong, said in (("throw=7", "no such setting"), ("throws", "not KEY=VALUE")):
        with pytest.raises(SystemExit):
            harness.begin(script, ["--set", wrong])
        assert said in capsys.readouterr().err
    path = quick.table("risk", [{"alpha": 0.1, "risk": 1 / 3}, {"alpha": 0.2, "risk": np.nan}])
    assert path.read_text() == "alpha,risk\n0.1,0.333333\n0.2,nan\n"
    quick.close()
    assert "python -m experiments.throw --quick" in (quick.out / "run.txt").read_text()


def test_means_leave_out_what_is_missing_and_pairs_are_compared_within_seeds():
    mean, error = harness.mean_and_error([1.0, 2.0, 3.0, math.nan])
    assert (mean, error) == (2.0, pytest.approx(1 / math.sqrt(3)))
    assert all(map(math.isnan, harness.mean_and_error([])))
    ours, theirs = {1: 2.0, 2: 3.0, 3: 5.0, 4: 9.0}, {1: 1.0, 2: 2.0, 3: 3.0, 5: 1.0}
    found = harness.paired(ours, theirs)
    assert found["ratio"] == pytest.approx(10 / 6)
    assert found["difference"] == pytest.approx(4 / 3)
    assert found["difference_error"] == pytest.approx(1 / 3)
    assert found["p"] == pytest.approx(0.0572, abs=1e-3)
