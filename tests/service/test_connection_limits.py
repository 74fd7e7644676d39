"""Connections that send nothing, or too little, or do not read."""

import socket
from contextlib import ExitStack

from tests.service.running import running, settings, tries
from tether.service.settings.service_settings import ServiceLimits

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(client, stack):
    return stack.enter_context(
        socket.create_connection((client.base_url.host, client.base_url.port), 60)
    )


def is_ended(connection):
    """Waits for the end of a connection."""
    try:
        while connection.recv(65_536):
            pass
        return True
    except ConnectionResetError:
        return True


def protocols(client, count, are_idle):
    """The server's side of so many connections that are idle, or of which a request is busy."""
    for _ in tries():
        kept = client.server.server_state.connections.copy()
        found = [each for each in kept if each.is_idle == are_idle]
        if len(found) == count:
            return found


def pass_time(protocol):
    """As if idle_seconds had passed."""
    protocol.idle_since -= 1000.0
    protocol.loop.call_soon_threadsafe(protocol._close_if_idle)


def test_connections_without_a_whole_request_are_closed(tmp_path):
    limits = ServiceLimits(idle_seconds=600, answer_within=30, store_deadline=30)
    with running(settings(tmp_path / "release.db", limits=limits)) as client, ExitStack() as stack:
        partial, done = (connect(client, stack) for _ in range(2))
        partial.sendall(REQUEST[:20])
        done.sendall(REQUEST)
        assert done.recv(65_536).startswith(b"HTTP/1.1 200")
        done.sendall(REQUEST[:20])  # a second request that does not arrive
        for each in protocols(client, 2, are_idle=True):
            pass_time(each)
        assert is_ended(partial)
        assert is_ended(done)
