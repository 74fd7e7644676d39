"""The examples run and show what they say."""

import inspect
import re
import runpy
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tether

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    "name", ["six_lines", "mixture_proposal", "own_family", "shortlist", "routing"]
)
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
    elif name == "shortlist":
        risks = names["risks"]
        assert risks["safe"] < 0.06 < risks["tethered"] < 0.105 < risks["picked by score"]
        assert "Round(3, beta=" in printed
    else:
        assert names["info"].acceptance > 0.99


@pytest.mark.skipif(
    "ratio_error" not in inspect.signature(tether.calibrate).parameters,
    reason="calibrate has no ratio_error yet",
)
def test_the_example_without_likelihoods(capsys):
    names = runpy.run_path(str(FOLDER / "no_likelihoods.py"))
    printed = capsys.readouterr().out
    assert printed.count("approximate") >= 2
    assert 1 < names["ratio"].error < 1.3
    assert 0.2 < names["found"].beta < 2


def test_four_new_systems_are_released_as_far_as_their_losses_allow(tmp_path):
    example = runpy.run_path(str(FOLDER / "canary.py"))
    ramps = example["simulate"](1)
    assert ramps["better"][0, -1] > 0.9
    assert ramps["slightly worse"][0, -1] > 0.6
    assert np.mean(ramps["worse"]) < 0.35
    assert np.max(ramps["always harmful"]) < 0.03
    example["draw"](ramps, tmp_path / "canary.png")
    assert (tmp_path / "canary.png").stat().st_size > 10_000


def test_aimed_policies_earn_more_at_the_same_alpha(tmp_path):
    example = runpy.run_path(str(FOLDER / "aim.py"))
    served = example["run"](np.random.default_rng(0))
    (clip_risk, clip), (aimed_risk, aimed), (chosen_risk, chosen) = (
        served[name][1] for name in ("clip", "aimed", "chosen")
    )
    assert clip < aimed < chosen
    assert max(clip_risk, aimed_risk, chosen_risk) < 0.1
    example["draw"]([served], tmp_path / "aim.png")
    assert (tmp_path / "aim.png").stat().st_size > 10_000


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
