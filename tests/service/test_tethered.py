"""The tethered gateway with the official client: best of N, the promise."""

from itertools import product

import numpy as np
import openai
import pytest

from tests.llm.chat_server import ChatServer, asked
from tests.scale import scaled
from tests.service.running import LONG, running, settings, until
from tests.service.test_gateway import official
from tests.service.test_runs import begin
from tether.llm import read_answer
from tether.llm.chat import canonical_json
from tether.llm.client import Client
from tether.policies import ShortlistRows
from tether.runs import Run
from tether.service.tethered import open_tethered

ANSWERS = ("no", "maybe", "yes")
PROBABILITIES = np.array([0.5, 0.3, 0.2])
QUESTIONS = ("treat?", "wait?")
RISKS = {"treat?": dict(no=0.0, maybe=0.1, yes=0.6), "wait?": dict(no=0.0, maybe=0.05, yes=0.2)}
"""The probability that an answer does harm, to each question."""
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def draw_answer(request, rng):
    """What the upstream answers."""
    return ANSWERS[rng.choice(3, p=PROBABILITIES)]


def prefer_yes(messages, answers):
    """A scorer that likes what does harm."""
    return [2.0 * ANSWERS.index(each["content"]) for each in answers]


def table(store, url, **options):
    """A gateway that tolerates harm in 15 of 100 answers."""
    old = {"url": url, "model": "small", "timeout": LONG, "retries": 0}
    scorers = {"v1": {"function": "tests.service.test_tethered:prefer_yes"}}
    usual = {"store": str(store), "old": old, "candidates": 4}
    controller = {"alpha": 0.15, "missing": "exclude"} | options.pop("controller", {})
    usual |= {"scorer": "v1", "scorers": scorers, "controller": controller}
    return usual | options


def ask(chat, question="treat?", **options):
    """An answer with its headers."""
    messages = [{"role": "user", "content": question}]
    raw = chat.chat.completions.with_raw_response.create(
        model="any", messages=messages, **{"temperature": 0.7} | options
    )
    return raw.parse(), raw.headers


def collect(served, count, rng):
    """Questions, and whether their answers did harm; in one call of the run, which is faster."""
    questions = rng.choice(QUESTIONS, count)
    taken = served.act(np.array([asked(each) for each in questions], dtype=object))
    said = [read_answer(each)["message"]["content"] for each in taken.actions]
    risks = [RISKS[question][each] for question, each in zip(questions, said, strict=True)]
    served.run.observe(taken.ids, (rng.random(count) < risks).astype(float))


def test_collect_begin_act_outcome_alarm(tmp_path):
    rng, store = np.random.default_rng(0), tmp_path / "gateway.db"
    with ChatServer(draw_answer) as upstream:
        with (
            running(settings(tmp_path, gateway=table(store, upstream.url))) as client,
            official(client) as chat,
        ):
            answer, headers = ask(chat, tools=[TOOL], user="ann", seed=7)
            assert answer.choices[0].message.content in ANSWERS
            assert (answer.choices[0].finish_reason, answer.model) == ("stop", "small")
            assert answer.usage.completion_tokens == 3 * 4  # of every draw
            told = {name: headers[f"x-tether-{name}"] for name in ("served", "stored", "draws")}
            assert told == {"served": "safe", "stored": "true", "draws": "4"}
            sent = upstream.requests[0]
            assert (sent["n"], sent["model"], sent["temperature"]) == (4, "small", 0.7)
            assert sent["tools"] == [TOOL]
            assert not {"user", "seed", "stream"} & set(sent)
            collect(*client.service.served, 600, rng)
            outcome = {"id": headers["x-tether-id"], "loss": 0}
            assert client.post("/v1/outcomes", json=outcome).json() == {"new": 1}

            key = {"Idempotency-Key": "a"}
            first, headers = ask(chat, extra_headers=key)
            count = len(upstream.requests)
            again, headers_again = ask(chat, extra_headers=key)
            assert again.choices == first.choices
            assert headers_again["x-tether-id"] == headers["x-tether-id"]
            assert (headers_again["x-tether-draws"], len(upstream.requests)) == ("0", count)
            with pytest.raises(openai.ConflictError):
                ask(chat, "wait?", extra_headers=key)

            status = begin(client, 1)
            assert status["step"]["policy"] == "v1"
            assert float(status["step"]["level"]) > -20
            assert 0 < status["losses"]["loss"]["promise"] <= 1
            messages = [{"role": "user", "content": "treat?"}]
            stream = chat.chat.completions.create(
                model="any", messages=messages, stream=True, stream_options={"include_usage": True}
            )
            chunks = list(stream)
            assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) in ANSWERS
            assert chunks[-1].usage.total_tokens == 10 + 3 * 4
            answers = [ask(chat) for _ in range(40)]
            assert {headers["x-tether-served"] for _, headers in answers} == {"round 2"}
            bad = [{"id": headers["x-tether-id"], "loss": 1.0} for _, headers in answers]
            client.post("/v1/outcomes", json={"outcomes": bad})
            until(lambda: client.get("/v1/status").json()["alarm"] is not None)
            assert ask(chat)[1]["x-tether-served"] == "safe"
            for wrong in ({"n": 2}, {"logprobs": True}, {"messages": []}):
                with pytest.raises(openai.BadRequestError):
                    chat.chat.completions.create(**{"model": "m", "messages": messages} | wrong)
    with Run.open(store) as run:
        assert run.verify() == []
    with ChatServer(draw_answer) as upstream:  # on another port: the run goes on
        with running(settings(tmp_path, gateway=table(store, upstream.url))) as client:
            client.post("/v1/resume", json={"reason": "checked"})
            with official(client) as chat:
                assert ask(chat)[1]["x-tether-served"] == "round 2"
                upstream.is_down = True
                with pytest.raises(openai.InternalServerError) as error:
                    ask(chat)
                assert (error.value.status_code, "127.0.0.1" in str(error.value)) == (502, False)


def test_a_scorer_that_has_changed_picks_nothing(tmp_path):
    """As long as it has: the safe policy answers, and no row counts as the scorer's."""
    rng, weight = np.random.default_rng(0), [2.0]
    with (
        ChatServer(draw_answer) as upstream,
        ChatServer(lambda body, answer: weight[0] * ANSWERS.index(answer["content"])) as scores,
    ):
        scorers = {"v1": {"url": scores.url.removesuffix("/v1") + "/score", "timeout": LONG}}
        lenient = {"alpha": 0.5}  # chance cannot make beta 0
        given = table(tmp_path / "g.db", upstream.url, scorers=scorers, controller=lenient)
        with running(settings(tmp_path, gateway=given)) as client, official(client) as chat:
            (served,) = client.service.served
            collect(served, 600, rng)
            assert float(begin(client, 1)["step"]["level"]) > -20
            weight[0] = 3.0
            served._improve(None).check_every = 0.0  # as if a minute had gone
            for _ in range(3):
                assert ask(chat)[1]["x-tether-served"] == "safe"
            weight[0] = 2.0
            assert ask(chat)[1]["x-tether-served"] == "round 2"
    with Run.open(tmp_path / "g.db") as run:
        assert run.verify() == []


# ---- the promise --------------------------------------------------------------------------------

SIZE, ROWS, ALPHA = 3, 240, 0.15


class World:
    """The upstream, without a connection: `probabilities` of the answers may change."""

    def __init__(self, seed):
        self.rng, self.probabilities = np.random.default_rng(seed), PROBABILITIES

    def post_all(self, requests):
        return [self.response(body.get("n", 1)) for _, body in requests]

    def response(self, count):
        drawn = self.rng.choice(ANSWERS, count, p=self.probabilities)
        said = [{"role": "assistant", "content": str(each)} for each in drawn]
        return {"choices": [{"message": each, "finish_reason": "stop"} for each in said]}


def deployed_risk(served, probabilities):
    """The exact risk of what is served: over all questions and all sets of candidates."""
    messages = ({"content": each, "role": "assistant"} for each in ANSWERS)
    answers = (canonical_json({"finish_reason": "stop", "message": each}) for each in messages)
    texts = dict(zip(ANSWERS, answers, strict=True))
    sets = list(product(ANSWERS, repeat=SIZE))
    chance = np.array([np.prod([probabilities[ANSWERS.index(a)] for a in each]) for each in sets])
    candidates = np.array([[texts[a] for a in each] for each in sets], dtype=object)
    deployed, risk = served._round._deployed, 0.0
    for question in QUESTIONS:
        picks = np.full((len(sets), SIZE), 1 / SIZE)
        if deployed is not None:
            contexts = np.array([asked(question)] * len(sets), dtype=object)
            picks = np.exp(deployed.policy.log_prob_all(ShortlistRows(contexts, candidates)))
        risks = np.array([[RISKS[question][a] for a in each] for each in sets])
        risk += float(chance @ (picks * risks).sum(axis=1)) / len(QUESTIONS)
    return risk


@pytest.mark.parametrize("changed", [False, True], ids=["the same", "worse after the calibration"])
def test_what_is_deployed_is_at_most_alpha_while_the_upstream_is_the_same(
    tmp_path, monkeypatch, changed
):
    """And not where it has changed: the procedure would notice that it does nothing."""
    risks, worlds = [], []
    monkeypatch.setattr(Client, "post_all", lambda _, asked, **__: worlds[-1].post_all(asked))
    for seed in range(scaled(24)):
        worlds.append(world := World(seed))
        given = table(tmp_path / f"{seed}.db", "http://127.0.0.1:9/v1", candidates=SIZE)
        served = open_tethered(settings(tmp_path, gateway=given), LONG)
        collect(served, ROWS, world.rng)
        served._begin()
        assert not served._begin_failure, served._begin_failure
        shifted = np.array([0.1, 0.3, 0.6]) if changed else PROBABILITIES
        risks.append(deployed_risk(served, shifted))
        served.run.close()
    error = np.std(risks) / np.sqrt(len(risks))
    assert (np.mean(risks) <= ALPHA + 3 * error) != changed
    assert np.mean(risks) > 0.1  # it does something: the safe policy has 0.097
