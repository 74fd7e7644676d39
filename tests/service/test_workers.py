"""Several workers at one port: their metrics together, one that is killed, and the end."""

import os
import re
import signal
import subprocess
import sys
import time

import httpx2

from tests.service.running import tries
from tests.service.service_processes import free_port, served, worker_pids, write_settings
from tether.rounds import read_release, verify_store


def decide(url, key):
    while True:
        try:
            return httpx2.post(f"{url}/v1/decisions", json={"key": key}, timeout=60).json()
        except httpx2.TransportError:  # its worker was killed: it may be repeated
            time.sleep(0.01)


def test_workers_share_a_port_and_metrics_and_are_started_again(tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    path = write_settings(
        tmp_path, port, "release.db", release="guardrails = { complaint = 0.02 }", workers=2
    )
    with served(path, port) as process:
        for _ in tries(120):
            if len(worker_pids(process.pid)) == 2:
                break
        assert all(decide(url, number)["stored"] for number in range(30))
        for _ in range(6):  # whichever worker answers
            metrics = httpx2.get(f"{url}/metrics", timeout=60).text
            counted = re.findall(r"^tether_decisions_total\{.*\} (\S+)", metrics, re.MULTILINE)
            assert sum(map(float, counted)) == 30
            assert "tether_store_available 1.0" in metrics
        (first, second) = worker_pids(process.pid)
        os.kill(first, signal.SIGKILL)
        assert all(decide(url, number)["stored"] for number in range(30, 60))
        for _ in tries(120):
            if len(worker_pids(process.pid)) == 2 and first not in worker_pids(process.pid):
                break
        os.kill(second, signal.SIGKILL)  # the new one answers
        assert all(decide(url, number)["stored"] for number in range(60, 90))
    assert process.returncode == 0
    assert read_release(tmp_path / "release.db").steps[0].old.rows == 90
    assert verify_store(tmp_path / "release.db").ok


def test_errors_in_the_settings_end_the_service_at_once(tmp_path):
    path = write_settings(
        tmp_path, free_port(), "release.db", release="guardrails = { complaint = 2 }", workers=2
    )
    command = [sys.executable, "-m", "tether", "serve", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "complaint" in done.stderr
