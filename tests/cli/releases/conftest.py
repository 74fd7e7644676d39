"""A release with a log of the old system, and files of keys and losses."""

import pytest

from tests.cli.command_line import run

KEYS = [f"user {k}" for k in range(300)]


@pytest.fixture
def old(tmp_path):
    """The losses of the old system: 10 complaints in 1,000 keys, and a short latency."""
    path = tmp_path / "old.csv"
    rows = [f"{int(k < 10)},0.01" for k in range(1_000)]
    path.write_text("\n".join(["complaint,latency", *rows, ""]))
    return path


@pytest.fixture
def store(tmp_path, old):
    path = tmp_path / "rollout.db"
    guardrails = ["--guardrail", "complaint=0.05", "--guardrail", "latency=0.1:2.0"]
    done = run("release", "start", path, *guardrails, "--old", old, "--salt", "00ff")
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture
def keys_file(tmp_path):
    path = tmp_path / "keys.csv"
    path.write_text("\n".join(["key", *KEYS, ""]))
    return path
