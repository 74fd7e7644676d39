"""Stores to test on: SQLite in a file, and PostgreSQL on a real server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rounds import postgres_server
from tests.rounds.child_processes import ChildProcesses


@pytest.fixture(scope="session")
def server() -> Iterator[postgres_server.Server]:
    """One PostgreSQL server for all tests."""
    reason = postgres_server.missing()
    if reason:
        pytest.skip(reason)
    server = postgres_server.Server()
    yield server
    server.close()


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


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A store that is not there yet, in a file."""
    return f"sqlite:///{tmp_path / 'run.db'}"


@pytest.fixture
def postgres_url(server: postgres_server.Server) -> Iterator[str]:
    """A store that is not there yet, in an empty database of its own."""
    url = server.database()
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A store that is not there yet, on each of the two databases."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(name))
