"""`tether serve` as a process: its logs, and its end."""

import json
import re
import signal
import subprocess
import sys

import httpx2

from tests.service.running import bearer
from tether.rounds import verify_store
from tether.service import add_key

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
