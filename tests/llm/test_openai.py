"""A policy over HTTP, against a real server on loopback: right numbers or an error, no third."""

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

import tether
from tests.llm import tiny
from tests.llm.loopback import Loopback
from tether.llm import CausalPolicy, OpenAIPolicy, keys, retrying
from tether.llm.server import ServerError

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])
KEY = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def models():
    return {"base": tiny.llama(scale=0.3), "tuned": tiny.llama(scale=0.3, seed=1)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


def asking(server, model="base", **options):
    options = {"eos_token_id": 0, "max_new_tokens": 5, "retries": 2, **options}
    policy = OpenAIPolicy(server.url, model, **options)
    policy.server.first_wait = 0.01
    return policy


@pytest.fixture
def drawn(server):
    return asking(server).sample(PROMPTS, np.random.default_rng(0))


def test_scores_are_those_of_the_model(server, models):
    policy, local = asking(server, batch=3), CausalPolicy(models["base"], None, max_new_tokens=5)
    prompts = np.repeat(PROMPTS, 5, axis=0)
    actions, stated = policy.sample_scored(prompts, np.random.default_rng(0))
    scores = policy.log_prob(prompts, actions)
    assert np.allclose(scores, local.log_prob(prompts, actions), atol=1e-5)
    assert np.allclose(scores, stated, atol=1e-5)
    theirs = local.sample(prompts, np.random.default_rng(0))
    assert np.allclose(policy.log_prob(prompts, theirs), local.log_prob(prompts, theirs), atol=1e-5)


def test_every_draw_has_a_seed_of_its_own(server):
    rng = np.random.default_rng(0)
    policy = asking(server)
    first, second = (policy.sample(np.tile([4, 5], (40, 1)), rng) for _ in range(2))
    seeds = [body["seed"] for body in server.requests]
    assert len(set(seeds)) == 80
    assert len(np.unique(first, axis=0)) > 20
    assert not np.array_equal(first, second)
    again = policy.sample(np.tile([4, 5], (40, 1)), np.random.default_rng(0))
    assert np.array_equal(first, again)


def test_defaults_of_the_server_are_overruled(models):
    """A server that cuts to the best two and marks its texts, unless it is told not to."""
    defaults = {"top_k": 2, "temperature": 0.2, "watermarking": True}
    with Loopback(models, defaults=defaults) as running:
        actions = asking(running).sample(np.tile([4, 5], (60, 1)), np.random.default_rng(0))
    assert len(np.unique(actions[:, 0])) > 10


def test_two_served_models_make_a_tether(server):
    safe, optimized = asking(server, "base"), asking(server, "tuned")
    policy = tether.Tethered(safe, optimized, 0.7)
    actions, info = policy.sample_with_info(PROMPTS[:2], np.random.default_rng(0))
    assert actions.shape == (2, 5)
    assert info.draws >= 2
    assert {body["model"] for body in server.requests} == {"base", "tuned"}


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


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 501, 505])
def test_a_refusal_is_not_asked_for_twice(server, status):
    server.faults = [status]
    with pytest.raises(ValueError, match=f"refused the request with status {status}: overloaded"):
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


def test_a_server_says_how_long_to_wait(server, monkeypatch):
    """Not at all, a second, until a time that has passed; and never for longer than is borne."""
    passed = "Wed, 21 Oct 2015 07:28:00 GMT"
    found = waits(server, 429, (503, "1"), (503, passed), first=0.5)
    assert found[0] < 0.5
    assert found[1] >= 1.0
    assert found[2] < 2.0
    monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.05)
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
        assert retrying.wait_asked(header, now) == seconds
    for header in (None, "", "²", "-1", "soon", "1.5", "Fri, 99 Jan 2026 03:04:15 GMT"):
        assert retrying.wait_asked(header, now) is None


def test_an_interrupt_ends_the_waiting(server):
    """Ctrl-C while requests wait for a second try: at once, and none is sent any more."""
    server.faults = [(503, "20")] * 9
    main = threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asking(server, concurrency=2).sample(np.tile([4, 5], (6, 1)), np.random.default_rng(0))
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


def test_a_server_that_dies_in_the_middle_is_an_error(server, drawn):
    policy = asking(server, concurrency=1, batch=1)
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


def without(field):
    return lambda answer: [choice.pop(field) for choice in answer["choices"]]


def change(field, value):
    def fault(answer):
        for choice in answer["choices"]:
            choice[field] = value(choice[field])

    return fault


def other_ids(entries):
    return [None] + [{"55": next(iter(each.values()))} for each in entries[1:]]


def numbered(place):
    return lambda answer: answer["choices"][0].update(index=place)


def scored(value):
    return change(
        "prompt_logprobs",
        lambda each: [
            None,
            *({token: {"logprob": value} for token in entry} for entry in each[1:]),
        ],
    )


SCORE_FAULTS = {
    "returned 'x' as a choice, not an object": lambda answer: answer.update(choices=["x"]),
    r"numbered its choices \[None\]": numbered(None),
    r"numbered its choices \[1\]": numbered(1),
    r"numbered its choices \[False\]": numbered(False),
    "returned 7 as prompt_token_ids, not a list": change("prompt_token_ids", lambda each: 7),
    "returned True as the log-prob": scored(True),
    "returned '-1.0' as the log-prob": scored("-1.0"),
    "returned 3.5 as the log-prob.*logits": scored(3.5),
    "returned nan as the log-prob": scored(float("nan")),
    "no log-probabilities": without("prompt_logprobs"),
    "8 log-probabilities for a text of": change("prompt_logprobs", lambda each: [None] * 8),
    "of other token ids than asked": change("prompt_logprobs", other_ids),
    "read other token ids than asked": change("prompt_token_ids", lambda each: [1, *each]),
    r"3 choice\(s\) for 1": lambda answer: answer["choices"].extend(answer["choices"] * 2),
    "answered list, no object": "nonsense",
}


@pytest.mark.parametrize("message", SCORE_FAULTS)
def test_a_wrong_score_is_never_a_number(server, message):
    policy = asking(server, batch=1, concurrency=1)
    actions = np.array([[3, 4, 0, -1, -1]])
    assert np.isfinite(policy.log_prob([[4, 5]], actions)).all()
    server.faults = [SCORE_FAULTS[message]]
    with pytest.raises((ValueError, ServerError), match=message):
        policy.log_prob([[4, 5]], actions)


def test_choices_in_any_order_and_likelier_tokens_beside(server, models):
    """Scores go by the index of a choice, and by the token that was asked in an entry."""
    policy, local = asking(server, batch=3), CausalPolicy(models["base"], None, max_new_tokens=5)
    prompts, actions = [[4, 5], [6, 7], [8, 9]], np.array([[3, 4, 5, 6, 7]] * 3)

    def shuffled(answer):
        answer["choices"].reverse()
        for choice in answer["choices"]:
            del choice["prompt_token_ids"]
            for entry in choice["prompt_logprobs"][1:]:
                best = {"logprob": -0.01, "rank": 1, "decoded_token": "?"}
                entry.update({"51": best, **entry})

    server.faults = [shuffled]
    assert np.allclose(policy.log_prob(prompts, actions), local.log_prob(prompts, actions), 0, 1e-5)


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        (None, np.nan),
        ({}, np.nan),
        ({"token_logprobs": [-1.0] * 4}, np.nan),
        ({"token_logprobs": [-1.0, None, -1.0, -1.0, -1.0]}, np.nan),
        ({"token_logprobs": [-1.0, -2, 0.0005, -1.0, -1.0]}, -5.0),
        ({"token_logprobs": [-1.0, -9999.0, -1.0, -1.0, -1.0]}, -np.inf),
    ],
)
def test_what_is_stated_of_a_draw_is_all_or_nothing(server, logprobs, expected):
    fault = change("logprobs", lambda each: logprobs)

    def five(answer):
        change("token_ids", lambda each: [7] * 5)(answer)
        fault(answer)

    server.faults = [five]
    actions, stated = asking(server).sample_scored([[4, 5]], np.random.default_rng(0))
    assert actions.tolist() == [[7] * 5]
    assert np.array_equal(stated, [expected], equal_nan=True)


SAMPLE_FAULTS = {
    "returned 7.9 as a token id": change("token_ids", lambda each: [7.9, 8, 9, 3, 4]),
    "returned '7' as a token id": change("token_ids", lambda each: ["7", 8, 9, 3, 4]),
    "returned True as a token id": change("token_ids", lambda each: [True, 8, 9, 3, 4]),
    "returned -1 as a token id": change("token_ids", lambda each: [-1, 8, 9, 3, 4]),
    "returned 1180591620717411303424 as a token id": change("token_ids", lambda each: [2**70] * 5),
    r"returned \[1\] as logprobs, not an object": change("logprobs", lambda each: [1]),
    "returned 'a' as token_logprobs, not a list": change(
        "logprobs", lambda each: {"token_logprobs": "a"}
    ),
    "returned 'a' as the log-probability of": change(
        "logprobs", lambda each: {"token_logprobs": ["a"] * len(each["tokens"])}
    ),
    "returned 0.5 as the log-probability of": change(
        "logprobs", lambda each: {"token_logprobs": [0.5] * len(each["tokens"])}
    ),
    "returned no token ids": without("token_ids"),
    "stops at tokens or texts of its own": change("token_ids", lambda each: [7]),
    "read other token ids than asked": change("prompt_token_ids", lambda each: each[1:]),
    "for the reason 'abort'": change("finish_reason", lambda each: "abort"),
    "returned 9 tokens": change("token_ids", lambda each: [7] * 9),
    "nothing after the end-of-sequence token": change("token_ids", lambda each: [0, 7, 7, 7, 7]),
}


@pytest.mark.parametrize("message", SAMPLE_FAULTS)
def test_a_wrong_draw_is_never_an_action(server, message):
    server.faults = [SAMPLE_FAULTS[message]]
    with pytest.raises(ValueError, match=message):
        asking(server).sample([[4, 5]], np.random.default_rng(0))


def test_a_prompt_that_is_too_long(server):
    with pytest.raises(ValueError, match="maximum context length is 64"):
        asking(server).sample([[4] * 60], np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"contexts\[1\] has 59 tokens, and at most 58"):
        asking(server, context_length=64).sample(
            np.array([[4] + [-1] * 58, [4] * 59]), np.random.default_rng(0)
        )


def test_the_key_is_sent_and_never_told(models, caplog, capsys):
    with Loopback(models, key=KEY) as running, caplog.at_level(logging.DEBUG):
        policy = asking(running, api_key=KEY)
        policy.sample(PROMPTS, np.random.default_rng(0))
        assert running.headers[0]["Authorization"] == f"Bearer {KEY}"
        running.key = "another"  # the server repeats what it was sent in its refusal
        with pytest.raises(ValueError, match="status 401") as told:
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
    assert keys.checked(key) == key
    for written in (key, repr(key), repr([key]), json.dumps(key), quote(key), quote(key, safe="")):
        assert keys.hidden(f"got {written}.", key).strip("got[]'\". ") == "(key)"
    assert keys.hidden("got sk%2fa.", "sk/a") == "got (key)."
    assert keys.hidden("nothing", None) == "nothing"


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


def test_texts_as_completions():
    options = {"base_url": "http://localhost/v1", "model": "base", "eos_token_id": 0}
    policy = OpenAIPolicy(**options, tokenizer=tiny.tokenizer(), max_new_tokens=4)
    assert policy.texts(policy.completions(["cat", ""])) == ["cat", ""]
    assert policy.completions(["cat", ""])[:, -1].tolist() == [0, -1]
    for ask in (lambda each: each.completions(["cat"]), lambda each: each.texts([[3, 4, 5, 0]])):
        with pytest.raises(ValueError, match="there is no tokenizer"):
            ask(OpenAIPolicy(**options, max_new_tokens=4))


def test_bad_arguments():
    good = {"base_url": "http://localhost:1/v1", "model": "base", "eos_token_id": 0}
    for change, message in (
        ({"temperature": 0.7}, "temperature must be 1.0, got 0.7"),
        ({"base_url": "localhost"}, "base_url must be an address"),
        ({"base_url": "http://me:secret@localhost/v1"}, "no user name or password"),
        ({"eos_token_id": None}, "no end-of-sequence token"),
        ({"max_new_tokens": 0}, "max_new_tokens must be a whole number of at least 1, got 0"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"timeout": 0}, "timeout must be"),
    ):
        with pytest.raises(ValueError, match=message) as told:
            OpenAIPolicy(**{**good, **change})
        assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="is a text, and there is no tokenizer"):
        OpenAIPolicy(**good).sample(["hello"], np.random.default_rng(0))
