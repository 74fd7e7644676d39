"""The application as a whole: help, running as a module, missing extras."""

import subprocess
import sys

import pytest

from tests.cli.command_line import run

COMMANDS = ("calibrate", "plan", "threshold", "preflight", "status", "report")
COMMANDS += ("resume", "export", "import", "demo")


def test_every_command_has_help():
    done = run("--help")
    assert done.exit_code == 0
    for command in COMMANDS:
        assert command in done.output
        assert run(command, "--help").exit_code == 0


@pytest.mark.parametrize("missing", ["typer", "rich", "pyarrow"])
def test_a_missing_extra_is_named(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import tether.__main__ as m; m.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'tether[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_module_runs():
    done = subprocess.run(
        [sys.executable, "-m", "tether", "plan", "--alpha", "0.1", "--safe-risk", "0.05"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "18 rows" in done.stdout


def test_missing_options_and_unknown_commands():
    assert run("calibrate").exit_code == 2
    assert run("nonsense").exit_code == 2
