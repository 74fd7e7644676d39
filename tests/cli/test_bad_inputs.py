"""No bad input of any command leads to a traceback, a control character or a number that is none.

All of them: `python -m benchmarks.bad_inputs`, which `make endurance` runs.
"""

import pytest

from tests.cli.bad_inputs import everything
from tests.cli.output_faults import all_faults, faults


@pytest.fixture
def commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return everything(tmp_path)


def test_a_sample_of_bad_inputs_has_no_faults(commands):
    sample = commands[::70]
    assert len(sample) > 70
    assert all_faults(sample) == []


@pytest.mark.slow
def test_five_hundred_bad_inputs_have_no_faults(commands):
    sample = commands[1::10]
    assert len(sample) > 450
    assert all_faults(sample) == []


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
