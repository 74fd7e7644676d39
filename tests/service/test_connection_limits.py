"""Connections that send nothing, or too little, or do not read."""

import socket
from contextlib import ExitStack, suppress

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


def test_a_connection_on_which_nothing_is_sent_is_closed(tmp_path):
    limits = ServiceLimits(idle_seconds=0.05, answer_within=30, store_deadline=30)
    with running(settings(tmp_path / "release.db", limits=limits)) as client, ExitStack() as stack:
        assert is_ended(connect(client, stack))


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


def test_the_connection_that_is_idle_for_longest_makes_room(tmp_path):
    limits = ServiceLimits(connections=5, idle_seconds=600, answer_within=30, store_deadline=30)
    with running(settings(tmp_path / "release.db", limits=limits)) as client, ExitStack() as stack:
        client.headers["Connection"] = "close"
        first = [connect(client, stack) for _ in range(5)]
        for each in first[1:]:
            each.sendall(REQUEST[:20])
        last = connect(client, stack)
        last.sendall(REQUEST)
        assert last.recv(65_536).startswith(b"HTTP/1.1 200")
        assert is_ended(first[0])
        assert all(client.get("/healthz").status_code == 200 for _ in range(3))
        for _ in range(200):  # as many as may come: those that work are answered
            connect(client, stack)
        assert client.get("/healthz").status_code == 200
        assert len(client.server.server_state.connections) <= 6


def test_busy_connections_are_not_closed(tmp_path):
    """Not after idle_seconds, nor to make room: then the new one is closed."""
    limits = ServiceLimits(
        connections=1, idle_seconds=600, body_seconds=60, answer_within=30, store_deadline=30
    )
    with running(settings(tmp_path / "release.db", limits=limits)) as client, ExitStack() as stack:
        busy = connect(client, stack)
        head = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n"
        busy.sendall(head + b"Content-Type: application/json\r\n\r\n")
        (protocol,) = protocols(client, 1, are_idle=False)
        pass_time(protocol)
        for _ in range(3):
            assert is_ended(connect(client, stack))
        busy.sendall(b'{"key": "a"}')
        assert busy.recv(65_536).startswith(b"HTTP/1.1 200")


def stop_reading(client, stack):
    """Asks for more than the buffers of a connection take; the server's side of it."""
    asking = connect(client, stack)
    asking.setblocking(False)
    request = REQUEST.replace(b"/healthz", b"/openapi.json")
    for _ in tries():
        with suppress(BlockingIOError):
            asking.send(request * 10)
        found = [each for each in client.server.server_state.connections.copy() if each.is_unread]
        if found:
            return asking, found[0]


def test_a_client_that_does_not_read_is_dropped(tmp_path):
    """The answer that waits for it is never complete: the connection is not idle, but busy."""
    limits = ServiceLimits(idle_seconds=600, answer_within=30, store_deadline=30)
    with running(settings(tmp_path / "release.db", limits=limits)) as client, ExitStack() as stack:
        asking, protocol = stop_reading(client, stack)
        protocol.unread_since -= 1000.0
        protocol.loop.call_soon_threadsafe(protocol._close_if_idle)
        asking.settimeout(60)
        assert is_ended(asking)


def test_a_client_that_does_not_read_makes_room(tmp_path):
    limits = ServiceLimits(connections=1, idle_seconds=600, answer_within=30, store_deadline=30)
    with running(settings(tmp_path / "release.db", limits=limits)) as client, ExitStack() as stack:
        asking, _ = stop_reading(client, stack)
        assert client.get("/healthz").status_code == 200
        asking.settimeout(60)
        assert is_ended(asking)
