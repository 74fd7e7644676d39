"""Bodies of requests, and requests of any content: an error, never a traceback."""

import socket
from functools import partial

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.service.running import running, settings

quick = partial(
    examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    with running(settings(tmp_path_factory.mktemp("fuzz") / "release.db")) as client:
        yield client
        assert client.get("/healthz").status_code == 200


@quick(max_examples=40)
@given(line=st.binary(max_size=60), rest=st.binary(max_size=200))
def test_any_request_line_and_headers_do_no_harm(fuzzed, caplog, line, rest):
    address = fuzzed.base_url.host, fuzzed.base_url.port
    for begin in (line, b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\n" + line):
        with socket.create_connection(address, 20) as connection:
            connection.sendall(begin + b"\r\n" + rest + b"\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(20)
            while connection.recv(65_536):
                pass
    assert not [each for each in caplog.records if each.exc_info]
