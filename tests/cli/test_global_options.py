"""Options of `tether` itself, completion, and commands whose extra is missing."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tether
from tests.cli.command_line import run

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
sys.argv = ["tether", *{words!r}]
from tether.__main__ import main
main()
"""


def without(blocked, *words, **variables):
    """`tether` in a process in which some packages cannot be imported."""
    code = BLOCKED.format(blocked=set(blocked), words=[str(word) for word in words])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def test_the_version():
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"tether {tether.__version__}\n")


def test_what_is_done_is_logged_on_request(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.random(800)
    table = {"s": scores, "y": rng.random(800) < scores, "q": np.repeat(np.arange(200), 4)}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "claims.parquet")
    words = ["threshold", tmp_path / "claims.parquet", "--score", "s", "--label", "y"]
    words += ["--item", "q", "--alpha", 0.3]
    done = without((), "-v", *words)
    assert "INFO tether.risk: gCRC on 200 items: threshold" in done.stderr
    assert without((), *words).stderr == ""
    assert done.stdout == without((), *words).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell):
    done = without((), _TETHER_COMPLETE=f"source_{shell}")
    assert "tether" in done.stdout
    if shell == "bash":
        done = without(
            (), _TETHER_COMPLETE="complete_bash", COMP_WORDS="tether thr", COMP_CWORD="1"
        )
        assert done.stdout.split() == ["threshold"]


@pytest.mark.parametrize(
    ("blocked", "words", "extra"),
    [
        (["torch"], ["preflight", "prompts.txt", "--safe", "a", "--optimized", "b"], "llm"),
        (["httpx2"], ["preflight", "prompts.txt", "--safe", "a", "--optimized", "b"], "llm"),
        (["sqlalchemy"], ["status", "run.db"], "rounds"),
        (["sqlalchemy"], ["halt", "run.db", "--reason", "x"], "rounds"),
        (["starlette"], ["serve", "service.toml"], "serve"),
        (["sklearn"], ["demo"], "demo"),
        (["matplotlib"], ["demo"], "demo"),
        (["cryptography"], ["keygen", "key.pem"], "signing"),
        (["typer"], ["status", "run.db"], "cli"),
    ],
)
def test_a_command_without_its_extra_says_how_to_install_it(blocked, words, extra, tmp_path):
    service = tmp_path / "service.toml"
    service.write_text("")
    words = [str(tmp_path / word) if "." in word else word for word in words]
    (tmp_path / "prompts.txt").write_text("Hello\n")
    (tmp_path / "run.db").write_bytes(b"")
    done = without(blocked, *words)
    assert done.returncode != 0
    assert f"pip install 'tether[{extra}]'" in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr
