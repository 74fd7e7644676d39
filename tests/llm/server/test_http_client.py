"""Requests over HTTP: what is sent again, after which wait, and what ends the waiting."""

import asyncio
import multiprocessing
import pickle
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tests.progress_reporter import Counted
from tether._core import progress
from tether.llm import OpenAIPolicy
from tether.llm.server import http_client
from tether.llm.server.background_loop import background_loop, ending
from tether.llm.server.http_client import HTTPClient
from tether.llm.server.server_error import ServerError, parse_retry_after

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 8, -1]])
DEADLINE = 60.0
"""Seconds within which threads that should end have ended, however busy the machine is."""


@pytest.fixture(scope="module")
def models():
    return {"base": tiny_models.llama(scale=0.3)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


def test_as_many_requests_at_a_time_as_the_concurrency_allows(server):
    """The first three requests wait for each other, so that all of them are under way at once."""
    server.faults = [threading.Barrier(3)] * 3
    prompts = np.tile([4, 5], (12, 1))
    remote_policy(server, concurrency=3, max_n=1).sample(prompts, np.random.default_rng(0))
    assert server.most_busy == 3


AGAIN = ["drop", "half", "garbled", "zipped", 408, 425, 429, 500, 502, 503, 504, 520, 529]


@pytest.mark.parametrize("fault", AGAIN)
def test_a_failed_request_is_sent_again_unchanged(server, fault):
    expected = remote_policy(server).sample(PROMPTS, np.random.default_rng(0))
    server.requests.clear()
    server.faults = [fault, fault]
    found = remote_policy(server, concurrency=1).sample(PROMPTS, np.random.default_rng(0))
    assert np.array_equal(found, expected)
    assert len(server.requests) == 6
    assert server.requests[0] == server.requests[1] == server.requests[2]


@pytest.mark.parametrize(
    ("status", "error"),
    [(status, ValueError) for status in (400, 413, 422)]
    + [(status, ServerError) for status in (401, 403, 404, 409, 501, 505)],
)
def test_a_refused_request_is_not_sent_again(server, status, error):
    server.faults = [status]
    with pytest.raises(error, match=f"refused the request with status {status}: overloaded"):
        remote_policy(server).sample([[4]], np.random.default_rng(0))
    assert len(server.requests) == 1


@pytest.fixture
def waits(server, monkeypatch):
    """The seconds that a request waits before each retry; nothing really waits."""
    seconds = []

    async def wait(given):
        seconds.append(given)

    monkeypatch.setattr(http_client, "_wait", wait)

    def waits_after(*faults, first):
        seconds.clear()
        server.faults = list(faults)
        policy = remote_policy(server, retries=len(faults), deadline=1e6)
        policy.client.first_retry_wait = first
        policy.sample([[4]], np.random.default_rng(0))
        return list(seconds)

    return waits_after


def test_waits_double(waits):
    assert waits("drop", (503, None), "drop", first=0.5) == [0.5, 1.0, 2.0]
    # A requested wait replaces one wait, and the next is as long as it would have been.
    assert waits((503, "0"), "drop", first=0.5) == [0.0, 1.0]


def test_a_server_says_how_long_to_wait(waits):
    passed = "Wed, 21 Oct 2015 07:28:00 GMT"
    assert waits(429, (503, "1"), (503, passed), first=1.0) == [0.0, 1.0, 0.0]


def test_no_wait_is_longer_than_the_limit(waits):
    far = "Fri, 31 Dec 9999 23:59:59 GMT"
    limit = http_client.MAX_RETRY_WAIT
    assert waits((503, "9" * 400), (503, far), first=1.0) == [limit, limit]
    assert waits("drop", first=limit + 1) == [limit]


def test_parsing_of_retry_after_headers():
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for header, seconds in {
        "0": 0.0,
        "12": 12.0,
        "Fri, 02 Jan 2026 03:04:15 GMT": 10.0,
        "Fri, 02 Jan 2026 03:04:15 -0000": 10.0,
        "Fri, 02 Jan 2026 02:00:00 GMT": 0.0,
    }.items():
        assert parse_retry_after(header, now) == seconds
    for header in (None, "", "²", "-1", "soon", "1.5", "Fri, 99 Jan 2026 03:04:15 GMT"):
        assert parse_retry_after(header, now) is None


def assert_no_request_is_pending():
    """Nothing that would send requests is left, though the wait before a retry is an hour."""
    deadline = time.monotonic() + DEADLINE
    while pending := asyncio.all_tasks(background_loop()):
        assert time.monotonic() < deadline, pending
        time.sleep(0.01)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, also where a background job was told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_waiting(server, monkeypatch):
    """Ctrl-C while requests wait for a retry: nothing more is sent."""
    monkeypatch.setattr(http_client, "MAX_RETRY_WAIT", 3600.0)
    server.faults = [(503, "3600")] * 9

    def interrupt_when_two_were_sent():
        deadline = time.monotonic() + DEADLINE
        while len(server.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt_when_two_were_sent)
    policy = remote_policy(server, concurrency=2, deadline=1e6, max_n=1)
    prompts = np.tile([4, 5], (6, 1))
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        policy.sample(prompts, np.random.default_rng(0))
    interrupting.join()
    assert_no_request_is_pending()
    assert len(server.requests) == 2


def test_one_request_that_is_refused_ends_the_others(server, monkeypatch):
    def refuse_the_first(body):
        return 400 if body["prompt"] == [4] else 503, {"error": {"message": "no"}}

    monkeypatch.setattr(http_client, "MAX_RETRY_WAIT", 3600.0)
    server.answer = refuse_the_first
    policy = remote_policy(server, deadline=1e6)
    policy.client.first_retry_wait = 3600.0
    with pytest.raises(ValueError, match="status 400: no"):
        policy.sample([[4], [5]], np.random.default_rng(0))
    assert_no_request_is_pending()


def test_a_server_that_dies_in_the_middle_is_an_error(server):
    policy = remote_policy(server, concurrency=1, batch_size=1, reuse_stated=False)
    drawn = policy.sample(PROMPTS, np.random.default_rng(0))
    server.faults = [None, *["half"] * 20]
    with pytest.raises(ServerError, match=r"completions failed 3 time\(s\), at last with"):
        policy.log_prob(PROMPTS, drawn)


def test_an_error_tells_the_first_cause_and_the_last(server):
    server.faults = ["drop", 500, 502]
    expected = r"failed 3 time\(s\), first with \w+: .*, at last with status 502"
    with pytest.raises(ServerError, match=expected):
        remote_policy(server).sample([[4]], np.random.default_rng(0))


def test_a_request_is_given_up_at_its_deadline(server):
    """Without a number of retries, and also where an answer never comes."""
    answer = threading.Event()
    for faults in ([503] * 1000, [answer] * 9):
        server.faults = list(faults)
        with pytest.raises(ServerError, match=r"failed \d+ time\(s\)"):
            remote_policy(server, retries=None, deadline=0.2).sample(
                [[4]], np.random.default_rng(0)
            )
    answer.set()


def test_answers_of_a_failed_call_are_kept(server):
    expected = remote_policy(server).sample(PROMPTS, np.random.default_rng(0))
    policy = remote_policy(server, concurrency=1)
    server.requests.clear()
    server.faults = [None, None, 404]
    with pytest.raises(ServerError, match="404"):
        policy.sample(PROMPTS, np.random.default_rng(0))
    assert len(server.requests) == 3
    assert np.array_equal(policy.sample(PROMPTS, np.random.default_rng(0)), expected)
    assert len(server.requests) == 5
    policy.sample(PROMPTS, np.random.default_rng(0))  # and forgotten after a call that succeeded
    assert len(server.requests) == 9


def test_a_client_can_be_pickled(server):
    policy = remote_policy(server, api_key="secret")
    expected = policy.sample(PROMPTS, np.random.default_rng(0))
    loaded = pickle.loads(pickle.dumps(policy))
    assert np.array_equal(loaded.sample(PROMPTS, np.random.default_rng(0)), expected)


def test_a_forked_process_has_connections_of_its_own(server):
    policy = remote_policy(server)
    expected = policy.sample(PROMPTS, np.random.default_rng(0))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply_async(policy.sample, (PROMPTS, np.random.default_rng(0))).get(DEADLINE)
    assert np.array_equal(found, expected)


def test_inside_of_a_running_event_loop(server):
    async def sample():
        return remote_policy(server).sample(PROMPTS, np.random.default_rng(0))

    expected = remote_policy(server).sample(PROMPTS, np.random.default_rng(0))
    assert np.array_equal(asyncio.run(sample()), expected)


def test_an_unavailable_server_is_an_error(models):
    with Loopback(models) as running:
        policy = remote_policy(running)
    with pytest.raises(ServerError, match="ConnectError"):
        policy.sample(PROMPTS, np.random.default_rng(0))


def test_an_address_where_nothing_listens_is_told_within_seconds(models, monkeypatch):
    with Loopback(models) as running:
        url = running.url
    slept = []

    async def wait(seconds):
        slept.append(seconds)
        clock[0] += seconds

    clock = [1000.0]
    monkeypatch.setattr(http_client, "_wait", wait)
    monkeypatch.setattr(http_client.time, "monotonic", lambda: clock[0])
    client = HTTPClient(url)
    told = "ConnectError.*is the server started, and is this its address"
    with pytest.raises(ServerError, match=told):
        client.post_all("x", [{}])
    assert sum(slept) <= http_client.FIRST_CONNECTION_SECONDS
    client._has_answered, slept[:] = True, []  # one that has answered may be starting again
    with pytest.raises(ServerError, match="ConnectError"):
        client.post_all("x", [{}])
    assert sum(slept) > 200


def test_a_server_that_does_not_answer_in_time_is_an_error(server):
    answer = threading.Event()
    server.faults = [answer] * 9
    with pytest.raises(ServerError, match=r"failed 2 time\(s\), at last with \w+Timeout"):
        remote_policy(server, timeout=0.1, retries=1).sample([[4]], np.random.default_rng(0))
    answer.set()


def test_a_server_that_sends_a_byte_now_and_then_is_too_slow():
    """In its headers and in its body: the limit is for the whole response."""
    for head in (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"HTTP/1.1 200 OK\r\n"):
        with dripping(head) as url:
            client = HTTPClient(url, timeout=0.2, retries=0, concurrency=1)
            with pytest.raises(ServerError, match="no whole answer in time"):
                client.post_all("x", [{}])


def test_a_caller_whose_program_ends_does_not_wait(server):
    answer, end = threading.Event(), threading.Event()
    server.faults = [answer]
    threading.Timer(0.1, end.set).start()
    with ending(end), pytest.raises(ServerError, match="the program ends"):
        remote_policy(server, timeout=DEADLINE).sample([[4]], np.random.default_rng(0))
    answer.set()


@contextmanager
def dripping(head):
    """A server whose answer begins with this, and then goes on a byte at a time."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with suppress(OSError), listening.accept()[0] as connection:
            connection.recv(100_000)
            connection.sendall(head)
            while True:
                connection.sendall(b"a")
                time.sleep(0.05)

    threading.Thread(target=serve, daemon=True).start()
    with listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_secrets_in_an_address_are_refused_and_not_shown():
    for address in (
        "http://localhost/v1?api_key=secret",
        "http://localhost/v1#secret",
        "http://me:secret@localhost/v1",
        "http://me:secret",
        "http://localhost/v1?",
        "secret",
        "http://localhost/secret\n",
        None,
    ):
        with pytest.raises((ValueError, TypeError), match="base_url must") as raised:
            OpenAIPolicy(address, "base", eos_token_id=0)
        assert "secret" not in str(raised.value)
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
    slashed = OpenAIPolicy("http://localhost/v1/", "base", eos_token_id=0)
    assert "'http://localhost/v1'" in repr(slashed)


def test_a_comparison_of_the_served_model_leaves_kept_answers_alone(server):
    """It comes before the call that is made again: after minutes of failures it is due."""
    policy = remote_policy(server, concurrency=1, probe_seconds=0.0)
    policy.check_unchanged()
    server.requests.clear()
    server.faults = [None, None, None, 404]  # the comparison, two draws, and a failure
    with pytest.raises(ServerError, match="404"):
        policy.sample(PROMPTS, np.random.default_rng(0))
    policy.sample(PROMPTS, np.random.default_rng(0))
    draws = [body for body in server.requests if "prompt_logprobs" not in body]
    assert len(draws) == len(PROMPTS) + 1


def test_an_error_names_the_request_of_several(server):
    server.faults = [None, None, 400]
    with pytest.raises(ValueError, match=r"status 400.*\(request 3 of 4\)"):
        remote_policy(server, concurrency=1).sample(PROMPTS, np.random.default_rng(0))
    server.faults = [400]
    with pytest.raises(ValueError, match="status 400") as raised:
        remote_policy(server).sample(PROMPTS[:1], np.random.default_rng(0))
    assert "request 1" not in str(raised.value)


@pytest.mark.parametrize("scores", [True, False])
def test_a_server_that_ends_while_it_is_asked_is_named(models, scores):
    with Loopback(models) as server:
        policy = remote_policy(server, retries=1)
        expected = "the server has ended while it was asked"
        if scores:
            expected += r"\. vLLM .* unless it was started with --lora-target-modules"

        class Ending(threading.Event):
            def wait(self, timeout=None):
                server.http.socket.close()  # no new connection
                raise ConnectionResetError

        server.faults = [Ending()]
        server.http.handle_error = lambda *_: None
        ask = policy.log_prob if scores else policy.sample
        with pytest.raises(ServerError, match=expected):
            ask([[4]], [[5, 5, 5, 5, 5]] if scores else np.random.default_rng(0))


def test_requests_are_shown_as_progress_also_those_that_are_equal_or_kept(server):
    policy, reporter = remote_policy(server, concurrency=1), Counted()
    rows = PROMPTS[[0, 0, 1]]
    with progress.reported_to(reporter):
        policy.sample(PROMPTS, np.random.default_rng(0))
        policy.rescoring().log_prob(rows, np.full((3, 5), 5))
        policy.client.post_all("completions", [server.requests[0]] * 3, doing="asking")
        server.faults = [None, 404]
        with suppress(ServerError):
            policy.sample(PROMPTS, np.random.default_rng(1))
        assert reporter.steps["drawing from 'base'"] == [1, 4]
        policy.sample(PROMPTS, np.random.default_rng(1))
    assert reporter.steps == {
        "drawing from 'base'": [4, 4],
        "scoring under 'base'": [1, 1],
        "asking": [3, 3],
    }


def test_connections_of_a_parent_process_are_not_closed_in_a_child(server):
    policy = remote_policy(server)
    policy.sample(PROMPTS, np.random.default_rng(0))
    http_client._close(policy.client._client, process=-1)
    policy.sample(PROMPTS, np.random.default_rng(0))
    assert not policy.client._client.is_closed
