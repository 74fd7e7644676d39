"""No bad input of any command leads to a traceback, a control character or a number that is none.

A sample by default; `make bad-inputs` tries 3,000, and `python -m benchmarks.bad_inputs` all.
"""

import os

import numpy as np
import pytest

from tests.cli.bad_inputs import everything
from tests.cli.output_faults import all_faults, faults

COUNT = int(os.environ.get("TETHER_BAD_INPUTS", "150"))
"""How many inputs are tried, evenly spread over all of them."""


@pytest.fixture
def commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return everything(tmp_path)


def test_bad_inputs_have_no_faults(commands):
    distinct = list({tuple(map(str, words)): words for words in commands}.values())
    assert len(distinct) > 5000
    places = np.linspace(0, len(distinct) - 1, COUNT).astype(int)
    assert len(set(places)) == COUNT
    assert all_faults([distinct[place] for place in places]) == []


def test_faults_are_found(monkeypatch):
    """The measure itself can fail: each fault, put in on purpose, is named."""
    from tether.cli import plan

    def broken(text):
        def fake(**_):
            raise ValueError(text)

        return fake

    words = ["plan", "--safe-risk", "0.05", "--alpha", "0.1"]
    monkeypatch.setattr(plan.tether, "plan", lambda **_: 1 / 0)
    assert "ZeroDivisionError" in faults(words)[0]
    monkeypatch.setattr(plan.tether, "plan", broken("a \x1b[31m \u202e"))
    assert faults(words) == []
    monkeypatch.setattr("tether.cli.terminal.visible", lambda text: text)
    assert "control characters" in faults(words)[0]
