"""Bodies that trickle."""

import socket

from tests.service.running import running, settings
from tether.service.settings.service_settings import ServiceLimits

HEAD = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_that_is_not_complete_in_time_is_refused_and_the_connection_closed(tmp_path):
    limits = ServiceLimits(body_seconds=0.2, answer_within=30, store_deadline=30)
    with running(settings(tmp_path / "release.db", limits=limits)) as client:
        address = client.base_url.host, client.base_url.port
        with socket.create_connection(address, 60) as slow:
            slow.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"key": ')
            found = b""
            while part := slow.recv(65_536):
                found += part
        assert found.startswith(b"HTTP/1.1 408")
        assert b"the body was not complete after 0.2 s" in found
        assert client.post("/v1/decisions", json={"key": "ann"}).status_code == 200
