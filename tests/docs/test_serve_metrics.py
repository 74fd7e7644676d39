"""The page of the service has every metric, and no other."""

import re
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from tether.service.gateway.gateway_metrics import GatewayMetrics
from tether.service.operating.service_metrics import FIGURES, ServiceMetrics

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "serve_watch.md"


def test_the_tables_of_metrics_have_every_metric_with_its_labels():
    metrics = ServiceMetrics()
    GatewayMetrics(metrics.registry)
    served = {
        each.name + ("_total" if each.type == "counter" else "")
        for each in metrics.registry.collect()
    }
    served |= {f"tether_{name}" for name in FIGURES}
    section = PAGE.read_text("utf-8").split("## Metrics\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`tether_[^|]*) \|", section, re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == served
