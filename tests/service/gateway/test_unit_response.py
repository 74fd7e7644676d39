"""One request from its decision to its loss: whose loss it is, and what happens at the end."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.service.gateway.gateways import chat, gateway, key_of, metric
from tests.service.gateway.test_relay import losses, served
from tests.service.gateway.upstreams import LONG, token, upstream
from tests.service.running import tries
from tether.rounds import verify_store
from tether.rounds.releases.served_release import ServedRelease
from tether.service.settings.service_settings import ServiceLimits

REPORTED = {"failure_guardrail": "failure", "slow_after": LONG}


@pytest.fixture
def upstreams():
    with upstream("old") as old, upstream("new") as new:
        yield old, new


@contextmanager
def streaming(http, new, system="new"):
    """A stream whose first token has come; the others wait for the gates of the new upstream."""
    new.respond = new.gated
    new.gates[0].set()
    body = {"model": "m", "messages": [], "stream": True}
    headers = {"X-Tether-Key": key_of(system)}
    with http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
        parts = response.iter_raw()
        assert next(parts) == token("new 0")
        yield parts


def test_the_loss_of_a_row_is_that_of_its_first_request_also_if_it_ends_last(tmp_path, upstreams):
    old, new = upstreams
    store = tmp_path / "release.db"
    with gateway(store, old.url, new.url, REPORTED) as http:
        with streaming(http, new) as parts:
            new.respond = new.answer
            for _ in range(3):  # they end before the first one, and well
                assert served(chat(http, "new")) == (200, "new", "new")
            for _ in tries():
                if metric(http, "tether_gateway_reports_waiting") == 0:
                    break
            new.gates[1].set()
            assert next(parts) == token("new 1")
            new.server.force_exit = new.server.should_exit = True  # and then it breaks
            assert b'"error"' in b"".join(parts)
    assert losses(store)["new"] == (1, 1)
    assert verify_store(store).ok


def test_without_the_store_the_old_upstream_answers(tmp_path, upstreams):
    old, new = upstreams
    store = tmp_path / "release.db"
    limits = ServiceLimits(answer_within=0.05, store_deadline=1.0)
    with gateway(store, old.url, new.url, REPORTED, limits=limits) as http:
        with ServedRelease(str(store), deadline=LONG) as other:
            with other._store.writing(exclusive=True):
                found = [chat(http, "new") for _ in range(3)]
                text = chat(http, "new", stream=True).content
        assert text.startswith(token("old 0"))
        for each in found:
            assert served(each) == (200, "old", "old")
            assert each.headers["x-tether-stored"] == "false"
        for _ in tries():
            later = chat(http, "new")
            if later.headers["x-tether-stored"] == "true":
                break
        assert served(later) == (200, "new", "new")
        for _ in tries():
            if chat(http, "new").headers["x-tether-stored"] == "true":
                break
    assert losses(store)["old"] == (0, 0)
    assert verify_store(store).ok


def test_many_clients_at_once(tmp_path, upstreams):
    old, new = upstreams
    store = tmp_path / "release.db"

    def ask(number):
        system = ("old", "new")[number % 2]
        return served(chat(http, system, number // 4, stream=number % 3 == 0)) == (
            200,
            system,
            system,
        )

    with gateway(store, old.url, new.url, REPORTED) as http:
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(ask, range(80)))
    assert losses(store) == {"old": (20, 0), "new": (20, 0)}
    assert verify_store(store).ok
