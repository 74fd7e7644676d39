"""A real PostgreSQL server of the tests' own: on a Unix socket, in a folder that goes away."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

OPTIONS = "-c listen_addresses='' -c max_connections=60 -c fsync=off -c full_page_writes=off"
OPTIONS += " -c default_transaction_isolation=serializable"  # what a store must not depend on
DEADLINE_SECONDS = 300


def missing() -> str | None:
    """Why no server can be started; None where one can."""
    if programs() is None:
        return "PostgreSQL is not installed: no initdb in /usr/lib/postgresql/*/bin or on the PATH"
    if os.geteuid() == 0 and not _has_user("postgres"):
        return "PostgreSQL does not run as root, and there is no user postgres to run it as"
    if find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'tether[postgres]'"
    return None


def programs() -> Path | None:
    """The folder with initdb and pg_ctl, the newest version first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version, reverse=True)
    on_path = shutil.which("initdb")
    return found[0].parent if found else Path(on_path).resolve().parent if on_path else None


class Server:
    """One server with as many databases as are asked for; it may be stopped and started again."""

    def __init__(self) -> None:
        self._bin, self._numbers = programs(), count(1)
        self.folder = Path(tempfile.mkdtemp(prefix="tether-postgres-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._data = self.folder / "data"
        self._run("initdb", "-D", self._data, "-U", "tether", "-A", "trust", "-E", "UTF8", "-N")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        how = ("-w", "-t", DEADLINE_SECONDS, "-o", f"{OPTIONS} -k {self.folder}")
        self._run("pg_ctl", "-D", self._data, "-l", self.folder / "log", *how, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: "fast" cuts every connection, "immediate" is a crash."""
        self._run("pg_ctl", "-D", self._data, "-w", "-t", DEADLINE_SECONDS, "-m", mode, "stop")

    def close(self) -> None:
        """Stop it for good."""
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"run_{next(self._numbers)}"
        self.tell(f"CREATE DATABASE {name} TEMPLATE template0")
        return f"postgresql+psycopg://tether@/{name}?host={self.folder}"

    def drop(self, url: str) -> None:
        """Throw a database away, whoever is still connected to it."""
        self.tell(f"DROP DATABASE {url.split('@/')[1].split('?')[0]} WITH (FORCE)")

    def tell(self, statement: str, database: str = "postgres") -> Any:
        """Run one statement beside everything that the store does; its first value, if any."""
        import psycopg

        where = f"host={self.folder} user=tether dbname={database}"
        with psycopg.connect(where, autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchone()[0] if done.description else None

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._bin / program), *map(str, arguments)]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        said = self.folder / "said"  # a file: the server would keep a pipe open
        with said.open("wb") as output:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            done = subprocess.run(command, cwd=self.folder, timeout=DEADLINE_SECONDS, **quiet)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {said.read_text()}")


def _version(path: Path) -> float:
    return float(path.parent.parent.name)


def _has_user(name: str) -> bool:
    import pwd

    return any(each.pw_name == name for each in pwd.getpwall())
