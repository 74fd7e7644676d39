"""The examples run and show what they say."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["six_lines", "mixture_proposal"])
def test_example(name, capsys):
    names = runpy.run_path(str(FOLDER / f"{name}.py"))
    printed = capsys.readouterr().out
    if name == "six_lines":
        assert "9." in printed.split("tethered")[1]
        assert names["found"].contextual
    else:
        assert names["info"].acceptance > 0.99
