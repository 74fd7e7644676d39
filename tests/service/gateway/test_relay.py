"""What is answered, and what is reported, when upstreams fail: the promise is about users."""

import logging
from time import monotonic

import pytest
from starlette.responses import Response

from tests.service.gateway.gateways import chat, gateway, metric
from tests.service.gateway.upstreams import token
from tests.service.running import tries
from tether.rounds import read_release, verify_store

REPORTED = {"failure_guardrail": "failure", "latency_guardrail": "slow", "slow_after": 1_000.0}
HASTY = {"new_options": {"first_byte_within": 0.2}}


@pytest.fixture(autouse=True)
def usual(old, new):
    for each in (old, new):
        each.respond = each.answer
        for gate in each.gates:
            gate.clear()


def served(response):
    """The status, the system that was decided and the upstream that answered."""
    headers = response.headers
    return response.status_code, headers["x-tether-system"], headers["x-tether-served"]


def losses(store, guardrail="failure"):
    """Of each system, how many rows have a loss that was reported, and the sum of these."""
    step, found = read_release(store).steps[0], {}
    for system, record in (("old", step.old), ("new", step.new)):
        estimate = record.losses.get(guardrail)
        found[system] = (0, 0)
        if estimate is not None:
            found[system] = estimate.count, round(estimate.count * estimate.mean)
    return found


def garbage(request, body):
    return Response("<html>", media_type="application/json")


def refuse(status):
    return lambda made: made.status(status)


FAILURES = {
    "server_error": refuse(500),
    "rate_limited": refuse(429),
    "garbled": lambda made: garbage,
    "slow": lambda made: made.gated,
    "unauthorized": refuse(401),
    "refused": refuse(404),
}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("reason", FAILURES)
def test_the_old_upstream_answers_where_the_new_one_fails(tmp_path, old, new, reason, is_stream):
    store = tmp_path / "release.db"
    new.respond = FAILURES[reason](new)
    is_hasty = reason == "slow"
    with gateway(store, old.url, new.url, REPORTED | (HASTY if is_hasty else {})) as http:
        found = chat(http, "new", stream=is_stream)
        assert served(found) == (200, "new", "old")
        if is_stream:
            assert found.content.startswith(token("old 0"))
        else:
            assert found.json()["choices"][0]["message"]["content"] == "old"
        label = f'tether_upstream_failures_total{{reason="{reason}",upstream="new"}}'
        assert metric(http, label) == 1
        assert served(chat(http, "old")) == (200, "old", "old")
        new.respond = new.answer
        if not is_hasty:
            assert served(chat(http, "new", 1)) == (200, "new", "new")
    assert losses(store) == {"old": (1, 0), "new": (1 if is_hasty else 2, 1)}
    assert verify_store(store).ok


def test_a_dead_upstream_is_asked_only_now_and_then(tmp_path, old, new, caplog):
    store = tmp_path / "release.db"
    options = REPORTED | {"failures_until_pause": 2, "pause": 0.2}
    new.respond = new.status(503)
    caplog.set_level(logging.INFO, "tether.service")
    with gateway(store, old.url, new.url, options) as http:
        before, number = len(new.bodies), 0
        begun = monotonic()
        for number in range(30):
            assert served(chat(http, "new", number)) == (200, "new", "old")
        asked, spent = len(new.bodies) - before, monotonic() - begun
        assert 2 <= asked <= 3 + spent / 0.2  # two in a row, and one try after each pause
        assert metric(http, "tether_upstream_failures_total") == 30
        new.respond = new.answer
        for _ in tries():
            number += 1
            if served(chat(http, "new", number))[2] == "new":
                break
        assert served(chat(http, "new", number + 1)) == (200, "new", "new")
    found = losses(store)["new"]
    assert found == (number + 2, number)
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("the new upstream fails") == 1
    assert messages.count("the new upstream answers again") == 1
