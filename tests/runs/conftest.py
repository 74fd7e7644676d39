"""Stores to test on: SQLite in a file, and PostgreSQL on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs import postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[postgres_server.Server]:
    """One PostgreSQL server for all tests."""
    reason = postgres_server.missing()
    if reason:
        pytest.skip(reason)
    server = postgres_server.Server()
    yield server
    server.close()


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


@pytest.fixture(scope="session", autouse=True)
def sqlite_in_haste() -> Iterator[None]:
    """Do not wait for the disk: no test switches the machine off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tether.runs.databases.SYNCHRONOUS", "OFF")
        yield
