"""The help texts show every default: terminal markup swallows none of them."""

import re

import pytest

from tests.cli.command_line import run

DEFAULTS = {
    "calibrate": ("(default: loss)", "(default: log_mix, if"),
    "preflight": ("(default: the safe model's)", "(default: the model's)"),
    "plan": ("(default: the safe risk)", "(default: several sizes)"),
    "threshold": ("(default: 0.9)", "(default: none)", "Exit codes: 0 if the promise is useful"),
}


@pytest.mark.parametrize("command", DEFAULTS)
def test_defaults_are_shown(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = re.sub(r"[\s│]+", " ", run(command, "--help").output)
    for default in DEFAULTS[command]:
        assert default in shown
