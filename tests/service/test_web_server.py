"""`tether serve` as a process: its logs, and its end."""

import json
import logging
import re
import signal
import socket
import subprocess
import sys

import httpx2
import pytest

from tests.cli.command_line import one_line, run
from tests.service.running import bearer
from tether.rounds import verify_store
from tether.service import add_key, web_server

FILE = """
[release]
store = "release.db"
guardrails = { complaint = 0.02 }
[listen]
port = 0
[access]
keys = "keys.json"
[limits]
answer_within = 30
store_deadline = 30
[logs]
requests = true
"""


def test_a_process_logs_json_without_secrets_and_ends_in_order(tmp_path):
    secret = add_key(tmp_path / "keys.json", "ann", ["decide", "operate"])
    (tmp_path / "serve.toml").write_text(FILE)
    command = [sys.executable, "-m", "tether", "serve", str(tmp_path / "serve.toml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = []
            while not lines or json.loads(lines[-1])["event"] != "serving":
                lines.append(process.stderr.readline())
            _use(json.loads(lines[-1])["address"], secret)
            process.send_signal(signal.SIGTERM)
            logs = "".join(lines) + process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode in (0, -signal.SIGTERM)
    events = [json.loads(line) for line in logs.splitlines()]
    assert all(re.fullmatch(r"\d{4}-.*\+00:00", each["time"]) for each in events)
    serving = next(each for each in events if each["event"] == "serving")
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", serving["address"])
    acted = next(each for each in events if each["event"] == "an operator acted")
    assert (acted["act"], acted["actor"]) == ("halt", "ann")
    asked = [(each["route"], each["status"]) for each in events if each["event"] == "request"]
    assert ("/v1/decisions", 200) in asked
    assert ("/v1/status", 401) in asked
    for hidden in (secret, secret[7:], "tether_wrong", "user 4711"):
        assert hidden not in logs
    assert verify_store(tmp_path / "release.db").ok


def _use(url, secret):
    """The port is bound when the log says so."""
    with httpx2.Client(base_url=url, headers=bearer(secret), timeout=60) as client:
        assert client.get("/readyz").status_code == 200
        found = client.post("/v1/decisions", json={"key": "user 4711"})
        assert found.json()["stored"]
        client.post("/v1/halt", json={"reason": "private words"})
        client.get("/v1/status", headers=bearer("tether_wrong"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_that_is_taken_is_an_error_before_anything_begins(tmp_path, workers):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        given = FILE.replace("port = 0", f"port = {port}\nworkers = {workers}")
        (tmp_path / "serve.toml").write_text(given)
        add_key(tmp_path / "keys.json", "ann", ["decide"])
        done = run("serve", tmp_path / "serve.toml")
    assert done.exit_code == 2
    assert one_line(done) == f"error: port {port} of 127.0.0.1 is in use (listen.port)"
    assert not (tmp_path / "release.db").exists()
    assert logging.getLogger("tether.service").propagate


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_first_part():
    with web_server.listen_at("127.0.0.1", 0) as listening:
        with socket.create_connection(listening.getsockname(), timeout=10):
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_is_not_of_this_machine_is_an_error():
    with pytest.raises(ValueError, match=r"listen\.host must be an address of this machine, got"):
        web_server.listen_at("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("families", "chosen"),
    [
        ([socket.AF_INET6, socket.AF_INET], socket.AF_INET),
        ([socket.AF_INET], socket.AF_INET),
        ([socket.AF_INET6], socket.AF_INET6),
    ],
)
def test_workers_at_localhost_are_reached_by_its_usual_address(monkeypatch, families, chosen):
    found = [(each, socket.SOCK_STREAM, 6, "", ()) for each in families]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **options: found)
    assert web_server._family("localhost") == chosen
