"""`tether serve` as processes: workers that are killed, a database that fails, and a short soak."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from benchmarks import soak

from tests.runs import postgres_server
from tests.runs.frozen_processes import frozen, server_pids
from tests.service.running import LONG, Receiver, tries, until
from tether.runs import Release, Run

SETTINGS = """
[release]
store = "{store}"
[listen]
port = {port}
workers = {workers}
[limits]
answer_within = {within}
"""


@contextmanager
def served(folder, store, workers=1, within=LONG, more=""):
    """A service that answers, until the end of the context; its process and its address."""
    port = soak.free_port()
    path = folder / f"serve-{port}.toml"
    path.write_text(SETTINGS.format(store=store, port=port, workers=workers, within=within) + more)
    process = subprocess.Popen([sys.executable, "-m", "tether", "serve", str(path)])
    address = f"http://127.0.0.1:{port}"
    try:
        soak.wait_until_ready(process, address)
        yield process, address
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


def test_a_worker_that_is_killed_is_started_again_and_one_sends_webhooks(tmp_path):
    create(tmp_path / "release.db")
    with Receiver() as receiver:
        hooks = f'[[webhooks]]\nurl = "{receiver.url}"\nevents = ["halt"]\n'
        with served(tmp_path, "release.db", workers=2, more=hooks) as (process, address):
            answers = [decide(address, f"user {number}") for number in range(20)]
            before = soak.worker_pids(process.pid)
            assert len(before) == 2
            os.kill(before[0], signal.SIGSTOP)
            time.sleep(1.5)  # by now an answer of it is waited for
            os.kill(before[0], signal.SIGKILL)
            until(lambda: len(set(soak.worker_pids(process.pid)) - set(before)) == 1)
            for _ in tries():
                try:
                    answers += [decide(address, f"late {number}") for number in range(20)]
                    break
                except httpx2.TransportError:  # it was sent to the one that is gone
                    continue
            assert all(each["stored"] for each in answers)
            httpx2.post(f"{address}/v1/halt", json={"reason": "x"}, timeout=LONG)
            line = 'tether_alarm_standing{release="release"} 1.0'
            until(lambda: line in httpx2.get(f"{address}/metrics", timeout=LONG).text)
            until(lambda: receiver.requests)
    assert process.returncode in (0, -signal.SIGTERM)
    assert {each["id"] for each in receiver.requests} == {"release/halt/1"}
    with Run.open(tmp_path / "release.db") as run:
        assert run.verify() == []


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
        served(tmp_path, postgres_url, within=0.3) as (_, one),
        served(tmp_path, postgres_url, within=0.3) as (_, other),
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


def test_the_port_and_the_settings_are_checked_before_anything_starts(tmp_path):
    (tmp_path / "serve.toml").write_text('[release]\nstore = "nothing.db"\n[listen]\nport = 0\n')
    command = [sys.executable, "-m", "tether", "serve", str(tmp_path / "serve.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert done.returncode != 0
    assert "release.guardrails" in done.stderr
    assert not Path(tmp_path, "nothing.db").exists()


@pytest.mark.slow
@pytest.mark.nightly
def test_nothing_that_was_answered_is_lost(capsys):
    store = "sqlite" if postgres_server.missing() else "postgresql"
    assert soak.main(minutes=0.15, store=store, workers=2, rate=60.0), capsys.readouterr().out
