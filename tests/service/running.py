"""A service that really runs: uvicorn on loopback, in a thread of the tests' own process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import httpx2

from tether.release import ArmCounts
from tether.service.settings.service_settings import ServiceLimits, ServiceSettings
from tether.service.web_server import ServiceServer, make_config

OLD_LOG = {"complaint": ArmCounts(2000, 20.0)}
"""Losses of the old system: a first share of about 1 %."""
PATIENT = ServiceLimits(answer_within=30.0, store_deadline=30.0)
"""No test depends on how fast the machine is."""


def settings(store: Any, **options: Any) -> ServiceSettings:
    """Settings on any free port; what is not said about the release is as in most tests."""
    release = {"guardrails": {"complaint": 0.02}, "old": OLD_LOG, "salt": b"test"}
    release |= options.pop("release", {})
    options = {"limits": PATIENT} | options
    return ServiceSettings(store=str(store), release=release, port=0, **options)


def tries(seconds: float = 60.0) -> Iterator[None]:
    """As many tries as fit in a time that is long on any machine; then an error."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
    raise AssertionError(f"it did not come about within {seconds:g} s")


@contextmanager
def running(given: ServiceSettings) -> Iterator[httpx2.Client]:
    """A client of a service that runs as long as the context."""
    server = ServiceServer(make_config(given))
    server.config.timeout_graceful_shutdown = 2
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        for _ in tries():
            if server.started:
                break
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            client.server, client.endpoints = server, server.config.app.state.endpoints
            yield client
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def bearer(secret: str) -> dict[str, str]:
    """The header with an API key."""
    return {"Authorization": f"Bearer {secret}"}
