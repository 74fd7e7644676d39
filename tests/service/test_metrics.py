"""Prometheus itself: it takes the metrics, and raises the example's alerts when it should."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import httpx2
import pytest
import yaml
from prometheus_client import Counter, Gauge, Histogram

from tests.service.running import running, settings, tries
from tether.service.access import add_key
from tether.service.status import METRICS

EXAMPLES = Path(__file__).parents[2] / "examples"
RULES = EXAMPLES / "prometheus-rules.yml"


def program(name):
    """The path of a program, without which a test is skipped."""
    found = shutil.which(name)
    return found or pytest.skip(f"{name} is not installed (apt-get install prometheus)")


def check(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_metrics_are_as_prometheus_wants_them(client):
    client.post("/v1/decisions", json={"keys": ["ann", "bob"]})
    for path in ("/v1/gate", "/nothing"):
        client.get(path)
    text = client.get("/metrics").text
    check(program("promtool"), "check", "metrics", input=text)
    decided = r'tether_decisions_total\{release="release",stored="true",system="\w+"\} '
    assert re.search(decided, text)
    assert 'tether_http_requests_total{route="other",status="404"} 1.0' in text
    assert re.search(r'tether_share\{release="release"\} 0\.4', text)


def test_the_alerts_of_the_example_are_raised_when_they_should(tmp_path):
    promtool = program("promtool")
    check(promtool, "check", "rules", str(RULES))
    tests = Path(__file__).with_name("prometheus_rules.yml").read_text()
    (tmp_path / "tests.yml").write_text(tests.replace("RULES", str(RULES)))
    check(promtool, "test", "rules", str(tmp_path / "tests.yml"))
    asked = {each["alertname"] for each in yaml.safe_load(tests)["tests"][0]["alert_rule_test"]}
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    assert asked == {each["alert"] for each in rules}
    suffixes = {Counter: "_total", Gauge: "", Histogram: "_bucket"}
    there = {f"tether_{name}{suffixes[kind]}" for name, (kind, *_) in METRICS.items()}
    used = set(re.findall(r"tether_\w+", RULES.read_text()))
    assert used <= there  # a misspelled name would raise nothing


@pytest.mark.slow  # Prometheus takes five seconds to find its targets
def test_prometheus_reads_the_metrics_with_an_api_key(tmp_path):
    server = program("prometheus")
    (tmp_path / "prometheus.key").write_text(add_key(tmp_path / "keys.json", "p", ["read"]))
    shutil.copy(RULES, tmp_path)
    config = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    with running(settings(tmp_path, access={"keys": "keys.json"})) as client:
        job |= {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        job["static_configs"][0]["targets"] = [client.base_url.netloc.decode()]
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        log = tmp_path / "log"
        command = [
            server,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        with log.open("w") as stream, subprocess.Popen(command, stderr=stream) as process:
            try:
                for _ in tries():
                    assert process.poll() is None, log.read_text()
                    ready = re.search(r'Listening on" address=(127\.0\.0\.1:\d+)', log.read_text())
                    if ready:
                        break
                for _ in tries():
                    asked = httpx2.get(
                        f"http://{ready[1]}/api/v1/query", params={"query": "tether_share"}
                    )
                    if asked.status_code == 200 and (found := asked.json()["data"]["result"]):
                        break
                    time.sleep(0.05)
                assert 0.4 < float(found[0]["value"][1]) < 0.6
            finally:
                process.terminate()
                process.wait(60)
