"""A policy over HTTP: when it asks again, after what time, and what it never tells."""

import json
import logging
import signal
import threading
import time
from datetime import UTC, datetime
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny
from tests.llm.loopback import Loopback, asking
from tether.llm import OpenAIPolicy
from tether.llm.server import api_keys, retry_rules
from tether.llm.server.http_client import ServerError

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])
KEY = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def models():
    return {"base": tiny.llama(scale=0.3)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


def test_so_many_requests_at_a_time(server):
    server.faults = ["slow"] * 6
    asking(server, concurrency=3).sample(np.tile([4, 5], (12, 1)), np.random.default_rng(0))
    assert 2 <= server.most_busy <= 3


AGAIN = ["drop", "half", "garbled", "zipped", 408, 425, 429, 500, 502, 503, 504, 520, 529]


@pytest.mark.parametrize("fault", AGAIN)
def test_a_request_that_fails_is_sent_again_the_same(server, fault):
    expected = asking(server).sample(PROMPTS, np.random.default_rng(0))
    server.requests.clear()
    server.faults = [fault, fault]
    found = asking(server, concurrency=1).sample(PROMPTS, np.random.default_rng(0))
    assert np.array_equal(found, expected)
    assert len(server.requests) == 6
    assert server.requests[0] == server.requests[1] == server.requests[2]


@pytest.mark.parametrize(
    ("status", "error"),
    [(status, ValueError) for status in (400, 413, 422)]
    + [(status, ServerError) for status in (401, 403, 404, 409, 501, 505)],
)
def test_a_refusal_is_not_asked_for_twice(server, status, error):
    server.faults = [status]
    with pytest.raises(error, match=f"refused the request with status {status}: overloaded"):
        asking(server).sample([[4]], np.random.default_rng(0))
    assert len(server.requests) == 1


def waits(server, *faults, first=0.05, **options):
    """The seconds between the requests of one draw."""
    server.faults = list(faults)
    policy = asking(server, retries=len(faults), **options)
    policy.server.first_wait = first
    policy.sample([[4]], np.random.default_rng(0))
    return np.diff(server.times)


def test_waits_double(server):
    first, second = waits(server, "drop", (503, None), first=0.2)
    assert first >= 0.2
    assert second >= 0.4
    server.times.clear()
    assert waits(server, (503, "0"), "drop", first=0.1)[1] >= 0.2  # what was asked for is done


def test_a_server_says_how_long_to_wait(server, monkeypatch):
    """Not at all, a second, until a time that has passed; and never for longer than is borne."""
    passed = "Wed, 21 Oct 2015 07:28:00 GMT"
    found = waits(server, 429, (503, "1"), (503, passed), first=1.0)
    assert found[0] < 1.0
    assert found[1] >= 1.0
    assert found[2] < 4.0
    monkeypatch.setattr(retry_rules, "LONGEST_WAIT", 0.05)
    server.times.clear()
    assert (waits(server, (503, "9" * 400), (503, "Fri, 31 Dec 9999 23:59:59 GMT")) < 5).all()


def test_what_retry_after_says():
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for header, seconds in {
        "0": 0.0,
        "12": 12.0,
        "Fri, 02 Jan 2026 03:04:15 GMT": 10.0,
        "Fri, 02 Jan 2026 03:04:15 -0000": 10.0,
        "Fri, 02 Jan 2026 02:00:00 GMT": 0.0,
    }.items():
        assert retry_rules.wait_asked(header, now) == seconds
    for header in (None, "", "²", "-1", "soon", "1.5", "Fri, 99 Jan 2026 03:04:15 GMT"):
        assert retry_rules.wait_asked(header, now) is None


def test_an_interrupt_ends_the_waiting(server):
    """Ctrl-C while requests wait for a second try: at once, and none is sent any more."""
    server.faults = [(503, "20")] * 9
    main = threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asking(server, concurrency=2).sample(np.tile([4, 5], (6, 1)), np.random.default_rng(0))
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(5)
            assert not thread.is_alive()
    assert time.monotonic() - start < 5
    assert len(server.requests) <= 2


def test_one_request_that_is_refused_ends_the_others(server):
    def by_prompt(body):
        return 400 if body["prompt"] == [4] else 503, {"error": {"message": "no"}}

    server.answer = by_prompt
    policy = asking(server)
    policy.server.first_wait = 20
    start = time.monotonic()
    with pytest.raises(ValueError, match="status 400: no"):
        policy.sample([[4], [5]], np.random.default_rng(0))
    assert time.monotonic() - start < 5


def test_a_server_that_dies_in_the_middle_is_an_error(server):
    policy = asking(server, concurrency=1, batch=1)
    drawn = policy.sample(PROMPTS, np.random.default_rng(0))
    server.faults = [None, *["half"] * 20]
    with pytest.raises(ServerError, match=r"completions failed 3 time\(s\), at last with"):
        policy.log_prob(PROMPTS, drawn)


def test_a_server_that_is_gone(models):
    with Loopback(models) as running:
        policy = asking(running)
    with pytest.raises(ServerError, match="ConnectError"):
        policy.sample(PROMPTS, np.random.default_rng(0))


def test_a_slow_server_runs_out_of_time(server):
    server.faults = ["slow"] * 9
    with pytest.raises(ServerError, match="ReadTimeout"):
        asking(server, timeout=0.05, retries=1).sample([[4]], np.random.default_rng(0))


def test_the_key_is_sent_and_never_told(models, caplog, capsys):
    with Loopback(models, key=KEY) as running, caplog.at_level(logging.DEBUG):
        policy = asking(running, api_key=KEY)
        policy.sample(PROMPTS, np.random.default_rng(0))
        assert running.headers[0]["Authorization"] == f"Bearer {KEY}"
        running.key = "another"  # the server repeats what it was sent in its refusal
        with pytest.raises(ServerError, match="status 401") as told:
            policy.sample(PROMPTS, np.random.default_rng(0))
    printed = capsys.readouterr()
    everything = [str(told.value), repr(policy), repr(policy.server), caplog.text, *printed]
    assert not any(KEY in text for text in everything)
    assert "(key)" in str(told.value)


def test_a_key_from_a_file_is_stripped(models, tmp_path):
    (tmp_path / "key").write_text(f" {KEY}\n")
    with Loopback(models, key=KEY) as running:
        policy = asking(running, api_key=(tmp_path / "key").read_text())
        assert policy.sample([[4]], np.random.default_rng(0)).shape == (1, 5)
        asking(running, api_key=None)
        running.key = None
        asking(running, api_key="\n").sample([[4]], np.random.default_rng(0))
        assert "Authorization" not in running.headers[-1]


@pytest.mark.parametrize(
    "key", ["sk-secret 123", "sk-secret\n123", "sk-sécret", "sk-secret\x00", b"sk"]
)
def test_a_key_that_no_header_carries(key):
    with pytest.raises((ValueError, TypeError), match="api_key must be") as told:
        OpenAIPolicy("http://localhost:1/v1", "base", eos_token_id=0, api_key=key)
    assert "sk" not in str(told.value)
    assert told.value.__cause__ is told.value.__context__ is None


@pytest.mark.parametrize("room", range(470, 501, 5))
def test_no_part_of_a_key_is_left_at_a_cut(models, room):
    with Loopback(models) as running:
        running.answer = lambda body: (400, {"error": {"message": "x" * room + KEY + "y" * 99}})
        with pytest.raises(ValueError, match="status 400: x") as told:
            asking(running, api_key=KEY).sample([[4]], np.random.default_rng(0))
    assert "sk-" not in str(told.value)
    assert len(str(told.value)) < 600


def test_a_key_is_hidden_however_it_is_written():
    key = "sk/a+b='c\\d\"%e"
    assert api_keys.checked(key) == key
    for written in (key, repr(key), repr([key]), json.dumps(key), quote(key), quote(key, safe="")):
        assert api_keys.hidden(f"got {written}.", key).strip("got[]'\". ") == "(key)"
    assert api_keys.hidden("got sk%2fa.", "sk/a") == "got (key)."
    assert api_keys.hidden("nothing", None) == "nothing"


def test_what_an_address_may_hide_is_not_shown():
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
        with pytest.raises((ValueError, TypeError), match="base_url must") as told:
            OpenAIPolicy(address, "base", eos_token_id=0)
        assert "secret" not in str(told.value)
        assert told.value.__suppress_context__ or told.value.__context__ is None
    slashed = OpenAIPolicy("http://localhost/v1/", "base", eos_token_id=0)
    assert "'http://localhost/v1'" in repr(slashed)
