"""Who may do what: roles, live key files, wrong keys, strange hosts and bodies."""

import base64
import json
import time

import pytest

from tests.service.running import bearer, running, settings, until
from tether.service import access
from tether.service.access import add_key, remove_key

NEEDS = {
    "decide": ("POST", "/v1/decisions", {"key": "a"}),
    "report": ("POST", "/v1/outcomes", {"outcomes": []}),
    "operate": ("POST", "/v1/resume", {"reason": "x"}),
    "read": ("GET", "/v1/status", None),
}


def test_each_role_is_needed_and_keys_are_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "WRONG_KEYS_PER_MINUTE", 10_000)
    file = tmp_path / "keys.json"
    secrets = {role: add_key(file, role, [role]) for role in NEEDS}
    assert not any(secret.encode() in file.read_bytes() for secret in secrets.values())
    with running(settings(tmp_path, access={"keys": "keys.json"})) as client:
        for needed, (method, path, body) in NEEDS.items():
            for role, secret in secrets.items():
                found = client.request(method, path, json=body, headers=bearer(secret))
                assert (found.status_code != 403) == (role == needed), (needed, role)
                if role != needed:
                    told = f"the API key '{role}' lacks the role '{needed}'"
                    assert found.json()["error"]["message"] == told
            found = client.request(method, path, json=body)
            assert found.status_code == 401
            assert found.headers["www-authenticate"] == "Bearer"
        read = secrets["read"]
        password = base64.b64encode(f"flagger:{read}".encode()).decode()
        basic = {"Authorization": f"Basic {password}"}
        assert client.get("/v1/status", headers=basic).status_code == 200
        for path in ("/healthz", "/readyz", "/openapi.json", "/"):
            assert client.get(path).status_code == 200
        for path in ("/metrics", "/v1/document"):
            assert client.get(path).status_code == 401
        late = add_key(file, "late", ["read"])
        until(lambda: client.get("/v1/status", headers=bearer(late)).status_code == 200)
        remove_key(file, "late")
        until(lambda: client.get("/v1/status", headers=bearer(late)).status_code == 401)
        file.write_text("{")  # what cannot be read revokes nothing
        time.sleep(1.1)
        assert client.get("/v1/status", headers=bearer(read)).status_code == 200


def test_wrong_keys_are_limited_and_right_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "WRONG_KEYS_PER_MINUTE", 5)
    right = add_key(tmp_path / "keys.json", "ann", ["read"])
    with running(settings(tmp_path, access={"keys": "keys.json"})) as client:
        found = [
            client.get("/v1/status", headers=bearer(f"tether_{number}")).status_code
            for number in range(20)
        ]
        assert 5 <= found.count(401) <= 10  # more if a minute ends meanwhile
        assert set(found) == {401, 429}
        assert client.get("/v1/status", headers=bearer(right)).status_code == 200


def test_key_files_and_names_are_checked(tmp_path):
    file = tmp_path / "keys.json"
    add_key(file, "ann", ["read"])
    for name, roles in (("ann", ["read"]), ("-", ["read"]), ("bob", []), ("bob", ["admin"])):
        with pytest.raises(ValueError, match="name"):
            add_key(file, name, roles)
    with pytest.raises(ValueError, match="must be one of 'ann'"):
        remove_key(file, "bob")
    with pytest.raises(ValueError, match="would have no keys"):
        remove_key(file, "ann")
    for broken in ({}, {"keys": []}, {"keys": [{"name": "x"}]}):
        file.write_text(json.dumps(broken))
        with pytest.raises(ValueError, match="is not a file of API keys"):
            add_key(file, "bob", ["read"])


def test_every_answer_has_headers_and_only_this_machine_may_ask_without_keys(tmp_path):
    with running(settings(tmp_path)) as client:
        for path in ("/v1/status", "/nothing", "/healthz"):
            found = client.get(path)
            assert found.headers["x-content-type-options"] == "nosniff"
            assert found.headers["cache-control"] == "no-store"
        assert client.put("/v1/status").status_code == 405
        for host in ("evil.example.org", "evil.example.org:99999", "[", "[evil]:80"):
            assert client.get("/v1/status", headers={"Host": host}).status_code == 403
        assert client.get("/v1/status", headers={"Host": "[::1]:80"}).status_code == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        *((b"{", 400), (b"[]", 400), (b"\xff", 400), ("{}".encode("utf-16"), 400)),
        *((b"[" * 100_000, 400), (b'{"key": NaN}', 400)),
        *((b'{"key": "' + b"x" * size, 413) for size in (1_000_000, 20_000_000)),
    ],
    ids=lambda each: str(each)[:12],
)
def test_strange_and_long_bodies_are_refused(client, content, status):
    chunks = (content[k : k + 65_536] for k in range(0, len(content), 65_536))
    for body in (content, chunks):
        headers = {"Content-Type": "application/json"}
        found = client.post("/v1/decisions", content=body, headers=headers)
        assert found.status_code == status
