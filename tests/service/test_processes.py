"""`tether serve` as processes: a database that fails, the log, and a short soak."""

import logging
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from benchmarks import soak

from tests.runs import postgres_server
from tests.runs.frozen_processes import frozen, server_pids
from tests.service.running import LONG, tries, until
from tether.runs import Release, Run
from tether.service.application import OneLine

SETTINGS = """
[release]
store = "{store}"
[listen]
port = {port}
[limits]
answer_within = {within}
"""


@contextmanager
def served(folder, store, within=LONG):
    """A service that answers, until the end of the context; its address."""
    port = soak.free_port()
    path = folder / f"serve-{port}.toml"
    path.write_text(SETTINGS.format(store=store, port=port, within=within))
    process = subprocess.Popen([sys.executable, "-m", "tether", "serve", str(path)])
    address = f"http://127.0.0.1:{port}"
    try:
        soak.wait_until_ready(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(LONG)


def create(store, **options):
    """A release with a share of a half."""
    with Release(store, {"complaint": 0.5}, old={"complaint": 0.01}, **options):
        pass


def decide(address, key):
    found = httpx2.post(f"{address}/v1/decisions", json={"key": key}, timeout=LONG)
    assert found.status_code == 200, found.text
    return found.json()


def test_two_services_on_a_postgresql_that_fails(server, postgres_url, tmp_path):
    """No answer waits for the store: it is frozen, or down, until all of them are there."""
    create(postgres_url)
    with Release(postgres_url) as release:
        new = next(key for key in map(str, range(100)) if release.assign(key) == "new")

    def stored(address):
        for _ in tries(120):
            if (found := decide(address, new))["stored"]:
                return found["system"]

    with (
        served(tmp_path, postgres_url, within=0.3) as one,
        served(tmp_path, postgres_url, within=0.3) as other,
    ):
        assert [stored(each) for each in (one, other)] == ["new", "new"]
        with frozen(server_pids(server)):
            for each in (one, other):
                found = [decide(each, f"frozen {number}") for number in range(5)]
                assert {(a["system"], a["stored"]) for a in found} == {("old", False)}
        assert [stored(each) for each in (one, other)] == ["new", "new"]
        server.stop("immediate")
        try:
            for each in (one, other):
                assert not any(decide(each, f"killed {n}")["stored"] for n in range(5))
        finally:
            server.start()
        assert [stored(each) for each in (one, other)] == ["new", "new"]
        until(lambda: httpx2.post(f"{one}/v1/halt", json={"reason": "x"}, timeout=LONG).is_success)
        assert stored(other) == "old"  # the very next decision
    with Run.open(postgres_url) as run:
        assert run.verify() == []


def test_wrong_settings_and_a_port_that_is_taken_end_it(tmp_path):
    create(tmp_path / "release.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for name, words in (("nothing.db", "release.guardrails"), ("release.db", "in use")):
            text = SETTINGS.format(store=name, port=port, within=1)
            (tmp_path / "serve.toml").write_text(text)
            command = [sys.executable, "-m", "tether", "serve", str(tmp_path / "serve.toml")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
            assert done.returncode != 0
            assert words in done.stderr
    assert not Path(tmp_path, "nothing.db").exists()


def test_the_log_says_where_an_error_arose_and_not_what_it_quotes():
    try:
        raise ValueError("tether_s3cret") from KeyError("s3cret")
    except ValueError:
        told = ("postgresql://ann:s3cret@db %s", ("x\ns3cret",), sys.exc_info())
    line = OneLine().format(logging.LogRecord("asyncio", 40, __file__, 1, *told))
    assert line.startswith("postgresql://***@db x\n")
    assert "KeyError" in line
    assert __file__ in line
    assert "s3cret" not in line.replace('"tether_s3cret"', "").replace('"s3cret"', "")


@pytest.mark.slow
@pytest.mark.nightly
def test_nothing_that_was_answered_is_lost(capsys):
    store = "sqlite" if postgres_server.missing() else "postgresql"
    assert soak.main(minutes=0.15, store=store, services=2, rate=60.0), capsys.readouterr().out
