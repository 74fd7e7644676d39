"""Prometheus itself: it reads the metrics with an API key, and takes the example's alerts."""

import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.service.running import running, settings, tries
from tether.service import ApiKeys, add_key

EXAMPLES = Path(__file__).parents[3] / "examples"
RULES = EXAMPLES / "prometheus-rules.yml"


def program(name):
    """The path of a program, without which a test is skipped."""
    found = shutil.which(name)
    return found or pytest.skip(f"{name} is not installed (apt-get install prometheus)")


def check(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_metrics_are_as_prometheus_wants_them(client):
    for path in ("/v1/gate", "/nothing"):
        client.get(path)
    check(program("promtool"), "check", "metrics", input=client.get("/metrics").text)


def test_the_alerts_of_the_example_are_raised_when_they_should(tmp_path):
    promtool = program("promtool")
    check(promtool, "check", "rules", str(RULES))
    tests = Path(__file__).with_name("prometheus_rules.yml").read_text()
    (tmp_path / "tests.yml").write_text(tests.replace("RULES", str(RULES)))
    check(promtool, "test", "rules", str(tmp_path / "tests.yml"))
    asked = {each["alertname"] for each in yaml.safe_load(tests)["tests"][0]["alert_rule_test"]}
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    assert asked == {each["alert"] for each in rules}


def test_the_alerts_use_metrics_that_there_are(client):
    """A misspelled name would never raise anything."""
    client.post("/v1/decisions", json={"key": "ann"})
    there = set(re.findall(r"^\w+", client.get("/metrics").text, re.M))
    there |= {"tether_webhook_attempts_total"}  # counted when there are webhooks
    used = set(re.findall(r"tether_\w+", RULES.read_text()))
    assert len(used) >= 5
    assert used <= there


@contextmanager
def prometheus(folder, config):
    """The URL of a Prometheus that runs as long as the context."""
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    check(program("promtool"), "check", "config", str(folder / "prometheus.yml"))
    log = folder / "log"
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with log.open("w") as stream, subprocess.Popen(command, stderr=stream) as process:
        try:
            for _ in tries():
                assert process.poll() is None, log.read_text()
                if ready := re.search(r'Listening on" address=(127\.0\.0\.1:\d+)', log.read_text()):
                    break
                time.sleep(0.02)
            yield f"http://{ready[1]}"
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.slow  # Prometheus takes five seconds to find its targets
def test_prometheus_reads_the_metrics_with_an_api_key(tmp_path):
    program("prometheus")
    file = tmp_path / "keys.json"
    (tmp_path / "prometheus.key").write_text(add_key(file, "prometheus", ["read"]))
    (tmp_path / "wrong.key").write_text("tether_wrong")
    shutil.copy(RULES, tmp_path)
    given = settings(tmp_path / "release.db", keys=ApiKeys.read(file))
    config = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    with running(given) as client:
        job |= {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        job["static_configs"][0]["targets"] = [client.base_url.netloc.decode()]
        wrong = {**job, "job_name": "wrong", "authorization": {"credentials_file": "wrong.key"}}
        config["scrape_configs"].append(wrong)
        with prometheus(tmp_path, config) as url, httpx2.Client(base_url=url, timeout=60) as asked:

            def value(query):
                """Waits for one value of an expression."""
                for _ in tries():
                    found = asked.get("/api/v1/query", params={"query": query})
                    if found.status_code == 200 and (result := found.json()["data"]["result"]):
                        return float(result[0]["value"][1])
                    time.sleep(0.05)

            assert 0 < value("tether_share") < 0.02
            assert value('tether_promise{guardrail="complaint"}') > 0.02
            assert value("tether_store_available") == 1
            assert value('up{job="tether"}') == 1
            assert value('up{job="wrong"}') == 0  # 401
            rules = asked.get("/api/v1/rules").json()["data"]["groups"][0]["rules"]
            assert "TetherAlarmStands" in {each["name"] for each in rules}
