"""The examples run and show what they say."""

import re
import runpy
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["six_lines", "own_family", "shortlist", "routing"])
def test_example(name, capsys):
    names = runpy.run_path(str(FOLDER / f"{name}.py"))
    printed = capsys.readouterr().out
    if name == "six_lines":
        shares = [float(each) for each in re.findall(r"([\d.]+)% leave", printed)]
        assert shares[0] < shares[2] < 12 < shares[1]  # safe, tethered, optimized
        assert names["found"].contextual
    elif name == "own_family":
        assert "within the promise" in printed
        assert 0.1 < names["found"].beta < 1
        assert abs(names["served"] - 0.1) < 0.01
    elif name == "routing":
        assert np.mean(names["ramps"]["no router"]) < 0.3
        assert names["ramps"]["router"][-1] > 0.9
    else:
        risks = names["risks"]
        assert risks["safe"] < 0.06 < risks["tethered"] < 0.105 < risks["picked by score"]
        assert "Round(3, beta=" in printed


def test_the_example_without_likelihoods(capsys):
    names = runpy.run_path(str(FOLDER / "no_likelihoods.py"))
    printed = capsys.readouterr().out
    assert printed.count("approximate") >= 2
    assert 1 < names["ratio"].error < 1.3
    assert 0.2 < names["found"].beta < 2


@pytest.mark.slow
def test_the_demonstration_keeps_what_is_tolerated_and_writes_only_into_its_folder(
    tmp_path, monkeypatch, capsys
):
    pytest.importorskip("sklearn", reason="needs tether[demo]")
    pytest.importorskip("matplotlib", reason="needs tether[demo]")
    import examples.demo.__main__ as demo

    in_this_process = nullcontext(SimpleNamespace(map=map))
    monkeypatch.setattr(demo, "WORK", tmp_path)
    monkeypatch.setattr(demo, "ProcessPoolExecutor", lambda count: in_this_process)
    demo.main(2)
    printed = capsys.readouterr().out
    assert "tether keeps" in printed
    assert printed.count("round ") == demo.ROUNDS
    assert {each.name for each in tmp_path.iterdir()} >= {"demo.png", "demo.db", "report.html"}
