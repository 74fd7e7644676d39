"""Who may do what, and what every answer has."""

import asyncio
import socket
from base64 import b64encode

import pytest
from starlette.responses import PlainTextResponse

from tests.service.running import bearer, running, settings
from tether.service import ApiKeys, add_key
from tether.service.access.access_control import AccessControl
from tether.service.access.api_keys import ROLES
from tether.service.dashboard.dashboard import PAGE_FILES
from tether.service.endpoint import Endpoint, Endpoints
from tether.service.operating.service_metrics import ServiceMetrics
from tether.service.settings.service_settings import ServiceLimits

REQUESTS = {
    ("POST", "/ofrep/v1/evaluate/flags/release"): {"context": {"targetingKey": "ann"}},
    ("POST", "/ofrep/v1/evaluate/flags"): {"context": {"targetingKey": "ann"}},
    ("POST", "/v1/decisions"): {"key": "ann"},
    ("POST", "/v1/outcomes"): {"key": "ann", "system": "old", "losses": {"complaint": 0}},
    ("POST", "/v1/advance"): {"step": 99, "reason": "why"},
    ("POST", "/v1/halt"): {"reason": "why"},
    ("POST", "/v1/resume"): {"reason": "why"},
    ("GET", "/v1/status"): None,
    ("GET", "/v1/gate"): None,
    ("POST", "/v1/gate"): {"name": "podinfo", "namespace": "test", "phase": "Progressing"},
    ("GET", "/metrics"): None,
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/openapi.json"): None,
    ("GET", "/v1/dashboard"): None,
    ("GET", "/v1/events"): None,
    **{("GET", path): None for path in PAGE_FILES},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A client of a service with a key for each role, and the keys."""
    folder = tmp_path_factory.mktemp("guarded")
    secrets = {role: add_key(folder / "keys.json", f"key to {role}", [role]) for role in ROLES}
    keys = ApiKeys.read(folder / "keys.json")
    origins = ("https://shop.example.org",)
    with running(settings(folder / "release.db", keys=keys, origins=origins)) as client:
        yield client, secrets


def role_of(client, path):
    """The role that a path needs."""
    return client.endpoints.role_of(client.endpoints.route_of(path))


def ask(client, method, path, **options):
    """The answer to a request; only its beginning if it has no end."""
    with client.stream(method, path, **options) as found:
        if path != "/v1/events" or found.status_code != 200:
            found.read()
        return found


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_each_path_needs_its_role(guarded, method, path):
    client, secrets = guarded
    body, needed = REQUESTS[method, path], role_of(client, path)
    for role, secret in secrets.items():
        found = ask(client, method, path, json=body, headers=bearer(secret))
        also = [
            ask(client, method, path, json=body, headers={"X-API-Key": secret}),
            ask(client, method, path, json=body, auth=("any", secret)),
        ]
        if needed in (None, role):
            assert {each.status_code for each in (found, *also)} <= {200, 409, 412}
        else:
            assert [each.status_code for each in (found, *also)] == [403] * 3
            assert f"has not the role {needed!r}" in found.json()["error"]["message"]
    wrong = secrets["operate"][:-1] + ("a" if secrets["operate"][-1] != "a" else "b")
    for headers in (
        {},
        {"Authorization": "Bearer"},
        bearer(wrong),
        {"Authorization": f"Basic {wrong}"},
        {"Authorization": "Basic " + b64encode(f"ann:{wrong}".encode()).decode()},
        {"Authorization": "Basic " + b64encode(b"ann\xff").decode()},
    ):
        found = ask(client, method, path, json=body, headers=headers)
        assert found.status_code == (200 if needed is None else 401)
        if needed is not None:
            assert found.headers["www-authenticate"] == "Bearer"
        assert wrong not in found.text


def test_every_endpoint_is_asked_here(guarded):
    endpoints = guarded[0].endpoints
    asked = {(method, endpoints.route_of(path)) for method, path in REQUESTS}
    assert asked == {(each.method, each.path) for each in endpoints.all}


@pytest.mark.parametrize(
    ("address", "status"), [("127.0.0.1", 200), ("::1", 200), ("192.0.2.7", 403), ("2001::7", 403)]
)
def test_without_keys_other_machines_are_refused(address, status):
    """Also those that call themselves localhost, where another web server listens everywhere."""
    app = PlainTextResponse("passed")
    halt = Endpoint("POST", "/v1/halt", "operate", app, "Halt.")
    control = AccessControl(app, settings("unused.db"), ServiceMetrics(), Endpoints([halt]))
    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/v1/halt", "headers": headers}
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(control({**scope, "client": (address, 50_000)}, None, send))
    assert sent[0]["status"] == status


def test_each_key_has_its_own_rate(tmp_path):
    file = tmp_path / "keys.json"
    one, other = (add_key(file, name, ["read"]) for name in ("one", "other"))
    limits = ServiceLimits(requests_per_second=0.01, burst=3, answer_within=30, store_deadline=30)
    given = settings(tmp_path / "release.db", keys=ApiKeys.read(file), limits=limits)
    with running(given) as client:

        def statuses(secret):
            found = [client.get("/v1/status", headers=bearer(secret)) for _ in range(4)]
            assert found[-1].headers["retry-after"] == "1"
            return [each.status_code for each in found]

        assert statuses(one) == [200, 200, 200, 429]
        assert statuses(other) == [200, 200, 200, 429]
        assert statuses("wrong") == [401, 401, 401, 429]


def test_a_request_with_two_lengths_is_refused_and_what_follows_it_is_not_read(client):
    """A proxy that goes by the other one would take the rest for somebody's request."""
    head = "POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    lengths = "Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked = 'c\r\n{"key": "a"}\r\n0\r\n\r\n'
    follows = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address, 60) as connection:
        connection.sendall((head + lengths + chunked + follows).encode())
        found = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert found.startswith(b"HTTP/1.1 400")
    assert found.count(b"HTTP/1.1") == 1
