"""The examples run and show what they say."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["six_lines", "mixture_proposal", "own_family", "shortlist"])
def test_example(name, capsys):
    names = runpy.run_path(str(FOLDER / f"{name}.py"))
    printed = capsys.readouterr().out
    if name == "six_lines":
        assert "9." in printed.split("tethered")[1]
        assert names["found"].contextual
    elif name == "own_family":
        assert "within the promise" in printed
        assert 0.1 < names["found"].beta < 1
        assert abs(names["served"] - 0.1) < 0.01
    elif name == "shortlist":
        risks = names["risks"]
        assert risks["safe"] < 0.06 < risks["tethered"] < 0.105 < risks["picked by score"]
        assert "Round(3, beta=" in printed
    else:
        assert names["info"].acceptance > 0.99
