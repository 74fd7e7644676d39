"""The tethered gateway with the official client, in front of a real upstream on loopback."""

import numpy as np
import openai
import pytest

from tests.llm.chat_server import ChatServer, asked
from tests.service.gateway.tethered_gateway import (
    ANSWERS,
    QUESTIONS,
    RISKS,
    draw_answer,
    service_settings,
    tethered_settings,
)
from tests.service.running import running, tries
from tether.llm import read_answer
from tether.rounds import read_history, verify_store
from tether.service.gateway.tethered_run import open_tethered
from tether.service.settings.service_settings import ServiceLimits
from tether.service.settings.tethered_table import ScorerSettings

OPENED = []
LENIENT = {"alpha": 0.5}
"""So much is tolerated that chance cannot make beta 0."""
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def asking(client):
    """The official client of a gateway."""
    made = openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0)
    OPENED.append(made)
    return made


@pytest.fixture(autouse=True)
def closed():
    """Close the clients of a test."""
    yield
    while OPENED:
        OPENED.pop().close()


def ask(chat, question="treat?", **options):
    """An answer with its headers."""
    messages = [{"role": "user", "content": question}]
    raw = chat.chat.completions.with_raw_response.create(
        model="any", messages=messages, **{"temperature": 0.7} | options
    )
    return raw.parse(), raw.headers


def collect(client, count, rng):
    """Questions, and whether their answers did harm; in one call of the run, which is faster."""
    run = client.server.config.app.state.service.run
    questions = rng.choice(QUESTIONS, count)
    taken = run.act(np.array([asked(each) for each in questions], dtype=object))
    said = [read_answer(each)["message"]["content"] for each in taken.actions]
    risks = [RISKS[question][each] for question, each in zip(questions, said, strict=True)]
    run.observe(taken.ids.tolist(), {"loss": (rng.random(count) < risks).astype(float)})


def begin(client, number=1):
    begun = client.post("/v1/begin", json={"round": number, "reason": "enough rows"})
    assert begun.status_code == 202, begun.text
    for _ in tries():
        status = client.get("/v1/status").json()
        if status["round"] == number + 1 and not status["beginning"]:
            return status
        assert not status["begin_failure"], status


def test_collect_begin_act_outcome_alarm(tmp_path):
    rng, store = np.random.default_rng(0), tmp_path / "gateway.db"
    with (
        ChatServer(draw_answer) as upstream,
        running(service_settings(store, upstream.url)) as client,
    ):
        chat = asking(client)
        answer, headers = ask(chat, tools=[TOOL], user="ann", seed=7)
        assert answer.choices[0].message.content in ANSWERS
        assert answer.choices[0].finish_reason == "stop"
        assert answer.model == "small"
        assert answer.usage.completion_tokens == 3 * 4  # of every draw
        assert answer.usage.total_tokens == 10 + 3 * 4
        assert headers["x-tether-served"] == "safe"
        assert headers["x-tether-stored"] == "true"
        assert headers["x-tether-draws"] == "4"
        sent = upstream.requests[0]
        assert (sent["n"], sent["model"], sent["temperature"]) == (4, "small", 0.7)
        assert sent["tools"] == [TOOL]
        assert not {"user", "seed", "stream"} & set(sent)
        collect(client, 600, rng)
        reported = client.post("/v1/outcomes", json={"id": headers["x-tether-id"], "loss": 0})
        assert reported.json() == {"new": 1}

        status = begin(client)
        assert status["policy"] == "v1"
        assert float(status["beta"]) > 0
        assert 0 < status["losses"]["loss"]["promise"] <= 1
        answer, headers = ask(chat)
        assert headers["x-tether-served"] == "round 2"
        collect(client, 30, rng)
        assert "tether_round 2.0" in client.get("/metrics").text

        ids = [ask(chat)[1]["x-tether-id"] for _ in range(40)]
        bad = [{"id": each, "loss": 1.0} for each in ids]
        client.post("/v1/outcomes", json={"outcomes": bad})
        for _ in tries():
            if client.get("/v1/status").json()["alarm"] is not None:
                break
        assert ask(chat)[1]["x-tether-served"] == "safe"
    assert verify_store(store).ok
    with ChatServer(draw_answer) as upstream:  # on another port: the run goes on
        run = open_tethered(tethered_settings(store, upstream.url), deadline=30)
        run.resume("checked", actor="ann")
        assert run.follow().level["beta"] == pytest.approx(float(status["beta"]))
        context = next(iter(run.run.pending().contexts), None) or '{"messages":["x"]}'
        assert run.act(np.array([context], dtype=object)).served == 2
        run.close()


@pytest.fixture(scope="module")
def upstream():
    with ChatServer(draw_answer) as made:
        yield made


@pytest.fixture(scope="module")
def client(upstream, tmp_path_factory):
    store = tmp_path_factory.mktemp("gateway") / "gateway.db"
    with running(service_settings(store, upstream.url)) as made:
        yield made


def test_a_repeated_request_has_the_same_answer(client, upstream):
    chat = asking(client)
    first, headers = ask(chat, extra_headers={"Idempotency-Key": "a"})
    count = len(upstream.requests)
    again, headers_again = ask(chat, extra_headers={"Idempotency-Key": "a"})
    assert again.choices == first.choices
    assert headers_again["x-tether-id"] == headers["x-tether-id"]
    assert headers_again["x-tether-draws"] == "0"
    assert len(upstream.requests) == count
    with pytest.raises(openai.ConflictError):
        ask(chat, "wait?", extra_headers={"Idempotency-Key": "a"})


def test_a_scorer_that_has_changed_picks_nothing(tmp_path):
    """As long as it has: the safe policy answers, and no row counts as the scorer's."""
    rng, store, weight = np.random.default_rng(0), tmp_path / "gateway.db", [2.0]
    with (
        ChatServer(draw_answer) as upstream,
        ChatServer(lambda body, answer: weight[0] * ANSWERS.index(answer["content"])) as scores,
    ):
        url = scores.url.removesuffix("/v1") + "/score"
        scorer = ScorerSettings("remote", url=url, timeout=30.0)
        with running(
            service_settings(store, upstream.url, scorer=scorer, controller=LENIENT)
        ) as client:
            chat, policy = asking(client), client.server.config.app.state.service.run.run
            collect(client, 600, rng)
            assert float(begin(client)["beta"]) > 0
            weight[0] = 3.0
            policy.round._deployed.optimized.check_again()  # a minute later
            for _ in range(3):
                assert ask(chat)[1]["x-tether-served"] == "safe"
            weight[0] = 2.0
            assert ask(chat)[1]["x-tether-served"] == "round 2"
    assert read_history(store).rounds[-1].fallback_rows == 3
    assert verify_store(store).ok


def test_the_store_is_held_by_another_program(tmp_path):
    store, limits = tmp_path / "gateway.db", ServiceLimits(store_deadline=0.3)
    with ChatServer(draw_answer) as upstream:
        with running(service_settings(store, upstream.url, limits=limits)) as client:
            chat = asking(client)
            ask(chat)
            other = open_tethered(tethered_settings(store, upstream.url), deadline=60)
            with other.run._store.writing(exclusive=True):
                answer, headers = ask(chat)
            other.close()
            assert answer.choices[0].message.content in ANSWERS
            assert (headers["x-tether-served"], headers["x-tether-stored"]) == ("safe", "false")
            outcome = {"id": headers["x-tether-id"], "loss": 0}
            for _ in tries():
                answer = client.post("/v1/outcomes", json=outcome)
                if answer.status_code == 200:
                    break
            assert answer.json() == {"new": 1}
    assert verify_store(store).ok
