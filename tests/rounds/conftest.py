"""Child processes, and folders in memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rounds.child_processes import ChildProcesses
from tests.runs.conftest import postgres_url, server, sqlite_url, store_url  # noqa: F401


@pytest.fixture(scope="session")
def child_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildProcesses]:
    """Where the processes come from that run beside the tests' own."""
    with ChildProcesses(tmp_path_factory.mktemp("children")) as children:
        yield children


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be had: kill -9 does not ask what reached the disk."""
    memory = Path("/dev/shm")
    found = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield found
    shutil.rmtree(found)
