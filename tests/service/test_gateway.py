"""The gateway of a release between real upstreams, asked by OpenAI's own client."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import unquote

import httpx2
import numpy as np
import openai
import pytest
from starlette.responses import Response

from tests.service.running import LONG, bearer, keys_of, outcome, running, settings, token, until
from tether.runs import Run
from tether.runs.shares import fresh_share
from tether.service.access import add_key
from tether.service.releases import PatientRelease

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
PATIENCE = {"connect_within": LONG, "first_byte_within": LONG}
GUARDRAILS = {name: 0.5 for name in ("complaint", "failure", "slow")}
RELEASE = {"guardrails": GUARDRAILS, "old": dict.fromkeys(GUARDRAILS, 0.01), "stop": "none"}
REPORTED = {"failure_guardrail": "failure", "latency_guardrail": "slow", "slow_after": LONG}


def gateway(folder, upstreams, release=RELEASE, limits=None, **options):
    """A service with a gateway, and its client."""
    table = {each.name: PATIENCE | {"url": each.url} for each in upstreams}
    release = release | {"gateway": table | options}
    return running(settings(folder, release, limits=limits or {}))


def official(http, **options):
    """OpenAI's own client of a gateway."""
    given = {"api_key": "none", "max_retries": 0, "timeout": LONG} | options
    return openai.OpenAI(base_url=str(http.base_url).rstrip("/") + "/v1", **given)


def chat(http, key, **body):
    """The answer to a chat of a key."""
    asked = {"model": "m", "messages": HELLO} | body
    return http.post("/v1/chat/completions", json=asked, headers={"X-Tether-Key": key})


def served(response):
    return response.status_code, *(response.headers[f"x-tether-{n}"] for n in ("system", "served"))


def losses(folder, name="failure"):
    """How many losses of each system are known, and their sum; the store must be in order."""
    with Run.open(folder / "release.db") as run:
        assert run.verify() == []
        units = run.history().units
    found = {}
    for arm in ("old", "new"):
        known = [each.means[arm][name] for each in units if each.means[arm][name].count]
        count = sum(each.count for each in known)
        found[arm] = count, round(sum(each.count * each.mean for each in known))
    return found


def test_the_official_client_is_answered_by_the_system_of_its_key(tmp_path, upstreams):
    with gateway(tmp_path, upstreams) as http:
        client = official(http)
        assert client.models.list().data[0].id == "model of old"
        for system in ("old", "new"):
            (key,) = keys_of(http, system)
            raw = client.chat.completions.with_raw_response.create(
                model="m", messages=HELLO, user=key, tools=[TOOL]
            )
            assert raw.parse().choices[0].message.content == system
            found = [raw.headers[f"x-tether-{name}"] for name in ("system", "served", "stored")]
            assert found == [system, system, "true"]
            assert unquote(raw.headers["x-tether-key"]) == key
            assert raw.headers["x-request-id"] == system
            assert upstreams[system == "new"].bodies[-1]["tools"] == [TOOL]
            done = client.completions.create(model="m", prompt="hello", user=key)
            assert done.choices[0].text == system
            asked = {"model": "m", "messages": HELLO, "stream": True, "user": key}
            stream = client.chat.completions.create(**asked)
            texts = [chunk.choices[0].delta.content for chunk in stream]
            assert texts == [f"{system} {number}" for number in range(3)]
        assert not any("cookie" in sent for each in upstreams for sent in each.headers)
        session = {"X-Tether-Key": "session zoë".encode()}
        raw = http.post("/v1/chat/completions", json={"messages": HELLO}, headers=session)
        assert unquote(raw.headers["x-tether-key"]) == "session zoë"


def test_the_key_of_this_service_stays_here(tmp_path, upstreams, monkeypatch):
    monkeypatch.setenv("NEW_KEY", "sk-new")
    old, new = upstreams
    secret = add_key(tmp_path / "keys.json", "app", ["decide"])
    other = add_key(tmp_path / "keys.json", "watcher", ["read"])
    table = {"old": {"url": old.url}, "new": {"url": new.url, "model": "tuned"}}
    table["new"]["api_key"] = "${NEW_KEY}"
    given = settings(tmp_path, RELEASE | {"gateway": table}, access={"keys": "keys.json"})
    with running(given) as http:
        http.headers = bearer(secret)
        client = official(http, api_key=secret)
        for system, model in (("old", "m"), ("new", "tuned")):
            stream = client.chat.completions.create(
                model="m", messages=HELLO, user=keys_of(http, system)[0], stream=True
            )
            assert [each.model for each in stream] == [model] * 3
        assert "authorization" not in old.headers[-1]
        assert new.headers[-1]["authorization"] == "Bearer sk-new"
        assert secret not in json.dumps([old.headers, new.headers])
        with pytest.raises(openai.AuthenticationError, match="a valid API key is needed"):
            official(http, api_key="x").chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(openai.PermissionDeniedError, match="lacks the role 'decide'"):
            official(http, api_key=other).models.list()


def test_a_client_that_leaves_and_a_stream_that_breaks(tmp_path, upstreams):
    _, new = upstreams
    with gateway(tmp_path, upstreams, **REPORTED) as http:
        left, broken = keys_of(http, "new", 2)
        new.respond = new.gated
        new.gates[0].set()
        stream = official(http).chat.completions.create(
            model="m", messages=HELLO, stream=True, user=left
        )
        assert next(stream).choices[0].delta.content == "new 0"
        stream.close()
        assert new.closed.wait(LONG)  # the upstream is told
        new.respond = new.broken
        stream = official(http).chat.completions.create(
            model="m", messages=HELLO, stream=True, user=broken
        )
        assert next(stream).choices[0].delta.content == "new 0"
        with pytest.raises(openai.APIError, match="the upstream's stream has broken"):
            next(stream)


@pytest.mark.parametrize(
    ("new_answers", "old_answers", "expected", "failed"),
    [
        ("answer", "answer", (200, "new", "new"), 0),
        (500, "answer", (200, "new", "old"), 1),
        (401, "answer", (200, "new", "old"), 1),  # the operator's key is wrong
        (429, "answer", (200, "new", "old"), 1),
        (404, "answer", (200, "new", "old"), 1),  # the old one would have answered
        (400, 400, (400, "new", "old"), 0),  # the client's error
        (500, 500, (502, "new", "none"), 1),
        (400, 500, (400, "new", "new"), 1),
    ],
)
def test_the_row_is_of_the_system_that_was_decided(
    tmp_path, upstreams, new_answers, old_answers, expected, failed
):
    for each, answers in zip(upstreams, (old_answers, new_answers), strict=True):
        each.respond = each.answer if answers == "answer" else each.status(answers)
    with gateway(tmp_path, upstreams, **REPORTED) as http:
        first = keys_of(http, "new")[0]
        assert served(chat(http, first)) == expected  # its row was made by another request
        for number in range(100):
            found = chat(http, f"fresh {number}")
            if found.headers["x-tether-system"] == "new":
                break
        assert served(found) == expected
    assert losses(tmp_path)["new"] == (1, failed)


def test_refusals_and_long_answers_keep_no_connection(tmp_path, upstreams, monkeypatch):
    monkeypatch.setattr("tether.service.upstreams.MOST_BYTES", 10_000)
    monkeypatch.setattr("tether.service.upstreams.LIMITS", httpx2.Limits(max_connections=2))
    _, new = upstreams
    with gateway(tmp_path, upstreams) as http:
        (key,) = keys_of(http, "new")
        packed = gzip.compress(json.dumps({"choices": [HELLO]}).encode() + b" " * 10_000)
        long = Response(packed, 200, {"content-encoding": "gzip"}, "application/json")
        for answer in (new.status(500), lambda *_: long):
            new.respond = answer
            assert {served(chat(http, key)) for _ in range(4)} == {(200, "new", "old")}
        new.respond = new.answer
        assert served(chat(http, key)) == (200, "new", "new")


@pytest.mark.parametrize(("by_decision", "holds"), [(True, True), (False, False)])
def test_the_promise_needs_rows_by_decision_and_not_by_who_answered(by_decision, holds):
    """The new upstream fails on hard requests, and the old one answers them late.

    If only what the new one answered counted, its rows were selected by their outcome.
    """
    alpha, old_risk, is_hard, is_late = 0.05, 0.02, 0.2, 0.5
    rng, risks = np.random.default_rng(1), []
    for _ in range(200):
        hard = rng.random(200) < is_hard
        lost = (hard & (rng.random(200) < is_late)).astype(float)
        share = fresh_share(lost if by_decision else lost[~hard], old_risk, alpha)
        risks.append((1 - share) * old_risk + share * is_hard * is_late)
    error = np.std(risks) / np.sqrt(len(risks))
    assert (np.mean(risks) <= alpha + 3 * error) == holds
    assert np.mean(risks) > old_risk + 3 * error  # it does something


def test_the_loss_of_a_row_is_that_of_its_first_request_also_if_it_ends_last(tmp_path, upstreams):
    _, new = upstreams
    with gateway(tmp_path, upstreams, **REPORTED) as http:
        new.respond = new.gated
        new.gates[0].set()
        for number in range(100):
            headers = {"X-Tether-Key": f"late {number}"}
            body = {"model": "m", "messages": HELLO, "stream": True}
            with http.stream(
                "POST", "/v1/chat/completions", json=body, headers=headers
            ) as response:
                if response.headers["x-tether-system"] == "old":
                    continue
                parts = response.iter_raw()
                assert next(parts) == token("new 0")
                new.respond = new.answer
                for _ in range(3):  # they end before the first one, and well
                    assert served(chat(http, f"late {number}")) == (200, "new", "new")
                new.server.force_exit = new.server.should_exit = True  # and then it breaks
                assert b'"error"' in b"".join(parts)
                break
    assert losses(tmp_path)["new"] == (1, 1)


def test_an_answer_that_the_end_of_the_service_cuts_off_is_no_failure(tmp_path, upstreams):
    for each in upstreams:
        each.respond = each.gated
        each.gates[0].set()
    with ThreadPoolExecutor(1) as thread:
        with gateway(tmp_path, upstreams, **REPORTED) as http:
            stream = thread.submit(chat, http, "ann", stream=True)
            until(lambda: sum(len(each.bodies) for each in upstreams))
        assert stream.exception() or b"shutting down" in stream.result().content
    assert sorted(losses(tmp_path).values()) == [(0, 0), (1, 0)]


def test_reports_are_stored_before_a_step_can_close(tmp_path, upstreams):
    """Steps of few keys, and no loss: no report that was on its way counts as a failure."""
    release = {"guardrails": {"failure": 0.5}, "old": {"failure": 0.01}, "step": 20}
    with gateway(tmp_path, upstreams, release, failure_guardrail="failure") as http:

        def ask(number):
            return chat(http, f"user {number}").status_code == 200

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(ask, range(240)))
    with Run.open(tmp_path / "release.db") as run:
        history = run.history()
        assert run.verify() == []
    assert len(history.units) >= 4  # a step is longer by what is under way when it is over
    assert history.share > 0.9  # a step with eight "failures" of twenty would have lost its share
    assert [each.pending for each in history.units] == [0] * len(history.units)
    assert losses(tmp_path)["new"][1] == 0


def test_a_step_waits_for_answers_under_way(tmp_path, upstreams):
    """Of twenty keys those with the new system answer slowly, and all of them well."""
    for each in upstreams:
        each.respond = each.gated
        each.gates[0].set()
    release = {"guardrails": dict.fromkeys(("complaint", "failure"), 0.5), "step": 20}
    release |= {"old": dict.fromkeys(("complaint", "failure"), 0.01), "stop": "none"}
    body = {"model": "m", "messages": HELLO, "stream": True}
    with gateway(tmp_path, upstreams, release, failure_guardrail="failure") as http:

        def stream(number):
            headers = {"X-Tether-Key": f"slow {number}"}
            return http.stream("POST", "/v1/chat/completions", json=body, headers=headers)

        def report(key, system):
            asked = outcome(key, system, complaint=0.0)
            assert http.post("/v1/outcomes", json=asked).status_code == 200

        with ExitStack() as streams:
            answers = [streams.enter_context(stream(number)) for number in range(20)]
            systems = [each.headers["x-tether-system"] for each in answers]
            assert systems.count("new") >= 4
            for number, system in enumerate(systems):
                report(f"slow {number}", system)
            for each in upstreams:
                each.respond = each.answer
            for number in range(20):
                report(f"fast {number}", chat(http, f"fast {number}").headers["x-tether-system"])
            assert http.get("/v1/gate").json()["step"] == 1
            for each in upstreams:
                for gate in each.gates:
                    gate.set()
            for each in answers:
                assert each.read().endswith(b"[DONE]\n\n")
        until(lambda: http.get("/v1/gate").json()["step"] == 2)
    with Run.open(tmp_path / "release.db") as run:
        assert run.verify() == []
        first, second = run.history().units[:2]
    assert first.pending == 0
    assert second.level > first.level  # with the slow ones as failures it would have been less


def test_without_the_store_the_old_upstream_answers_and_nothing_counts(tmp_path, upstreams):
    limits = {"answer_within": 0.2, "store_deadline": 1.0}
    with gateway(tmp_path, upstreams, limits=limits, **REPORTED) as http:
        (key,) = keys_of(http, "new")
        with Run.open(tmp_path / "release.db", deadline=LONG) as other:
            found = other.submit(lambda t: [chat(http, key) for _ in range(3)], LONG)
            streamed = other.submit(lambda t: chat(http, key, stream=True).content, LONG)
        assert streamed.startswith(token("old 0"))
        for each in found:
            assert served(each) == (200, "old", "old")
            assert each.headers["x-tether-stored"] == "false"
        later = until(
            lambda: chat(http, key), lambda later: later.headers["x-tether-stored"] == "true"
        )
        assert served(later) == (200, "new", "new")
    assert losses(tmp_path)["old"] == (0, 0)


@pytest.mark.parametrize(
    ("content", "headers", "status", "message"),
    [
        (b"[]", {}, 400, "Expected `object`"),
        (b'{"user": 3.5}', {}, 400, "got `float` - at `$.user`"),
        (b'{"\xff": 1}', {}, 400, "not valid JSON"),
        (b"{}", {"X-Tether-Key": b"\xff"}, 400, "x-tether-key must be text in UTF-8"),
        (b"{}", {"X-Tether-Key": b""}, 400, "must have 1 to 500 bytes"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "content type must be application/json"),
    ],
)
def test_errors_have_the_shape_of_openais(client, content, headers, status, message):
    given = {"Content-Type": "application/json"} | headers
    found = client.post("/v1/chat/completions", content=content, headers=given)
    assert found.status_code == status
    error = found.json()["error"]
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


def test_a_tightening_does_not_hurry_the_step_that_collects_rows_of_the_old_system():
    options = {"step": 5, "reported": ["failure"], "patience": 60.0}
    with pytest.raises(ValueError, match="failure_guardrail"):
        PatientRelease("sqlite://", guardrails={"error": 0.5}, **options)
    with PatientRelease("sqlite://", guardrails={"failure": 0.5}, **options) as release:
        release.assign(range(6))
        release.observe(0, {"failure": 0.0})
        release.tighten("to be sure", failure=0.4)
        assert release.step.number == 1  # five answers are under way
        release.observe(range(1, 6), {"failure": np.zeros(5)})
        assert release.step.number == 2
        release.tighten("surer", failure=0.3)
        assert release.step.number == 3
        assert release.verify() == []
