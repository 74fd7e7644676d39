"""A gateway that really runs between two upstreams that do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai

from tests.service.gateway.upstreams import LONG
from tests.service.running import running, settings
from tether.release import ArmCounts, is_new, positions
from tether.service import GatewaySettings, UpstreamSettings

GUARDRAILS = {"complaint": 0.5, "failure": 0.5, "slow": 0.5}
OLD_LOSSES = {name: ArmCounts(10_000, 0.0) for name in GUARDRAILS}
SHARE = 0.4
"""A bit less than the share of the first step: these keys are of the new system."""
PATIENCE = {
    name: LONG for name in ("connect_within", "first_byte_within", "chunk_within", "finish_within")
}


def key_of(system: str, number: int = 0) -> str:
    """One of the keys that have a system from the first step on."""
    keys = [f"user {each}" for each in range(1_000)]
    new = is_new(positions(keys, b"test"), SHARE)
    old = ~is_new(positions(keys, b"test"), 0.6)
    return [key for key, its in zip(keys, new if system == "new" else old, strict=True) if its][
        number
    ]


def gateway_settings(
    store: Any, old: str, new: str, options: dict[str, Any] | None = None, **others: Any
) -> Any:
    """The settings of a service with a gateway; `options` of the gateway and its upstreams."""
    options = dict(options or {})
    upstreams = {
        name: UpstreamSettings(url, **PATIENCE | options.pop(f"{name}_options", {}))
        for name, url in (("old", old), ("new", new))
    }
    release = {"guardrails": GUARDRAILS, "old": OLD_LOSSES, "max_silence": None}
    release |= others.pop("release", {})
    return settings(
        store, release=release, gateway=GatewaySettings(**upstreams, **options), **others
    )


@contextmanager
def gateway(*arguments: Any, **options: Any) -> Iterator[httpx2.Client]:
    """A client of such a service, which runs as long as the context."""
    with running(gateway_settings(*arguments, **options)) as client:
        client.timeout = LONG
        yield client


def openai_client(http: httpx2.Client, **options: Any) -> openai.OpenAI:
    """OpenAI's own client of a gateway."""
    given = {"api_key": "none", "max_retries": 0, "timeout": LONG} | options
    return openai.OpenAI(base_url=str(http.base_url).rstrip("/") + "/v1", **given)


def chat(http: httpx2.Client, system: str, number: int = 0, **body: Any) -> httpx2.Response:
    """A chat of a key that has a system."""
    messages = [{"role": "user", "content": "hello"}]
    return http.post(
        "/v1/chat/completions",
        json={"model": "m", "messages": messages} | body,
        headers={"X-Tether-Key": key_of(system, number)},
    )


def metric(http: httpx2.Client, name: str) -> float:
    """The value of a metric; 0 where it has none."""
    lines = http.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
