"""`tether serve` as processes of the tests' own, with workers that can be found and killed."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.service.running import tries

PATIENT_LIMITS = {"answer_within": 30, "store_deadline": 30, "requests_per_second": 1e9}
"""No test depends on how fast the machine is."""


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def write_settings(
    folder: Path, port: int, store: str, *, release: str = "", workers: int = 1, **limits: float
) -> Path:
    """A file of settings with a guardrail."""
    listed = "\n".join(
        f"{name} = {float(each)!r}" for name, each in (PATIENT_LIMITS | limits).items()
    )
    path = folder / f"serve-{port}.toml"
    path.write_text(
        f'[release]\nstore = "{store}"\n{release}\n[listen]\nport = {port}\n'
        f'workers = {workers}\n[limits]\n{listed}\n[spool]\nfolder = "{folder}"\n'
    )
    return path


@contextmanager
def served(path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A service that answers, until the end of the context."""
    process = subprocess.Popen([sys.executable, "-m", "tether", "serve", str(path)])
    try:
        wait_until_ready(process, port)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a service answers."""
    for _ in tries(120):
        assert process.poll() is None
        try:
            if httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.02)


def worker_pids(parent: int) -> list[int]:
    """The workers of a service: its children, without that which tracks their resources."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in _command(pid)]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def resident_kib(pid: int) -> int:
    """The memory of a process that is in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
